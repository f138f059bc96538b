"""feedctl pack is interrupted in every way, and continues; and refuses to continue with what does not belong together."""

import fcntl
import json
import os
import random
import re
import resource
import signal
import struct
import subprocess
import termios

import data
import expected
import harness
import packed
from test_pack import pack, same


# ---- What interrupts it --------------------------------------------------------------------------------------


def serve_slow(delay_us=3000, **options):
    """200 samples that take a while, in shards of some twenty."""
    instance = harness.Instance(loaders=1, queue_depth=1, ring="64K", **options)
    path = data.add_records(instance, samples=200, size=1000, io_delay_us=delay_us)
    instance.content = expected.read_records([path], 1000, {"x": (0, 1000)})
    return instance.start()


def start_pack(feedd, *options, file="made", **more):
    options = options or ("--shard-size=16K",)
    return subprocess.Popen(
        [harness.PROGRAMS / "feedctl", "pack", "numbers", feedd.directory / file, *options],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=feedd.environment(),
        **{"preexec_fn": harness.die_with_parent, "stderr": subprocess.PIPE, **more},
    )  # fmt: skip


def names(feedd):
    return sorted(path.name for path in feedd.directory.glob("made*"))


def wait_for_shards(feedd, count):
    harness.eventually(lambda: len(list(feedd.directory.glob("made-*.feed"))) >= count, 10, f"{count} shards")


def is_complete(feedd, content):
    same(packed.content(packed.shards(feedd.directory, "made")), content)
    assert not (feedd.directory / "made.part").exists()


def test_it_is_killed():
    """Again and again, at any time: what is complete stays, and the end is as if nothing had happened."""
    dice = random.Random(1)
    with serve_slow() as feedd:
        whole = start_pack(feedd, file="whole")
        assert whole.wait() == 0
        kept = {}
        for kills in range(1, 100):
            run = start_pack(feedd)
            try:
                assert run.wait(dice.uniform(0.01, 0.2) * harness.SLOWNESS) == 0
                break
            except subprocess.TimeoutExpired:
                run.kill()
                run.wait()
            for path in sorted(feedd.directory.glob("made-*.feed")):
                state = path.stat().st_ino, path.stat().st_mtime_ns
                assert kept.setdefault(path, state) == state, f"{path} was written again"
            if kept and not feedd.directory.joinpath("refused").exists():
                feedd.add_dataset("half", format="packed", path=feedd.directory / "made-*.feed")
                feedd.write_config()
                done = feedd.check()
                assert done.returncode and "run it again, and it continues" in done.stderr, done
                del feedd.datasets["half"]
                feedd.directory.joinpath("refused").touch()
        assert kills > 2 and kept, (kills, kept)
        is_complete(feedd, feedd.content)
        for path in sorted(feedd.directory.glob("made-*.feed")):
            assert path.read_bytes() == feedd.directory.joinpath(path.name.replace("made", "whole")).read_bytes(), path


def test_the_daemon_dies():
    with serve_slow() as feedd:
        run = start_pack(feedd)
        wait_for_shards(feedd, 3)
        feedd.process.kill()
        feedd.process.wait()
        feedd.start()
        assert run.wait(20 * harness.SLOWNESS) == 0, run.communicate()
        is_complete(feedd, feedd.content)


def test_ctrl_c():
    with serve_slow() as feedd:
        run = start_pack(feedd)
        wait_for_shards(feedd, 2)
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=10 * harness.SLOWNESS)[1]
        assert run.returncode == 1 and "of 200 samples in complete shards; the same command continues there" in said, said
        assert not (feedd.directory / "made.part").exists()
        done = pack(feedd, "numbers", "--json")
        summary = json.loads(done.stdout)
        assert summary["samples"] == 200 and summary["skipped"] == 0 and summary["shards"] > 5, summary
        assert summary["path"] == f"{feedd.directory}/made-?????.feed" and summary["path"] in summary["section"], summary
        is_complete(feedd, feedd.content)


def test_two_at_once():
    with serve_slow() as feedd, start_pack(feedd) as first:
        wait_for_shards(feedd, 1)
        done = pack(feedd, "numbers", check=False)
        assert done.returncode == 1 and "another feedctl pack is writing" in done.stderr, done
        first.kill()


def test_files_may_not_be_so_large():
    """The write fails, as on a disk that is full; what was complete stays."""
    def limited():
        harness.die_with_parent()
        resource.setrlimit(resource.RLIMIT_FSIZE, (10000, resource.RLIM_INFINITY))

    with serve_slow(0) as feedd:
        run = start_pack(feedd, preexec_fn=limited)
        said = run.communicate()[1]
        assert run.returncode == 1 and "cannot write made.part: File too large" in said, said
        assert names(feedd) == ["made.pack.json"]
        pack(feedd, "numbers")
        is_complete(feedd, feedd.content)


def test_the_disk_is_full():
    """A file system of its own, which some shards fit into, and after more room is there, all."""
    folder = "/mnt"
    mount = f"mount -t tmpfs -o size=100k none {folder}"
    with serve_slow(0) as feedd:
        ctl = f"{harness.PROGRAMS}/feedctl pack numbers {folder}/made --shard-size=16K"
        script = f"""{mount} || exit 77
            {ctl} 2>{feedd.directory}/said && exit 3
            [ ! -e {folder}/made.part ] || exit 4
            [ -e {folder}/made-00002.feed ] || exit 5
            mount -o remount,size=1M {folder} || exit 6
            {ctl} && cp {folder}/* {feedd.directory} || exit 7"""
        done = feedd.program("unshare", "--mount", "--", "sh", "-c", script, check=False)
        if done.returncode in (1, 77):
            harness.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        said = (feedd.directory / "said").read_text()
        assert done.returncode == 0 and "cannot write made.part: No space left on device" in said, (done, said)
        is_complete(feedd, feedd.content)


def test_progress_on_a_terminal():
    with serve_slow(20000) as feedd:
        outer, inner = os.openpty()
        run = start_pack(feedd, stderr=inner)
        os.close(inner)
        said = b""
        while b"left" not in said:
            said += os.read(outer, 1000)
        assert said.startswith(b"\r\x1b[Knumbers: ") and b" of 200 samples, " in said, said
        run.kill()
        run.wait()
        os.close(outer)


def test_progress_on_a_narrow_terminal():
    """Nothing wraps: a line that does is not written over."""
    with serve_slow(20000) as feedd:
        for columns, wanted in ((60, rb"\d+ %, .*/s, about .* left"), (20, rb"\d+ %, [^l]*")):
            outer, inner = os.openpty()
            fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            run = start_pack(feedd, stderr=inner, file=f"made{columns}")
            os.close(inner)
            said = b""
            while said.count(b"\r\x1b[K") < 2:
                said += os.read(outer, 1000)
            line = said.split(b"\r\x1b[K")[1]
            assert re.fullmatch(wanted, line) and len(line) < columns, said
            run.kill()
            run.wait()
            os.close(outer)


# ---- What does not fit ---------------------------------------------------------------------------------------


def refused(feedd, *parts, name="numbers", options=()):
    before = {path: path.read_bytes() for path in feedd.directory.glob("made*")}
    done = pack(feedd, name, *options, check=False)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done
    for part in parts:
        assert str(part) in done.stderr, f"nothing of {part!r} in {done.stderr}"
    assert {path: path.read_bytes() for path in feedd.directory.glob("made*")} == before, "nothing was changed"


def half_packed(feedd):
    """As after an interruption."""
    pack(feedd, "numbers", "--shard-size=16K")
    for path in sorted(feedd.directory.glob("made-*.feed"))[3:]:
        path.unlink()


def test_other_data():
    with harness.Instance() as feedd:
        path = data.add_records(feedd, samples=200, size=1000)
        data.add_records(feedd, "others", samples=200, size=1000, header_bytes=0, transform_x="scale 2")
        feedd.add_view("drawn", "numbers", samples="..100")
        feedd.start()
        half_packed(feedd)
        refused(feedd, "made was begun with other fields; --force begins again", name="others")
        refused(feedd, "made was begun with another number of samples", name="drawn")
        refused(feedd, "made was begun with another --shard-size", options=["--shard-size=32K"])
        refused(feedd, "made was begun with another --seed", options=["--seed=1"])
        with path.open("r+b") as file:
            file.write(b"other")
        feedd.ctl("reload")
        refused(feedd, "made was begun with another dataset, or its files or settings have changed since")
        pack(feedd, "numbers", "--force")
        assert len(packed.shards(feedd.directory, "made")) == 1, names(feedd)
        is_complete(feedd, expected.read_records([path], 1000, {"x": (0, 1000)}))


def test_shards_and_manifests_that_do_not_belong():
    with harness.Instance() as feedd:
        path = data.add_records(feedd, samples=200, size=1000)
        feedd.start()
        half_packed(feedd)
        manifest, second = feedd.directory / "made.pack.json", feedd.directory / "made-00001.feed"
        whole = second.read_bytes()
        for change, said in (
            (lambda: second.write_bytes(whole[:4000]), "made-00001.feed is not a shard of this set"),
            (lambda: second.write_bytes(b"x" + whole[1:]), "found another kind of file"),
            (lambda: second.write_bytes(whole[:20] + b"x" + whole[21:]), "its hash differs"),
            (lambda: second.write_bytes((feedd.directory / "made-00000.feed").read_bytes()), "is not a shard of this set"),
            (second.unlink, "made-00002.feed is not a shard of this set"),
            (lambda: second.symlink_to("made-00000.feed"), "made-00001.feed: Too many levels of symbolic links"),
            (lambda: manifest.write_text("{"), "found something that feedctl pack has not written"),
            (lambda: manifest.write_text("[]"), "was begun with another version of feedctl"),
            (lambda: manifest.unlink(), "is not a shard of this set"),
        ):
            change()
            refused(feedd, said)
        pack(feedd, "numbers", "--force")
        is_complete(feedd, expected.read_records([path], 1000, {"x": (0, 1000)}))
        # A manifest that was cut before there was a shard is no more than that.
        for made in feedd.directory.glob("made-*"):
            made.unlink()
        manifest.write_text("{")
        pack(feedd, "numbers")
        is_complete(feedd, expected.read_records([path], 1000, {"x": (0, 1000)}))


def test_wrong_usage():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        (feedd.directory / "folder").mkdir()
        feedd.start()
        for arguments, status, said in (
            (["numbers"], 2, "no file is named"),
            ([], 2, "which dataset?"),
            (["numbers", "made", "--shard-size=1K"], 2, "at least 4K is wanted"),
            (["nothing", "made"], 1, "dataset"),
            (["numbers", "nowhere/made"], 1, "cannot open the folder nowhere"),
            (["numbers", "made*"], 1, "wanted a name that shards can begin with"),
            (["numbers", f"{feedd.directory}/"], 1, "wanted a name that shards can begin with"),
            (["numbers", "/proc/made"], 1, "cannot write /proc/made.pack.json"),
            (["numbers", "folder"], 1, "folder is a folder, wanted a name that shards can begin with, such as folder/train"),
        ):
            done = feedd.ctl("pack", *arguments, check=False)
            assert done.returncode == status and said in done.stderr, (arguments, done)
        assert not names(feedd), names(feedd)
