"""Caches of decoded images on disk: they outlive the daemon, and nothing that is damaged, of other files or of other people
is used."""

import contextlib
import fcntl
import os
import pwd
import random
import shutil
import threading
import time

import consumer
import harness
import pictures
import test_images
import test_tar
import users
from test_image_cache import CACHED, COUNT, SIDE, STEPS, WALK, check, counted, read_all, served
from test_indexing import row


def kept(feedd):
    return sorted((feedd.directory / "kept").iterdir())


def add_kept(feedd, encoded, **options):
    (feedd.directory / "kept").mkdir(exist_ok=True)
    test_images.add(feedd, encoded, STEPS, **{**CACHED, "cache_path": "kept", **options})


@contextlib.contextmanager
def filled(seed, **settings):
    """A daemon that has read all of some pictures; these; and the file that it keeps them in."""
    encoded = pictures.some(COUNT, seed=seed)
    with harness.Instance(**settings) as feedd:
        add_kept(feedd, encoded)
        feedd.start()
        read_all(feedd, encoded)
        (path,) = kept(feedd)
        yield feedd, encoded, path


def test_check_refuses_a_folder_that_cannot_be_used():
    """A running daemon says so only in its log, when the first feed is made."""
    encoded = pictures.some(4, seed=8)
    with harness.Instance() as feedd:
        feedd.directory.chmod(0o711)
        program = shutil.copy(harness.BUILD / "feedd", feedd.directory)
        add_kept(feedd, encoded)
        folder = feedd.directory / "kept"
        assert feedd.check().returncode == 0, feedd.check()

        def refused(sentence):
            options = {"user": "nobody"} if os.geteuid() == 0 else {}  # root may write everywhere
            done = feedd.program(program, "--config", feedd.config, "--check", check=False, **options)
            assert done.returncode == 1 and not done.stdout, done
            assert f"[dataset pictures] cache_path: {sentence}" in done.stderr, done.stderr
            assert done.stderr.startswith(f"feedd: {feedd.config}:") and len(done.stderr.splitlines()) == 1, done.stderr

        folder.chmod(0o555)
        feedd.config.chmod(0o644)
        if os.geteuid() == 0:
            os.chown(feedd.directory, *pwd.getpwnam("nobody")[2:4])  # where the socket is made
        refused(f"{folder} is not writable by user ")
        folder.rmdir()
        refused(f"the folder {folder} cannot be used: No such file or directory")
        folder.write_bytes(b"")
        folder.chmod(0o666)
        refused(f"{folder} is not a folder")


def test_it_outlives_the_daemon():
    """After a restart, also after a kill, everything comes from the file, once for each sample checked."""
    with filled(9, loaders=2) as (feedd, encoded, path):
        assert counted(feedd, "cache_stored") == COUNT
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
    dice = random.Random(1)
    with filled(10, loaders=2) as (feedd, encoded, path):
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
    with filled(11) as (feedd, encoded, path):
        feedd.stop()
        path.write_bytes(path.read_bytes()[:100000])
        feedd.start()
        read_all(feedd, encoded)
        assert counted(feedd, "cache_stored") == COUNT


def test_other_files_are_another_cache():
    """Images that were replaced, and another size: nothing of what was kept is used, and the old file is removed."""
    with filled(12) as (feedd, encoded, first):
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


def test_what_others_have_kept_stays_until_all_are_known():
    """While a dataset has no index, nobody knows which files it wants, so none is removed."""
    encoded = pictures.some(COUNT, seed=19)
    with harness.Instance() as feedd:
        add_kept(feedd, encoded)
        test_tar.add_shards(feedd, [test_tar.some(30)])
        path = feedd.directory / "wds-0.tar"
        whole = path.read_bytes()
        path.write_bytes(whole[:2000])
        feedd.start()
        harness.eventually(lambda: row(feedd)["state"] == "failed", 10, "the index cannot be built")
        old = feedd.directory / "kept" / f"pictures.0.{'0' * 32}.samples"
        old.write_bytes(b"")
        read_all(feedd, encoded)
        assert len(kept(feedd)) == 2 and old in kept(feedd)
        feedd.stop()
        path.write_bytes(whole)
        feedd.start().indexed()
        read_all(feedd, encoded)
        assert len(kept(feedd)) == 1 and old not in kept(feedd)


def test_any_file_that_is_replaced():
    """Also one of very many, by another of the same size; the index is kept, and made anew."""
    count, changed = 2100, 1
    one, other = (pictures.encode(pictures.picture(seed, 40, 40), "jpg") for seed in (1, 2))
    size = max(len(one), len(other))
    encoded = [one.ljust(size, b"\0")] * count
    with harness.Instance(index_folder="indices", loaders=2) as feedd:
        (feedd.directory / "indices").mkdir()
        add_kept(feedd, encoded, field_image="bytes @ file", cache="64M")
        time.sleep(0.1)  # a folder that changes while it is indexed is not kept
        feedd.start().indexed()
        consumer.read(feedd, "pictures", 16, epochs=1)
        (first,) = kept(feedd)
        feedd.stop()
        feedd.start().indexed()
        assert "read in" in row(feedd, "pictures")["index"]
        consumer.read(feedd, "pictures", 16, epochs=1)
        assert kept(feedd) == [first] and served(feedd) == (count, 0)
        feedd.stop()
        path = sorted((feedd.directory / "pictures").rglob("*.img"))[changed]
        path.with_suffix(".new").write_bytes(other.ljust(size, b"\0"))
        path.with_suffix(".new").rename(path)
        feedd.start().indexed()
        encoded[changed] = other
        check(consumer.read(feedd, "pictures", 16, epochs=1)[:2], encoded, seed=0)
        assert first not in kept(feedd) and counted(feedd, "cache_stored") == count


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
    with filled(14) as (feedd, encoded, path):
        feedd.stop()
        path.chmod(0o666)
        feedd.start()
        read_all(feedd, encoded)
        assert served(feedd) == (0, 0) and "remove it" in feedd.read_log()


def test_a_file_with_another_name_is_refused():
    """It may be a link to a file of something else, which is not to be overwritten."""
    encoded = pictures.some(COUNT, seed=20)
    with harness.Instance() as feedd:
        add_kept(feedd, encoded)
        feedd.start()
        read_all(feedd, encoded)
        (path,) = kept(feedd)
        feedd.stop()
        victim = feedd.directory / "victim"
        victim.write_bytes(b"precious")
        victim.chmod(0o600)
        path.unlink()
        os.link(victim, path)
        feedd.start()
        read_all(feedd, encoded)
        assert served(feedd) == (0, 0) and "with 2 hard links, wanted one: remove it" in feedd.read_log()
        assert victim.read_bytes() == b"precious"


def test_a_lock_that_is_given_up_late():
    """Loaders of a daemon that was killed have it until they end: the next daemon waits for that."""
    encoded = pictures.some(COUNT, seed=21)
    with harness.Instance() as feedd:
        add_kept(feedd, encoded)
        feedd.start()
        read_all(feedd, encoded)
        (path,) = kept(feedd)
        feedd.kill()
        with path.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # once the loaders have ended
            feedd.start()
            threading.Timer(1.5, fcntl.flock, (held, fcntl.LOCK_UN)).start()
            started = time.monotonic()
            read_all(feedd, encoded)
            assert time.monotonic() - started > 1 and served(feedd) == (2 * COUNT, 0)


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
