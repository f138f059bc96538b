"""Encoded images, decoded and transformed by loaders: every pixel against Pillow and NumPy, in every format, and the same
whoever reads what when."""

import struct

import consumer
import expected
import harness
import numpy as np
import pictures
import pyarrow as pa
import pyarrow.parquet
from PIL import Image, ImageOps
from pyarrow import ipc
from test_folder import write

FIELDS = {"field_image": "bytes @ file", "field_label": "i64 @ class"}
TRAINING = f"random_resized_crop 48, flip 0.5, {pictures.NORMALISE}"
COUNT = 40


def add(instance, encoded, transform, name="pictures", **options):
    """A folder of images in two classes."""
    root = instance.directory / name
    write(root, pictures.files(encoded))
    instance.add_dataset(name, format="folder", path=root, **{**FIELDS, "transform_image": transform, **options})


def labels(encoded):
    return [struct.pack("<q", path.startswith("dog")) for path in pictures.files(encoded)]


def cropped(image):
    return pictures.hwc(pictures.center_crop(pictures.resize(image, 72), 64))


def evaluated(encoded, make=cropped, mode="RGB"):
    return {"image": [make(pictures.opened(data, mode)) for data in encoded], "label": labels(encoded)}


def check(feedd, wanted, name="pictures", batch_size=7, **options):
    batches = consumer.read(feedd, name, batch_size, **options)
    expected.check_run(wanted, batches, batch_size, **options)


def check_training(feedd, encoded, batch_size=7, name="pictures", seed=0, size=48, **options):
    batches = consumer.read(feedd, name, batch_size, seed=seed, **options)
    expected.check_places(len(encoded), batches, batch_size, seed=seed, **options)
    pictures.check(batches, encoded, pictures.training(size), seed)
    return batches


# ---- Pixels ------------------------------------------------------------------------------------------------


def test_resized_and_cropped():
    """The usual steps of an evaluation, with every reader and kind of file."""
    encoded = pictures.some(COUNT)
    wanted = evaluated(encoded)
    for reader in ("auto", "uring", "mapped", "pread"):
        with harness.Instance(io=reader) as feedd:
            add(feedd, encoded, "resize 72, center_crop 64")
            feedd.start()
            check(feedd, wanted)
            check(feedd, wanted, batch_size=16, epochs=2, shuffle=True, seed=4)


def test_training():
    """Random steps: other crops in every epoch, with and without shuffling, and the same ones for the same seed."""
    encoded = pictures.some(COUNT, seed=1)
    with harness.Instance(loaders=2) as feedd:
        add(feedd, encoded, TRAINING)
        feedd.start()
        first = check_training(feedd, encoded, seed=5)
        check_training(feedd, encoded, batch_size=16, epochs=2, shuffle=True, seed=5)
        again = check_training(feedd, encoded, seed=5, epochs=2)
        other = check_training(feedd, encoded, seed=6)
        hashes = [batch["crc"]["image"] for batch in first]
        assert hashes == [batch["crc"]["image"] for batch in again[: len(first)]]
        for others in (other, again[len(first) :]):
            assert not set(hashes) & {batch["crc"]["image"] for batch in others}


def test_grey():
    encoded = pictures.some(COUNT, seed=2)
    wanted = evaluated(encoded, cropped, "L")
    with harness.Instance() as feedd:
        add(feedd, encoded, "decode gray, resize 72, center_crop 64")
        feedd.start()
        check(feedd, wanted)
        assert "image: u8[64,64,1]" in feedd.check().stdout, feedd.check()


def test_arrangements_and_types():
    """What steps on values make of the pixels, with a table and without."""
    encoded = pictures.some(20, seed=3)
    planes = {
        "layout chw": lambda x: x,
        "scale 1/255, layout chw": lambda x: x.astype(np.float32) * np.float32(1 / 255),
        "mean 10 20 30, layout chw, cast f16": lambda x: (
            x.astype(np.float32) - np.float32([10, 20, 30])[:, None, None]
        ).astype(np.float16),
        "layout chw, cast i64": lambda x: x.astype(np.int64),
    }
    with harness.Instance() as feedd:
        for number, steps in enumerate(planes):
            add(feedd, encoded, f"center_crop 32, {steps}", f"set{number}")
        feedd.start()
        for number, make in enumerate(planes.values()):
            wanted = evaluated(
                encoded, lambda image: make(np.asarray(pictures.center_crop(image, 32)).transpose(2, 0, 1)).tobytes()
            )
            check(feedd, wanted, f"set{number}")


def test_stored_pixels():
    """Fields of pixels take the steps, without being decoded."""
    dice = np.random.default_rng(4)
    rgb, grey = dice.integers(0, 256, (30, 40, 50, 3), np.uint8), dice.integers(0, 256, (30, 20, 30), np.uint8)
    with harness.Instance() as feedd:
        path = feedd.directory / "pixels.bin"
        path.write_bytes(b"".join(one.tobytes() + other.tobytes() for one, other in zip(rgb, grey, strict=True)))
        feedd.add_dataset(
            "pixels", format="records", path=path, record_bytes=6600, field_rgb="u8[40,50,3] @ 0",
            field_grey="u8[20,30] @ 6000", transform_rgb=TRAINING, transform_grey="center_crop 16, layout chw",
        )  # fmt: skip
        feedd.start()
        batches = consumer.read(feedd, "pixels", 8, epochs=2, shuffle=True, seed=9)
        for batch in batches:
            places = [(9, batch["epoch"], batch["first"] + i) for i in range(batch["count"])]
            made = [pictures.training(48)(pictures.Image.fromarray(rgb[sample]), place)
                    for sample, place in zip(batch["samples"], places, strict=True)]  # fmt: skip
            middle = [grey[sample][2:18, 7:23].tobytes() for sample in batch["samples"]]
            assert batch["crc"] == {"rgb": pictures.crc(made), "grey": pictures.crc(middle)}, batch


def test_what_a_cut_hands_on():
    """The second margin is cut off again; what is left of the image goes into the next step unharmed."""
    encoded = pictures.some(12)

    def framed(image):
        image = image.resize((32, 32), Image.Resampling.BILINEAR)
        for level in (0, 255):
            image = ImageOps.expand(image, 4, (level,) * 3)
        return pictures.hwc(pictures.center_crop(image.resize((1024, 1024), Image.Resampling.BILINEAR), 224))

    with harness.Instance() as feedd:
        add(feedd, encoded, "resize 32 32, pad 4 fill 0, pad 4 fill 255, resize 1024 1024, center_crop 224")
        feedd.start()
        check(feedd, evaluated(encoded, framed), epochs=3)


def test_a_mask():
    """A field that follows another one's geometry: the same crops and flips, nearest pixels."""
    encoded = pictures.some(COUNT, seed=5, kinds=("png",))
    shapes = [pictures.opened(data).size for data in encoded]
    masks = [pictures.encode(pictures.picture(i, *shape).convert("L"), "png") for i, shape in enumerate(shapes)]
    table = pa.table({"image": pa.array(encoded, pa.binary()), "mask": pa.array(masks, pa.binary())})
    with harness.Instance() as feedd:
        pa.parquet.write_table(table, feedd.directory / "a.parquet")
        feedd.add_dataset("pictures", format="parquet", path="a.parquet", field_image="bytes", field_mask="bytes",
                          transform_image=TRAINING, transform_mask="decode gray, with image, layout chw")  # fmt: skip
        feedd.start()
        batches = consumer.read(feedd, "pictures", 8, epochs=2, shuffle=True, seed=3)
        pictures.check(batches, encoded, pictures.training(48), 3)

        def follow(mask, place):
            crop = pictures.random_resized_crop(mask, place, 48, resample=pictures.Image.Resampling.NEAREST)
            return pictures.hwc(pictures.flip(crop, place))

        pictures.check(batches, masks, follow, 3, "L", "mask")


def test_steps_in_a_row():
    """Margins, a random place, and colours: what each step has left goes through the next one."""
    encoded = pictures.some(COUNT, seed=16)

    def crop(image, place):
        wide = ImageOps.expand(image, 4, (1, 2, 3))
        dice = pictures.Random(place, 0)
        y, x = dice.below(wide.height - 31), dice.below(wide.width - 31)
        return pictures.flip(wide.crop((x, y, x + 32, y + 32)), place)

    def coloured(image, place):
        pixels = (np.asarray(crop(image, place)).astype(np.float32) * np.float32(0.5)).astype(np.uint8)
        dice = pictures.Random(place, 33)
        dice.uniform()  # whether it happens
        x, y, width, height = pictures.erased(dice, 32, 32)
        pixels[y : y + height, x : x + width] = (9, 8, 7)
        return pixels.tobytes()

    steps = "random_crop 32 padding 4 fill 1 2 3, flip"
    with harness.Instance() as feedd:
        add(feedd, encoded, steps, "cropped")
        add(feedd, encoded, f"{steps}, brightness 0.5 0.5, erase 1 fill 9 8 7", "coloured")
        feedd.start()
        for name, make in (("cropped", lambda image, place: pictures.hwc(crop(image, place))), ("coloured", coloured)):
            pictures.check(consumer.read(feedd, name, 8, epochs=2, shuffle=True, seed=6), encoded, make, 6)


def test_augmentations_are_the_same_everywhere():
    """What they do is tested in tests/python; here, that loaders do not matter, and that seeds and epochs do."""
    encoded = pictures.some(COUNT, seed=17)
    hashes = []
    for loaders in (1, 3):
        with harness.Instance(loaders=loaders) as feedd:
            add(feedd, encoded, f"random_resized_crop 48, rand_augment, trivial_augment_wide, {pictures.NORMALISE}")
            feedd.start()
            for seed in (1, 2):
                batches = consumer.read(feedd, "pictures", 8, epochs=2, seed=seed)
                hashes.append([batch["crc"]["image"] for batch in batches])
    assert hashes[0] == hashes[2] and hashes[1] == hashes[3]
    assert len(set(hashes[0] + hashes[1])) == len(hashes[0] + hashes[1])


def test_orientation_and_a_fast_decode():
    turned = []
    for i, image in enumerate(pictures.picture(seed, 90, 60 + seed) for seed in range(8)):
        exif = pictures.Image.Exif()
        exif[0x0112] = i + 1
        turned.append(pictures.encode(image, "jpg", exif=exif))
    large = pictures.some(6, seed=18, kinds=("jpg",), least=500, most=700)
    tall = [pictures.encode(pictures.picture(seed, 90, 200 + seed), "jpg") for seed in range(3)]
    with harness.Instance() as feedd:
        add(feedd, turned, "decode exif, resize 50 40", "turned")
        add(feedd, turned, "resize 50 40", "plain")
        add(feedd, large, "decode fast, resize 64 64", "fast")
        add(feedd, tall, "decode fast, resize 80 80", "tall")
        feedd.start()
        for name, make in (("turned", ImageOps.exif_transpose), ("plain", lambda image: image)):
            wanted = [
                pictures.hwc(make(pictures.undecoded(data)).convert("RGB").resize((40, 50), pictures.Image.Resampling.BILINEAR))
                for data in turned
            ]
            (batch,) = consumer.read(feedd, name, 8)
            assert batch["crc"]["image"] == pictures.crc(wanted), name
        for sample, data in enumerate(large):
            feedd.ctl("show", "fast", str(sample), "--field=image", f"--output={feedd.directory}/fast.png")
            found = np.asarray(pictures.Image.open(feedd.directory / "fast.png").convert("RGB")).astype(int)
            exact = np.asarray(pictures.opened(data).resize((64, 64), pictures.Image.Resampling.BILINEAR)).astype(int)
            assert 0 < np.abs(found - exact).mean() < 6, np.abs(found - exact).mean()
        # Half the size would not be wide enough: these are exact.
        wanted = [pictures.hwc(pictures.opened(data).resize((80, 80), pictures.Image.Resampling.BILINEAR)) for data in tall]
        (batch,) = consumer.read(feedd, "tall", 3)
        assert batch["crc"]["image"] == pictures.crc(wanted)


# ---- Formats -----------------------------------------------------------------------------------------------


def add_formats(instance, encoded, **options):
    """The same images in every format that has fields of bytes. Returns their names."""
    tar, directory = [], instance.directory
    for i, data in enumerate(encoded):
        tar += [(f"{i:05}.img", data)]
    pictures.write_tar(directory / "a.tar", tar)
    table = pa.table({"image": pa.array(encoded, pa.binary())})
    for name, codec in (("plain", None), ("coded", "zstd")):
        with ipc.new_file(str(directory / f"{name}.arrow"), table.schema, options=ipc.IpcWriteOptions(compression=codec)) as to:
            to.write_table(table, max_chunksize=11)
        pa.parquet.write_table(table, directory / f"{name}.parquet", compression=codec or "none", row_group_size=11)
    np.save(directory / "offsets.npy", np.cumsum([0, *map(len, encoded)]).astype(np.int64))
    (directory / "a.bin").write_bytes(b"".join(encoded))
    instance.add_dataset("tar", format="tar", path="a.tar", field_image="bytes @ img", **options)
    instance.add_dataset("records", format="records", path="a.bin", offsets="offsets.npy", field_image="u8", **options)
    for kind in ("plain", "coded"):
        instance.add_dataset(f"arrow-{kind}", format="arrow", path=f"{kind}.arrow", field_image="bytes", **options)
        instance.add_dataset(f"parquet-{kind}", format="parquet", path=f"{kind}.parquet", field_image="bytes", **options)
    return ["tar", "records", *(f"{kind}-{codec}" for kind in ("arrow", "parquet") for codec in ("plain", "coded"))]


def test_every_format():
    encoded = pictures.some(COUNT, seed=6)
    with harness.Instance() as feedd:
        names = add_formats(feedd, encoded, transform_image=TRAINING)
        feedd.start()
        for name in names:
            check_training(feedd, encoded, name=name, shuffle=True, seed=2)


def test_packed():
    """Packed as stored, and transformed when they are read; or packed as they are delivered."""
    encoded = pictures.some(COUNT, seed=7)
    with harness.Instance() as feedd:
        names = add_formats(feedd, encoded)
        add(feedd, encoded, "resize 72, center_crop 64", "cropped")
        add(feedd, encoded, TRAINING, "augmented")
        feedd.add_mix("mixed", {"augmented": 1}, COUNT)
        feedd.start()
        for of in ("augmented", "mixed"):
            done = feedd.ctl("pack", of, feedd.directory / f"{of}-packed")
            assert f"warning: the transform of {of} is random" in done.stderr, done
        for name, of in (("stored", names[0]), ("made", "cropped")):
            done = feedd.ctl("pack", of, feedd.directory / name)
            assert "warning" not in done.stderr, done
            feedd.add_dataset(name, format="packed", path=feedd.directory / f"{name}-?????.feed")
        feedd.datasets["stored"]["transform.image"] = TRAINING
        feedd.write_config()
        feedd.ctl("reload")
        check_training(feedd, encoded, name="stored", shuffle=True, seed=2)
        check(feedd, evaluated(encoded), "made")


def test_a_mix():
    """Sources that store a field in different ways, of which each delivers the same shape: encoded, pixels, and ready."""
    left, right = pictures.some(30, seed=8), pictures.some(50, seed=9)
    dice = np.random.default_rng(10)
    pixels, ready = dice.integers(0, 256, (25, 70, 60, 3), np.uint8), dice.integers(0, 256, (20, 64, 64, 3), np.uint8)
    steps = "resize 72, center_crop 64"
    with harness.Instance() as feedd:
        for name, encoded in (("left", left), ("right", right)):
            write(feedd.directory / name, pictures.files(encoded))
            feedd.add_dataset(name, format="folder", path=name, field_image="bytes @ file", transform_image=steps)
        for name, array in (("pixels", pixels), ("ready", ready)):
            np.save(feedd.directory / f"{name}.npy", array)
            feedd.add_dataset(name, format="npy", field_image=f"{name}.npy")
        feedd.datasets["pixels"]["transform.image"] = steps
        names = ("left", "right", "pixels", "ready")
        feedd.add_mix("all", dict.fromkeys(names, 1), 300)
        feedd.start()
        contents = [{"image": evaluated(encoded)["image"]} for encoded in (left, right)]
        contents += [{"image": [cropped(pictures.Image.fromarray(array)) for array in pixels]}]
        contents += [{"image": [array.tobytes() for array in ready]}]
        mixed = expected.Mixed([expected.Source(content) for content in contents], (1, 1, 1, 1), 300)
        for reader in ({}, {"shuffle": True, "seed": 4}):
            mixed.check(consumer.read(feedd, "all", 16, **reader), **reader)


# ---- The same whoever reads --------------------------------------------------------------------------------


def test_loaders_ranks_and_sharing():
    encoded = pictures.some(64, seed=11)
    for loaders in (1, 3):
        with harness.Instance(loaders=loaders) as feedd:
            add(feedd, encoded, TRAINING)
            feedd.start()
            options = {"epochs": 2, "shuffle": True, "seed": 8}
            check_training(feedd, encoded, batch_size=16, **options)
            for rank in (0, 1):
                batches = consumer.read(feedd, "pictures", 8, rank=rank, world_size=2, **options)
                expected.check_places(64, batches, 8, rank=rank, world_size=2, **options)
                pictures.check(batches, encoded, pictures.training(48), 8)
            with (
                consumer.Consumer(feedd, "pictures", 8, share="both", wait_for=2, **options) as one,
                consumer.Consumer(feedd, "pictures", 8, share="both", wait_for=2, **options) as other,
            ):
                for reader in (one, other):
                    pictures.check(reader.finish(), encoded, pictures.training(48), 8)


def test_kills_and_resuming():
    """All loaders, and then the daemon, are killed; and a consumer continues from a token."""
    encoded = pictures.some(64, seed=12)
    options = {"shuffle": True, "seed": 8, "epochs": 3}
    with harness.Instance(loaders=2) as feedd:
        add(feedd, encoded, TRAINING)
        feedd.start()
        batches = consumer.read_through_kills(feedd, "pictures", 8, 24, **options)
        expected.check_places(64, batches, 8, **options)
        pictures.check(batches, encoded, pictures.training(48), 8)
        with consumer.Consumer(feedd, "pictures", 8, step=True, **options) as reader:
            reader.attached()
            reader.take(11)
            token = reader.token()
        rest = consumer.read(feedd, "pictures", 8, resume=token, **options)
        assert [batch["crc"] for batch in rest] == [batch["crc"] for batch in batches[11:]]


def test_a_view_with_other_transforms():
    encoded = pictures.some(COUNT, seed=13)
    with harness.Instance() as feedd:
        add(feedd, encoded, TRAINING)
        feedd.add_view("held-out", "pictures", samples="50%..100%", transform_image="resize 72, center_crop 64")
        feedd.start()
        check(feedd, expected.view(evaluated(encoded), COUNT // 2, COUNT), "held-out")
        check_training(feedd, encoded, shuffle=True, seed=3)
