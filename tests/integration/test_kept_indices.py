"""Indices on disk: used as long as they fit, and made again otherwise."""

import collections
import os
import random
import subprocess
import tarfile
import time

import harness
import test_tar


def note(instance, **environment):
    """What --check says of the index of "wds"."""
    done = instance.check(environment=environment or None)
    assert done.returncode == 0, done
    return next(line.strip() for line in done.stdout.splitlines() if line.strip().startswith("index of"))


def kept(folder):
    return sorted(path.name for path in folder.iterdir())


def serve_kept(**settings):
    instance = harness.Instance(index_folder="kept", **settings)
    instance.kept = instance.directory / "kept"
    instance.kept.mkdir()
    instance.content = test_tar.add_shards(instance, [test_tar.some(50), test_tar.some(30, 50)])
    return instance


def test_an_index_is_made_once():
    with serve_kept() as feedd:
        feedd.add_view("val", "wds", samples="50%..", pad_jpg=20)
        assert f"kept in {feedd.kept}" in note(feedd)
        (name,) = kept(feedd.kept)
        assert "read in" in note(feedd) and kept(feedd.kept) == [name]
        shown = feedd.check().stdout
        assert shown.count("read in") == 1 and shown.count("the index is that of dataset wds") == 1  # of the view
        feedd.start()
        test_tar.check(feedd, feedd.content, shuffle=True)


def test_an_index_that_no_longer_fits_is_made_again():
    with serve_kept() as feedd:
        note(feedd)
        (old,) = kept(feedd.kept)
        samples = test_tar.some(30, 50)
        samples[3][1]["cls"] = b" 5\n "  # of the same length
        test_tar.write(feedd.directory / "wds-1.tar", samples, tarfile.PAX_FORMAT)
        assert "made in" in note(feedd)
        (new,) = kept(feedd.kept)
        assert new != old
        feedd.start()
        test_tar.check(feedd, test_tar.content_of(test_tar.some(50) + samples))
        test_tar.add_shards(feedd, [test_tar.some(50), samples], field_cls="i64")
        feedd.write_config()
        assert "made in" in note(feedd) and kept(feedd.kept) != [new]


def test_damaged_indices_are_not_used():
    with serve_kept() as feedd:
        note(feedd)
        (path,) = feedd.kept.iterdir()
        whole = path.read_bytes()
        dice = random.Random(1)
        head = 104  # and 16 bytes of which there is a copy in memory
        places = [*range(0, head, 8), head + 16, len(whole) - 1, *(dice.randrange(head + 16, len(whole)) for _ in range(20))]
        for at in places:
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert "made in" in note(feedd), at
            assert path.read_bytes() == whole, at
        for content in (whole[:-1], whole + b"1", whole[:70], b""):
            path.write_bytes(content)
            assert "made in" in note(feedd) and path.read_bytes() == whole


def test_what_others_may_have_written_is_not_used():
    with serve_kept() as feedd:
        note(feedd)
        (path,) = feedd.kept.iterdir()
        assert path.stat().st_mode & 0o777 == 0o600  # it has the numbers of datasets that not everybody may use
        path.chmod(0o666)
        assert "made in" in note(feedd) and path.stat().st_mode & 0o777 == 0o600
        path.rename(feedd.directory / "elsewhere")
        path.symlink_to(feedd.directory / "elsewhere")
        assert "made in" in note(feedd) and not path.is_symlink()
        path.unlink()
        os.mkfifo(path)
        assert "made in" in note(feedd) and path.is_file()


def test_what_is_left_behind_is_removed():
    with serve_kept() as feedd:
        key = "0123456789abcdef" * 2
        old = [f"wds.{key}.index", f"wds.{key}.4711"]
        others = [f"wds.{key}.4712", f"wds2.{key}.index", "wds.index", f"other.{key}.index"]
        others += [f"wds.{key}.x.{key}.index", f"wds.{key}.", f"wds.{key}0.index"]  # of datasets with such names
        for name in old + others:
            (feedd.kept / name).write_bytes(b"")
        for name in old[1:] + others[4:]:
            os.utime(feedd.kept / name, (0, 0))
        note(feedd)
        assert set(others) <= set(kept(feedd.kept))
        (path,) = set(kept(feedd.kept)) - set(others)
        assert len(path) == len(old[0]) and path.startswith("wds.")


def test_daemons_with_one_process_number_share_a_folder():
    """As in containers. What one of them has not finished yet is not the other's to remove."""
    with serve_kept() as feedd:
        note(feedd)
        (path,) = feedd.kept.iterdir()
        path.unlink()
        feedd.start()  # makes it again, while it serves
        harness.eventually(lambda: feedd.read_log().count("made in") == 1)
        unfinished = path.with_suffix(f".{feedd.process.pid}")
        unfinished.write_bytes(b"")
        path.unlink()
        feedd.ctl("reload")
        assert kept(feedd.kept) == sorted([path.name, unfinished.name])


@harness.limit(60)
def test_an_archive_that_is_written_to_while_it_is_indexed():
    with serve_kept() as feedd:
        test_tar.write(feedd.directory / "wds-2.tar", [(f"{number}", {"jpg": b"", "cls": b"1"}) for number in range(100_000)])
        feedd.write_config()
        command = [harness.PROGRAMS / "feedd", "--config", feedd.config, "--check"]
        for _ in range(10):  # unless it had not begun, or had just ended
            check = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            while check.poll() is None:
                os.utime(feedd.directory / "wds-2.tar")
                time.sleep(0.01)
            said = check.communicate()[1]
            if check.returncode:
                break
        assert "wds-2.tar: the file was changed while it was indexed; try again when it is complete" in said, said


def test_an_index_that_cannot_be_kept():
    with serve_kept() as feedd:
        feedd.kept.rmdir()
        assert f"not kept in {feedd.kept}: No such file or directory" in note(feedd)
        feedd.start()
        test_tar.check(feedd, feedd.content)
    with harness.Instance() as feedd:
        test_tar.add_shards(feedd, [test_tar.some(5)])
        assert "not kept: index_folder is not set" in note(feedd)
        cache = feedd.directory / "cache"
        cache.mkdir()
        assert f"kept in {cache}" in note(feedd, CACHE_DIRECTORY=f"{cache}:/other")
        assert "read in" in note(feedd, CACHE_DIRECTORY=str(cache))


def indices(instance):
    """The memory of indices that the supervisor has: {its inode: descriptors of it}."""
    opened = harness.open_files(instance.process.pid)
    return collections.Counter(found.st_ino for _, target, found in opened if "feedd-index" in target)


def test_views_share_the_memory_of_an_index():
    with serve_kept(linger=0) as feedd:
        for part in range(4):
            feedd.add_view(f"part{part}", "wds", samples=f"{25 * part}%..{25 * part + 25}%", split_seed=1)
        feedd.add_view("cut", "wds", pad_jpg=20)  # has own sizes, of the same extents
        feedd.start()
        feedd.indexed()
        (shared,) = indices(feedd)
        test_tar.check(feedd, feedd.content, shuffle=True)
        feedd.ctl("reload")
        # Those after the reload share what those before it had.
        harness.eventually(lambda: list(indices(feedd)) == [shared], what="one index")
        samples = test_tar.some(30, 70)
        test_tar.write(feedd.directory / "wds-1.tar", samples, tarfile.PAX_FORMAT)
        feedd.ctl("reload")
        harness.eventually(lambda: len(indices(feedd)) == 1 and shared not in indices(feedd), what="the old index is freed")
        test_tar.check(feedd, test_tar.content_of(test_tar.some(50) + samples))
        feedd.views.clear()
        feedd.write_config()
        feedd.ctl("reload")
        harness.eventually(lambda: sum(indices(feedd).values()) == 2, what="descriptors: the dataset's, and the one to share")
