"""Images that are decoded once: the same pixels from the cache as from the files, whoever fills it, also when processes are
killed and when it is full."""

import json
import os
import random
import time

import consumer
import data
import harness
import pictures
import pyarrow as pa
import pyarrow.parquet
import test_images
import users

COUNT = 40
SIDE = 72
STEPS = "random_crop 64, flip"
CACHED = {"cache": "16M", "cache_size": SIDE}
WALK = {"epochs": 2, "shuffle": True, "seed": 5}


def cropped(image, place, step=0):
    """STEPS, from the image that the cache keeps."""
    image = pictures.resize(image, SIDE)
    dice = pictures.Random(place, step)
    y, x = dice.below(image.height - 63), dice.below(image.width - 63)
    return pictures.hwc(pictures.flip(image.crop((x, y, x + 64, y + 64)), place, step + 1))


def check(batches, encoded, make=cropped, seed=WALK["seed"], **options):
    pictures.check(batches, encoded, make, seed, **options)


def read_all(feedd, encoded, name="pictures", make=cropped, batch_size=8, **options):
    walk = {**WALK, **options}
    batches = consumer.read(feedd, name, batch_size, **walk)
    assert sum(batch["count"] for batch in batches) == walk["epochs"] * len(encoded)
    check(batches, encoded, make, walk["seed"])
    return batches


def counted(feedd, what):
    return sum(feed["loader_counters"][what] for feed in feedd.statistics()["feeds"])


def served(feedd):
    """Images from the cache, and put into it, by all feeds there are."""
    return counted(feedd, "cached"), counted(feedd, "cache_stored")


# ---- Pixels ------------------------------------------------------------------------------------------------


def test_once_decoded():
    """The first epoch fills the cache, the second one reads nothing; all pixels are Pillow's."""
    encoded = pictures.some(COUNT)
    for loaders in (1, 3):
        with harness.Instance(loaders=loaders) as feedd:
            test_images.add(feedd, encoded, STEPS, **CACHED)
            feedd.start()
            read_all(feedd, encoded, epochs=1)
            assert served(feedd) == (0, COUNT), served(feedd)
            # All are kept by now. Within one run, an image may be needed again before it has been kept.
            read_all(feedd, encoded, epochs=2)
            assert served(feedd) == (2 * COUNT, COUNT), served(feedd)
            read_all(feedd, encoded, batch_size=5, epochs=1)  # another feed
            assert served(feedd) == (3 * COUNT, COUNT), served(feedd)
            assert counted(feedd, "reads") < 3 * COUNT, "what the cache has is not read"
            read_all(feedd, encoded, batch_size=6, epochs=3)
            assert served(feedd) == (6 * COUNT, COUNT), served(feedd)


def test_equal_to_the_step():
    """With a cache, the steps begin as after `resize SIDE`; steps that begin with that are the same with and without."""
    encoded = pictures.some(COUNT, seed=1)
    steps = f"resize {SIDE}, {STEPS}, brightness 0.3, {pictures.NORMALISE}"
    hashes = []
    for options in ({}, CACHED, {**CACHED, "cache": 16384}):
        with harness.Instance(loaders=2) as feedd:
            test_images.add(feedd, encoded, steps, **options)
            feedd.start()
            batches = consumer.read(feedd, "pictures", 8, **WALK)
            hashes.append([(batch["samples"], batch["crc"]) for batch in batches])
    assert hashes[0] == hashes[1] == hashes[2]


def test_every_format():
    encoded = pictures.some(COUNT, seed=2)
    with harness.Instance(loaders=2) as feedd:
        names = test_images.add_formats(feedd, encoded, transform_image=STEPS, **CACHED)
        feedd.start()
        for number, name in enumerate(names):
            read_all(feedd, encoded, name)
            assert counted(feedd, "cache_stored") == COUNT * (number + 1)
            before = counted(feedd, "cached")
            read_all(feedd, encoded, name, batch_size=5)
            assert counted(feedd, "cached") == before + 2 * COUNT, name


def test_a_mask():
    """Both fields are kept: the mask in nearest pixels, cut as the image is."""
    encoded = pictures.some(COUNT, seed=3, kinds=("png",))
    shapes = [pictures.opened(one).size for one in encoded]
    masks = [pictures.encode(pictures.picture(i, *shape).convert("L"), "png") for i, shape in enumerate(shapes)]
    table = pa.table({"image": pa.array(encoded, pa.binary()), "mask": pa.array(masks, pa.binary())})

    def follow(mask, place):
        mask = pictures.resize(mask, SIDE, pictures.Image.Resampling.NEAREST)
        dice = pictures.Random(place, 0)
        y, x = dice.below(mask.height - 63), dice.below(mask.width - 63)
        return pictures.hwc(pictures.flip(mask.crop((x, y, x + 64, y + 64)), place))

    with harness.Instance() as feedd:
        pa.parquet.write_table(table, feedd.directory / "a.parquet")
        feedd.add_dataset("pictures", format="parquet", path="a.parquet", field_image="bytes", field_mask="bytes",
                          transform_image=STEPS, transform_mask="with image", **CACHED)  # fmt: skip
        feedd.start()
        for epochs, found in ((1, 0), (2, 4 * COUNT)):
            batches = read_all(feedd, encoded, epochs=epochs)
            pictures.check(batches, masks, follow, WALK["seed"], "L", "mask")
            assert served(feedd) == (found, 2 * COUNT), served(feedd)


def test_a_fast_decode():
    """`decode fast` depends on the size that is wanted, which is that of the cache: the same whether it is full or not."""
    encoded = pictures.some(12, seed=4, kinds=("jpg",), least=300, most=500)
    hashes = []
    for cache in ("16M", 16384):
        with harness.Instance() as feedd:
            test_images.add(feedd, encoded, f"decode fast, {STEPS}", cache=cache, cache_size=SIDE)
            feedd.start()
            batches = consumer.read(feedd, "pictures", 4, **WALK)
            hashes.append([(batch["samples"], batch["crc"]) for batch in batches])
    assert hashes[0] == hashes[1]


# ---- Who shares it -----------------------------------------------------------------------------------------


def test_feeds_views_and_mixes_share_it():
    encoded = pictures.some(COUNT, seed=5)
    with harness.Instance(loaders=2) as feedd:
        test_images.add(feedd, encoded, STEPS, **CACHED)
        feedd.add_view("half", "pictures", samples="50%..100%", transform_image="center_crop 64")
        feedd.add_mix("all", {"pictures": 1, "half": 1}, 2 * COUNT)
        feedd.start()
        read_all(feedd, encoded, epochs=1)
        before = counted(feedd, "cached")
        batches = consumer.read(feedd, "half", 5)
        assert served(feedd) == (before + COUNT // 2, COUNT)
        middle = [pictures.hwc(pictures.center_crop(pictures.resize(pictures.opened(one), SIDE), 64)) for one in encoded]
        for batch in batches:
            assert batch["crc"]["image"] == pictures.crc([middle[COUNT // 2 + i] for i in batch["samples"]]), batch
        consumer.read(feedd, "all", 8)
        found, stored = served(feedd)
        assert found >= before + COUNT // 2 + 2 * COUNT and stored == COUNT, (found, stored)


# ---- What can go wrong -------------------------------------------------------------------------------------


@harness.limit(60)
def test_kills():
    """Loaders are killed while they fill the cache and while they read it."""
    encoded = pictures.some(COUNT, seed=6)
    with harness.Instance(loaders=3) as feedd:
        test_images.add(feedd, encoded, STEPS, **CACHED)
        feedd.start()
        with consumer.Consumer(feedd, "pictures", 4, epochs=40, shuffle=True, seed=5) as reader:
            killed = 0
            while reader.process.poll() is None and killed < 30:
                if alive := feedd.children_called("loader"):
                    killed += harness.kill(random.choice(alive))
                time.sleep(0.02)
            batches = reader.finish()
            assert killed >= 5, f"only {killed} were killed: that shows nothing"
            check(batches, encoded)
            assert counted(feedd, "cached") > 30 * COUNT, served(feedd)


def test_a_full_cache():
    """What does not fit is decoded each time, and the rest comes from the cache."""
    encoded = pictures.some(COUNT, seed=7)
    with harness.Instance(loaders=2) as feedd:
        test_images.add(feedd, encoded, STEPS, cache=256 << 10, cache_size=SIDE)
        feedd.start()
        read_all(feedd, encoded, epochs=1)
        found, stored = served(feedd)
        assert 4 < stored < 20 and found == 0, (found, stored)
        read_all(feedd, encoded, epochs=2)
        assert served(feedd) == (2 * stored, stored), (served(feedd), stored)


def test_damaged_images():
    """One that cannot be decoded is not kept, and is left out each time."""
    encoded = pictures.some(COUNT, seed=8)
    encoded[3] = encoded[3][:40]
    with harness.Instance() as feedd:
        test_images.add(feedd, encoded, STEPS, on_error="skip", **CACHED)
        feedd.start()
        for epochs, found in ((1, 0), (2, 2 * (COUNT - 1))):
            batches = consumer.read(feedd, "pictures", 8, epochs=epochs)
            assert sum(batch["count"] for batch in batches) == epochs * (COUNT - 1)
            assert served(feedd) == (found, COUNT - 1), served(feedd)


def test_damage_is_found_in_any_case():
    """Also by loaders that find no room, and could do without the rows that are missing."""
    encoded = [data[: len(data) * 9 // 10] if i % 3 else data for i, data in enumerate(pictures.some(COUNT, seed=19))]
    runs = []
    for cache in ("16M", 16384):
        with harness.Instance(loaders=2) as feedd:
            test_images.add(feedd, encoded, "random_crop 8, flip", on_error="skip", cache=cache, cache_size=SIDE)
            feedd.start()
            batches = consumer.read(feedd, "pictures", 4, epochs=3, shuffle=True, seed=5)
            runs.append([(batch["samples"], batch["crc"]) for batch in batches])
            assert 0 < sum(len(samples) for samples, _ in runs[-1]) < 3 * COUNT
    assert runs[0] == runs[1]


# ---- How much memory there is for caches -------------------------------------------------------------------


def check_that_says(*parts, settings, **options):
    """What --check says of a cache that does not fit, in one line; of one that fits, nothing."""
    with harness.Instance(**settings) as feedd:
        test_images.add(feedd, pictures.some(2, seed=33), STEPS, cache_size=SIDE, **options)
        done = feedd.check()
        assert done.returncode == 0, done
        (line,) = [line for line in done.stdout.splitlines() if "warning: " in line] or [""]
        assert all(part in line for part in parts) and bool(line) == bool(parts), (parts, done.stdout)


def test_check_warns_of_a_cache_without_room():
    """With the numbers, and what to set; not of one that fits, nor of one on disk."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    needed = f"it may take {(memory + (1 << 20) - 1) >> 20} MiB of memory"
    all_of_it = f"every image is decoded each time, because there is no room for the cache: {needed}"
    raise_it = "MiB (cache_memory): set a smaller cache or cache_path, or raise cache_memory"
    check_that_says(f"warning: {all_of_it}", raise_it, settings={}, cache=memory)
    check_that_says(settings={}, cache=memory, cache_path="/tmp")
    check_that_says(settings={}, cache=16 << 20)
    for_others = "warning: for users other than root and the daemon's own, every image"
    check_that_says(settings={"cache_memory": "8M"}, cache="6M")
    check_that_says(for_others, "6 MiB (user_cache_memory)", settings={"cache_memory": "8M"}, cache="7M")


def status_of_caches(feedd):
    status = feedd.status()
    return status["cache_bytes"], status["cache_memory"]


def test_caches_that_do_not_fit_together():
    """The second one is refused while the first is in use, and takes its place afterwards."""
    first, second = (pictures.some(COUNT, seed=seed) for seed in (21, 22))
    with harness.Instance(linger=0, cache_memory="24M", loaders=1) as feedd:
        test_images.add(feedd, first, STEPS, **CACHED)
        test_images.add(feedd, second, STEPS, "others", **CACHED)
        feedd.start()
        assert status_of_caches(feedd) == (0, 24 << 20)
        with consumer.Consumer(feedd, "pictures", 8, epochs=1000, step=True) as reader:
            reader.attached()
            assert status_of_caches(feedd) == (16 << 20, 24 << 20)
            batches = consumer.read(feedd, "others", 8, **WALK)
            check(batches, second)
            words = "dataset others has no cache, so every image is decoded each time: it may take 16 MiB of memory; "
            (error,) = feedd.status()["last_errors"]
            assert words in error and "(cache_memory)" in error and "set a smaller cache or cache_path" in error, error
            assert ", at most 16 MiB of 24 MiB" in feedd.ctl("status").stdout, feedd.ctl("status").stdout

        def second_has_taken_its_place():
            read_all(feedd, second, "others")
            names = {row["name"]: row["cache"]["used"] for row in json.loads(feedd.ctl("datasets", "--json").stdout)}
            return names["others"] > 0 and names["pictures"] == 0

        # The first one is in use until the loaders of its feed have ended.
        harness.eventually(second_has_taken_its_place, 10, "the second cache takes the place of the first one")
        assert status_of_caches(feedd) == (16 << 20, 24 << 20)


def test_a_users_share():
    users.need_root()
    encoded = pictures.some(COUNT, seed=23)
    with harness.Instance(socket_mode="0666", cache_memory="20M", loaders=1) as feedd:
        feedd.directory.chmod(0o755)
        test_images.add(feedd, encoded, STEPS, **CACHED)
        feedd.start()
        read_all(feedd, encoded, user=4242)
        assert "the user's caches in use have 0 MiB of 15 MiB (user_cache_memory)" in feedd.read_log()
        assert served(feedd) == (0, 0)
        read_all(feedd, encoded)
        assert counted(feedd, "cache_stored") == COUNT


# ---- What people see ---------------------------------------------------------------------------------------


def test_what_is_shown():
    encoded = pictures.some(COUNT, seed=16)
    # If two loaders keep an image at the same time, the later one has taken room for nothing.
    with harness.Instance(loaders=1) as feedd:
        test_images.add(feedd, encoded, STEPS, **CACHED)
        feedd.start()
        (dataset,) = json.loads(feedd.ctl("datasets", "--json").stdout)
        assert dataset["cache"] == {"bytes": 16 << 20, "used": 0}
        read_all(feedd, encoded)

        def used():
            (dataset,) = json.loads(feedd.ctl("datasets", "--json").stdout)
            return dataset["cache"]["used"]

        counts = used(), counted(feedd, "cache_bytes")
        assert counts[0] == counts[1] + 8192 > 8192, counts
        assert "; cache: " in feedd.ctl("datasets").stdout
        assert "CACHED/S" in feedd.ctl("stats", "--once").stdout


def test_wrong_options():
    with harness.Instance() as feedd:
        path = data.add_records(feedd, samples=10, size=64)
        assert path
        feedd.datasets["numbers"]["cache"] = "1G"
        feedd.write_config()
        done = feedd.check()
        assert done.returncode and "found no field of encoded images" in done.stderr, done
    with harness.Instance() as feedd:
        test_images.add(feedd, pictures.some(4), STEPS, cache=100, cache_size=SIDE)
        feedd.write_config()
        done = feedd.check()
        assert done.returncode and "found 100 bytes, wanted at least 12288" in done.stderr, done
