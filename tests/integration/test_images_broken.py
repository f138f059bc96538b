"""Images that cannot be decoded: broken, cut off, empty, of another kind, too small; under each on_error."""

import consumer
import expected
import harness
import pictures
import test_errors
from test_images import TRAINING, add, cropped, evaluated

COUNT = 40
STEPS = "resize 72, center_crop 64"
UNKNOWN = "its bytes are not a JPEG, PNG or WebP image: they begin with "
BROKEN = {
    3: "its JPEG image cannot be decoded: Premature end of JPEG file",
    11: "its image has no bytes",
    12: UNKNOWN + "6e 6f 7...",
    17: "its WebP image cannot be decoded: premature end of WebP file",
    18: "its JPEG image cannot be decoded: Premature end of JPEG file",
    30: UNKNOWN + "47 49 4...",
}


def some_broken(seed=0):
    """Also what they are next to the others."""
    encoded = pictures.some(COUNT, seed=seed, kinds=("jpg", "png", "webp"))
    whole = list(encoded)
    encoded[3] = encoded[3][: len(encoded[3]) // 3]
    encoded[11], encoded[12] = b"", b"not an image"
    encoded[17] = encoded[17][:200]
    encoded[18] = encoded[18][: len(encoded[18]) // 2]
    encoded[30] = b"GIF89a" + bytes(100)
    return encoded, whole


def serve(encoded, on_error, transform=STEPS, **settings):
    feedd = harness.Instance(**settings)
    add(feedd, encoded, transform, on_error=on_error)
    return feedd


def test_skipped():
    encoded, whole = some_broken()
    wanted = evaluated(whole)
    for reader in ("uring", "mapped"):
        with serve(encoded, "skip", io=reader) as feedd:
            feedd.start()
            batches = consumer.read(feedd, "pictures", 16, shuffle=True, seed=1)
            assert sum(batch["skipped"] for batch in batches) == len(BROKEN)
            expected.check_bytes(wanted, batches)
            assert sorted(sample for batch in batches for sample in batch["samples"]) == [
                i for i in range(COUNT) if i not in BROKEN
            ]
            found = test_errors.counted(feedd, "skipped", len(BROKEN), "pictures")
            reasons = {row["sample"]: row["reason"] for row in found["samples"]}
            assert reasons == BROKEN, found
            assert all(row["file"].endswith(f"{row['sample']:05}.img") for row in found["samples"]), found


def test_replaced():
    """By other samples, in whose steps the place decides, not the sample."""
    encoded, whole = some_broken(1)
    with serve(encoded, "replace", TRAINING, loaders=2) as feedd:
        feedd.start()
        batches = consumer.read(feedd, "pictures", 16, epochs=2, shuffle=True, seed=1)
        expected.check_places(COUNT, batches, 16, epochs=2, shuffle=True, seed=1)
        for batch in batches:
            batch["samples"] = [expected.replaced(COUNT, BROKEN, batch, i, 1) for i in range(batch["count"])]
            assert not set(batch["samples"]) & set(BROKEN)
        pictures.check(batches, whole, pictures.training(48), 1)
        test_errors.counted(feedd, "replaced", 2 * len(BROKEN), "pictures")


def test_one_that_ends_a_feed():
    encoded, whole = some_broken(2)
    for bad, reason in BROKEN.items():
        one = list(whole)
        one[bad] = encoded[bad]
        with serve(one, "fail") as feedd:
            feedd.start()
            with consumer.Consumer(feedd, "pictures", 10, epochs=1) as reader:
                reader.attached()
                reader.fail("EIO", f"sample {bad} cannot be processed", f"{bad:05}.img", reason)
            assert f"sample {bad} was refused by its image steps" in feedd.read_log(), feedd.read_log()


def test_too_small_for_a_step():
    encoded = pictures.some(COUNT, seed=3)
    encoded[5] = pictures.encode(pictures.picture(1, 20, 90), "png")
    with serve(encoded, "skip", "random_crop 40") as feedd:
        feedd.start()
        batches = consumer.read(feedd, "pictures", 10)
        assert [batch["skipped"] for batch in batches] == [1, 0, 0, 0]
        found = test_errors.counted(feedd, "skipped", 1, "pictures")["samples"][0]
        assert (found["sample"], found["reason"]) == (
            5, "found 20 x 90 pixels before random_crop, wanted at least 40 x 40"), found  # fmt: skip


def test_show():
    """feedctl show has what a consumer gets: at a place of an epoch, with a seed."""
    encoded = pictures.some(10, seed=4)
    with serve(encoded, "fail", "random_resized_crop 48, flip 0.5") as feedd:
        add(feedd, encoded, STEPS, "cropped")
        feedd.start()

        def shown(*options):
            feedd.ctl("show", *options, "--field=image", f"--output={feedd.directory}/out.png")
            return pictures.Image.open(feedd.directory / "out.png").convert("RGB")

        def trained(sample, place):
            image = pictures.opened(encoded[sample])
            return pictures.hwc(pictures.flip(pictures.random_resized_crop(image, place, 48), place))

        assert pictures.hwc(shown("cropped", "7")) == cropped(pictures.opened(encoded[7]))
        assert pictures.hwc(shown("pictures", "7")) == trained(7, (0, 0, 7))
        assert pictures.hwc(shown("pictures", "7", "--epoch=3", "--seed=5")) == trained(7, (5, 3, 7))
        at = expected.epoch_batches(10, 10, shuffle=True, seed=5, epoch=3)[0]["samples"][7]
        assert pictures.hwc(shown("pictures", "7", "--epoch=3", "--seed=5", "--shuffle")) == trained(at, (5, 3, 7))


def test_configurations_that_are_refused():
    for transform, *parts in (
        ("scale 1/255", "found a ragged field", "or decode if they are images"),
        ("decode, flip", "found "),
        ("resize 64", "found "),
        ("with label", "found \"with label\", wanted a field that has image steps: there is no transform.label"),
        ("resize", "found \"resize\", wanted resize N"),
        ("resize 64, centre_crop 48", "found \"centre_crop 48\", which is not a step; perhaps you mean \"center_crop\""),
        ("centre_crop 48", "found \"centre_crop 48\", which is not a step; perhaps you mean \"center_crop\""),
        ("decode gray, center_crop 48, mean 1 2 3", "found 3 numbers after mean, wanted 1\n"),
        ("resize 20 20, scale 1/255, flip", "found \"flip\""),
    ):  # fmt: skip
        with serve(pictures.some(1), "fail", transform) as feedd:
            done = feedd.check()
            assert done.returncode and "[dataset pictures] transform.image: " in done.stderr, (transform, done)
            for part in parts:
                assert part in done.stderr, (part, done)
    with harness.Instance() as feedd:
        add(feedd, pictures.some(1), "center_crop 8", pad_image=5000)
        done = feedd.check()
        assert done.returncode and "found a field of u8[5000], wanted encoded images" in done.stderr, done
