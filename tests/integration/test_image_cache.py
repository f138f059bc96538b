"""Images that are decoded once: the same pixels from the cache as from the files, whoever fills it, and what becomes of it
when processes are killed, when it is full, and when the daemon starts again."""

import json
import os
import random
import signal
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
            read_all(feedd, encoded, epochs=3)
            found, stored = served(feedd)
            # An image may be needed again before it has been kept.
            assert stored == COUNT and 1.8 * COUNT <= found <= 2 * COUNT, (found, stored)
            read_all(feedd, encoded, batch_size=5, epochs=1)  # another feed
            assert served(feedd) == (found + COUNT, COUNT)
            assert counted(feedd, "reads") < 3 * COUNT, "what the cache has is not read"


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
        batches = read_all(feedd, encoded, epochs=3)
        pictures.check(batches, masks, follow, WALK["seed"], "L", "mask")
        found, stored = served(feedd)
        assert stored == 2 * COUNT and 3.6 * COUNT <= found <= 4 * COUNT, (found, stored)


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
                    os.kill(random.choice(alive), signal.SIGKILL)
                    killed += 1
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
        read_all(feedd, encoded, epochs=3)
        found, stored = served(feedd)
        assert 4 < stored < 20 and 1.5 * stored <= found <= 2 * stored, (found, stored)


def test_damaged_images():
    """One that cannot be decoded is not kept, and is left out each time."""
    encoded = pictures.some(COUNT, seed=8)
    encoded[3] = encoded[3][:40]
    with harness.Instance() as feedd:
        test_images.add(feedd, encoded, STEPS, on_error="skip", **CACHED)
        feedd.start()
        batches = consumer.read(feedd, "pictures", 8, epochs=3)
        assert sum(batch["count"] for batch in batches) == 3 * (COUNT - 1)
        found, stored = served(feedd)
        assert stored == COUNT - 1 and 1.8 * COUNT <= found <= 2 * stored, (found, stored)


# ---- On disk -----------------------------------------------------------------------------------------------


def kept(feedd):
    return sorted((feedd.directory / "kept").iterdir())


def add_kept(feedd, encoded, **options):
    (feedd.directory / "kept").mkdir(exist_ok=True)
    test_images.add(feedd, encoded, STEPS, **{**CACHED, "cache_path": "kept", **options})


def test_it_outlives_the_daemon():
    """After a restart, also after a kill, everything comes from the file, once for each sample checked."""
    encoded = pictures.some(COUNT, seed=9)
    with harness.Instance(loaders=2) as feedd:
        add_kept(feedd, encoded)
        feedd.start()
        read_all(feedd, encoded)
        assert counted(feedd, "cache_stored") == COUNT
        (path,) = kept(feedd)
        assert path.stat().st_size == 16 << 20 and path.stat().st_mode & 0o777 == 0o600
        for end in (feedd.stop, feedd.kill):
            end()
            feedd.start()
            read_all(feedd, encoded, epochs=3)
            assert served(feedd) == (3 * COUNT, 0), "all of it is still there"
            assert kept(feedd) == [path]


@harness.limit(60)
def test_what_is_damaged_is_decoded_again():
    """Records, words and the head of a file that somebody has written to: never a wrong pixel."""
    encoded = pictures.some(COUNT, seed=10)
    dice = random.Random(1)
    with harness.Instance(loaders=2) as feedd:
        add_kept(feedd, encoded)
        feedd.start()
        read_all(feedd, encoded)
        (path,) = kept(feedd)
        whole = None
        for first, end, count in ((8192, 1 << 20, 60), (4096, 4096 + 8 * COUNT, 30), (0, 64, 8), (4096, 4096 + 8 * COUNT, 999)):
            feedd.stop()
            content = bytearray(whole or path.read_bytes())
            whole = bytes(content)
            for _ in range(count):
                content[dice.randrange(first, end)] = dice.randrange(256)
            path.write_bytes(content)
            feedd.start()
            read_all(feedd, encoded)
            found, stored = served(feedd)
            assert stored > 0 and found > 0, (first, found, stored)


def test_a_short_file():
    encoded = pictures.some(COUNT, seed=11)
    with harness.Instance() as feedd:
        add_kept(feedd, encoded)
        feedd.start()
        read_all(feedd, encoded)
        (path,) = kept(feedd)
        feedd.stop()
        path.write_bytes(path.read_bytes()[:100000])
        feedd.start()
        read_all(feedd, encoded)
        assert counted(feedd, "cache_stored") == COUNT


def test_other_files_are_another_cache():
    """Images that were replaced, and another size: nothing of what was kept is used, and the old file is removed."""
    encoded = pictures.some(COUNT, seed=12)
    with harness.Instance() as feedd:
        add_kept(feedd, encoded)
        feedd.start()
        read_all(feedd, encoded)
        (first,) = kept(feedd)
        feedd.stop()
        encoded[5] = encoded[6]
        test_images.write(feedd.directory / "pictures", pictures.files(encoded))
        feedd.start()
        read_all(feedd, encoded)
        (second,) = kept(feedd)
        assert first != second and counted(feedd, "cache_stored") == COUNT
        feedd.datasets["pictures"]["cache_size"] = SIDE + 8
        feedd.write_config()
        feedd.ctl("reload")
        batches = consumer.read(feedd, "pictures", 8, **WALK)

        def larger(image, place):
            image = pictures.resize(image, SIDE + 8)
            dice = pictures.Random(place, 0)
            y, x = dice.below(image.height - 63), dice.below(image.width - 63)
            return pictures.hwc(pictures.flip(image.crop((x, y, x + 64, y + 64)), place))

        check(batches, encoded, larger)
        assert len(kept(feedd)) == 2  # a feed of the old version still has the other one
        feedd.stop()
        feedd.start()
        check(consumer.read(feedd, "pictures", 8, **WALK), encoded, larger)
        assert len(kept(feedd)) == 1 and kept(feedd)[0] != second


def test_files_that_cannot_be_had():
    """Without a cache, images are decoded each time, and the log says why."""
    encoded = pictures.some(COUNT, seed=13)
    for words, cache in (("cannot open the folder", "16M"), ("No space left on device", "900G")):
        with harness.Instance() as feedd:
            add_kept(feedd, encoded, cache=cache)
            if cache == "16M":
                (feedd.directory / "kept").rmdir()
            feedd.start()
            read_all(feedd, encoded)
            assert served(feedd) == (0, 0)
            log = feedd.read_log()
            assert words in log and "every image is decoded each time" in log, log


def test_a_file_of_others_is_refused():
    encoded = pictures.some(COUNT, seed=14)
    with harness.Instance() as feedd:
        add_kept(feedd, encoded)
        feedd.start()
        read_all(feedd, encoded)
        (path,) = kept(feedd)
        feedd.stop()
        path.chmod(0o666)
        feedd.start()
        read_all(feedd, encoded)
        assert served(feedd) == (0, 0) and "remove it" in feedd.read_log()


def test_two_daemons():
    """The second one finds the file locked, and does without."""
    encoded = pictures.some(COUNT, seed=15)
    with harness.Instance() as first, harness.Instance() as second:
        add_kept(first, encoded)
        first.start()
        read_all(first, encoded)
        second.datasets["pictures"] = {**first.datasets["pictures"], "cache_path": first.directory / "kept"}
        second.start()
        read_all(second, encoded)
        assert served(second) == (0, 0) and "which another daemon may be using" in second.read_log()


# ---- What people see ---------------------------------------------------------------------------------------


def test_what_is_shown():
    encoded = pictures.some(COUNT, seed=16)
    with harness.Instance() as feedd:
        test_images.add(feedd, encoded, STEPS, **CACHED)
        feedd.start()
        (dataset,) = json.loads(feedd.ctl("datasets", "--json").stdout)
        assert dataset["cache"] == {"bytes": 16 << 20, "used": 0}
        read_all(feedd, encoded)
        (dataset,) = json.loads(feedd.ctl("datasets", "--json").stdout)
        assert dataset["cache"]["used"] == counted(feedd, "cache_bytes") + 8192, dataset
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


# ---- Users -------------------------------------------------------------------------------------------------


def test_users_share_nothing():
    """Each user has a cache of their own, and sees only that."""
    users.need_root()
    encoded = pictures.some(COUNT, seed=17)
    with harness.Instance(socket_mode="0666") as feedd:
        feedd.directory.chmod(0o755)
        add_kept(feedd, encoded)
        feedd.start()
        read_all(feedd, encoded)
        read_all(feedd, encoded, user=4242)
        assert counted(feedd, "cache_stored") == 2 * COUNT
        assert [path.name.split(".")[1] for path in kept(feedd)] == ["0", "4242"]


# ---- A file that fails -------------------------------------------------------------------------------------


def test_a_file_that_is_cut_off_in_use():
    """What cannot be read from the map any more counts as unreadable, or is decoded; no loader dies of it."""
    encoded = pictures.some(COUNT, seed=18)
    with harness.Instance(loaders=1) as feedd:
        add_kept(feedd, encoded, on_error="skip")
        feedd.start()
        with consumer.Consumer(feedd, "pictures", 8, epochs=100, shuffle=True, seed=5) as reader:
            harness.eventually(lambda: feedd.statistics()["feeds"] and counted(feedd, "cached") > 5 * COUNT)
            (path,) = kept(feedd)
            os.truncate(path, 8192)
            batches = reader.finish()
        check([batch for batch in batches if not batch["skipped"]], encoded)
        (feed,) = feedd.statistics()["feeds"]
        assert feed["feed_counters"]["children_replaced"] == 0 and "cannot be read or written" in feedd.read_log()
        assert sum(batch["count"] for batch in batches) > 90 * COUNT
        read_all(feedd, encoded)  # another feed, whose loaders find the file too short
