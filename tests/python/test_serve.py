"""serve(): a private daemon, for as long as a block lasts or until it is closed."""

import array
import os
import pathlib
import re
import signal
import stat
import subprocess

import data
import harness
import pytest
import support
from support import BODY, RECORD, read, wanted

import feedd

PROGRAM = harness.PROGRAMS / "feedd"


@pytest.fixture
def folder(tmp_path):
    data.write_records(tmp_path / "numbers.bin", support.SAMPLES, RECORD)
    return tmp_path


def sections(path):
    return {
        "feedd": {"loaders": 1, "simulated_gpus": 1},
        "numbers": {
            "format": "records", "path": path, "record_bytes": RECORD, "field.id": "u64 @ 0", "field.body": f"u8[{BODY}] @ 8",
            "io_direct": False,
        },
    }  # fmt: skip


def text(path):
    return f"""
[feedd]
socket = /nonexistent/folder/feedd.sock   ; for its own, serve takes another one
socket_mode = 0777
loaders = 1

# a comment
[dataset numbers]
format = records
path = {path}                             ; and one behind a value
record_bytes = {RECORD}
field.id = u64 @ 0
field.body = u8[{BODY}] @ 8
"""


def check():
    """That it serves, with the environment that it has made."""
    with feedd.DataLoader("numbers", 16, framework=support.FRAMEWORK) as loader:
        assert read(loader) == wanted()


def test_views(folder, monkeypatch):
    """One of them has its samples listed in a file, whose path is relative to the working directory."""
    monkeypatch.chdir(folder)
    data.write_npy(folder / "some.npy", "<i4", (3,), array.array("i", [70, 2, 70]).tobytes())
    weights = bytes(7) + b"\1" + bytes(support.SAMPLES - 8)
    data.write_npy(folder / "weights.npy", "|u1", (support.SAMPLES,), weights)
    views = {
        "view some": {"of": "numbers", "indices": "some.npy"},
        "view heavy": {"of": "numbers", "weights": "weights.npy", "epoch_samples": 5},
        "view val": {"of": "numbers", "samples": "90%..", "split_seed": 3},
        "mix both": {"source.some": 2, "source.heavy": 1, "epoch_samples": 9},
    }
    with feedd.serve({**sections(folder / "numbers.bin"), **views}, program=PROGRAM):
        with feedd.DataLoader("some", 3, framework=support.FRAMEWORK) as loader:
            assert [list(map(int, batch[0])) for batch in loader] == [[70, 2, 70]]
        with feedd.DataLoader("heavy", 3, framework=support.FRAMEWORK) as loader:
            assert [list(map(int, batch[0])) for batch in loader] == [[7, 7, 7], [7, 7]]
        assert len(feedd.Dataset("heavy")) == 5 and int(feedd.Dataset("heavy")[4][0]) == 7
        with feedd.DataLoader("both", 9, framework=support.FRAMEWORK) as loader:
            batch = sorted(map(int, next(iter(loader))[0]))
            assert batch == [2, 2, 7, 7, 7, 70, 70, 70, 70]
        assert len(feedd.Dataset("both")) == 9 and int(feedd.Dataset("both")[8][0]) in (7, 70, 2)
        assert len(feedd.Dataset("val")) == support.SAMPLES - support.SAMPLES * 9 // 10


def test_a_dict(folder):
    with feedd.serve(sections(folder / "numbers.bin"), program=PROGRAM) as service:
        assert os.environ["FEEDD_SOCKET"] == service.socket
        assert stat.S_IMODE(os.stat(service.socket).st_mode) == 0o600
        check()
        with feedd.DataLoader("numbers", 16, device="host:0", framework=support.FRAMEWORK) as loader:
            assert read(loader) == wanted()
        assert "serves 1 dataset" in service.log()
        assert pathlib.Path(f"/proc/{service.pid}/cmdline").read_bytes().startswith(bytes(PROGRAM))
    assert "FEEDD_SOCKET" not in os.environ
    assert not os.path.exists(service.socket) and not os.path.exists(f"/proc/{service.pid}")


def test_lists_of_users_are_left_out(folder):
    """Nobody else can connect, and the names may be those of another machine."""
    config = sections(folder / "numbers.bin")
    config["numbers"].update(allow_users="nobody-by-this-name", allow_groups="no-such-group")
    with feedd.serve(config, program=PROGRAM):
        check()


def test_a_text(folder):
    with feedd.serve(text(folder / "numbers.bin"), program=PROGRAM):
        check()


@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_a_file(folder, kind):
    """Whose relative paths begin at its folder."""
    (folder / "feedd.conf").write_text(text("numbers.bin"))
    with feedd.serve(kind(folder / "feedd.conf"), program=PROGRAM):
        check()


def test_every_relative_path_begins_at_the_folder(folder):
    """Also those of options that few datasets have: the files are found, and what the daemon writes is written there."""
    for name in ("pictures", "kept"):
        (folder / name).mkdir()
    (folder / "pictures" / "a.bin").write_bytes(bytes(3))
    (folder / "table.csv").write_text("file,score\na.bin,7\n")
    data.write_npy(folder / "ends.npy", "<i8", (3,), array.array("q", [0, 1, support.SAMPLES]).tobytes())
    (folder / "more.conf").write_text("[view all]\nof = scored\n")
    (folder / "feedd.conf").write_text(
        "[feedd]\nloaders = 1\ninclude = more.conf\nindex_folder = kept\n"
        "[dataset scored]\nformat = folder\npath = pictures\ncsv = table.csv\nlinks = kept\n"
        "field.score = i64\n"
        "[dataset runs]\nformat = records\npath = numbers.bin\noffsets = ends.npy\nfield.x = u8\n"
    )
    with feedd.serve(folder / "feedd.conf", program=PROGRAM):
        assert [int(feedd.Dataset(name)[0][0]) for name in ("scored", "all")] == [7, 7]
        assert len(feedd.Dataset("runs")) == 2
    assert list((folder / "kept").iterdir())


def test_every_option_that_is_a_path_begins_there():
    """An option that feedd.conf gets later has to be added to service.py."""
    from feedd.service import _PATHS

    told = subprocess.run([PROGRAM, "--help-config"], stdout=subprocess.PIPE, text=True, check=True).stdout
    options = re.split(r"\n    (?=\S)", re.sub(r"\n\[.*\]", "", told))
    paths = {one.split(" = ")[0].strip() for one in options if re.search(r"Wanted: a (path|path or glob pattern) of", one)}
    assert paths == {*_PATHS, "socket"}  # which serve() replaces


def test_relative_paths_begin_here_otherwise(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for config in (text("numbers.b*"), sections("numbers.bin")):
        with feedd.serve(config, program=PROGRAM):
            check()


def test_fields_without_files(folder):
    """The members of a shard are not paths."""
    import io
    import tarfile

    with tarfile.open(folder / "shard.tar", "w") as shard:
        for number in range(4):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = 1 + number
            shard.addfile(member, io.BytesIO(b"x" * member.size))
    dataset = {"format": "tar", "path": folder / "shard.tar", "field.size": "length @ txt", "field.txt": "bytes"}
    with feedd.serve({"feedd": {"loaders": 1, "index_folder": folder}, "shard": dataset}, program=PROGRAM):
        with feedd.DataLoader("shard", 4, framework="numpy", ragged="pair") as loader:
            ((size, (values, offsets)),) = loader
            assert size.tolist() == [1, 2, 3, 4]
            assert offsets.tolist() == [0, 1, 3, 6, 10]
            assert values.tobytes() == b"x" * 10


def test_field_files(folder, monkeypatch):
    """Which may have an @ in their names, as a record's fields have."""
    import numpy

    monkeypatch.chdir(folder)
    numpy.save("x@1.npy", numpy.arange(12, dtype=numpy.int32).reshape(4, 3))
    with feedd.serve({"dataset one": {"format": "npy", "field.x": "x@1.npy"}}, program=PROGRAM):
        (batch,) = feedd.DataLoader("one", 4, framework="numpy")
        assert batch[0].tolist() == numpy.arange(12).reshape(4, 3).tolist()


def test_services_within_each_other(folder):
    with feedd.serve(sections(folder / "numbers.bin"), program=PROGRAM) as outer:
        with feedd.serve(sections(folder / "numbers.bin"), program=PROGRAM) as inner:
            assert os.environ["FEEDD_SOCKET"] == inner.socket != outer.socket
            check()
        assert os.environ["FEEDD_SOCKET"] == outer.socket
        check()


def test_the_program_is_found_by_the_environment(folder, monkeypatch):
    monkeypatch.setenv("FEEDD_PROGRAM", str(PROGRAM))
    with feedd.serve(sections(folder / "numbers.bin")):
        check()
    monkeypatch.delenv("FEEDD_PROGRAM")
    monkeypatch.setenv("PATH", f"{PROGRAM.parent}:{os.environ['PATH']}")
    with feedd.serve(sections(folder / "numbers.bin")):
        check()


def test_paths_of_the_home_folder(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    with feedd.serve(sections("~/numbers.bin"), program=PROGRAM):
        check()


def test_an_exception_in_the_block(folder):
    with pytest.raises(ZeroDivisionError):
        with feedd.serve(sections(folder / "numbers.bin"), program=PROGRAM) as service:
            1 / 0
    assert not os.path.exists(f"/proc/{service.pid}")


def test_a_daemon_that_is_killed_in_the_block(folder):
    with feedd.serve(sections(folder / "numbers.bin"), program=PROGRAM) as service:
        check()
        os.kill(service.pid, signal.SIGKILL)
    assert not os.path.exists(service.socket)


def test_a_daemon_that_crashes_is_started_again(folder):
    """Loaders go on, as with a service."""
    with feedd.serve(sections(folder / "numbers.bin"), program=PROGRAM) as service:
        with feedd.DataLoader("numbers", 16, framework="numpy", timeout=20, prefetch_factor=1) as loader:
            batches, before = [], service.pid
            for batch in loader:
                batches.append(support.samples_of(batch))
                if len(batches) == 2:
                    os.kill(before, signal.SIGKILL)
        assert batches == wanted()
        assert service.pid != before
        last = service.pid
    harness.eventually(lambda: not os.path.exists(f"/proc/{last}"), 5, "it has ended")


def test_without_a_block(folder):
    service = feedd.serve(sections(folder / "numbers.bin"), program=PROGRAM)
    try:
        check()
        assert service.socket in repr(service) and os.environ["FEEDD_SOCKET"] == service.socket
    finally:
        service.close()
    assert "closed" in repr(service) and "stopp" in service.log()
    service.close()
    assert "FEEDD_SOCKET" not in os.environ and not os.path.exists(service.socket)


def test_bound_to_no_name(folder):
    """As in a cell of a notebook; a program that ends so leaves nothing."""
    code = """
import feedd, gc, os, sys
feedd.serve(sys.argv[1], program=sys.argv[2])
gc.collect()
print(os.environ["FEEDD_SOCKET"], len(feedd.Dataset("numbers", framework="numpy")))
"""
    socket, samples = support.run(code, text(folder / "numbers.bin"), PROGRAM).split()
    assert int(samples) == support.SAMPLES
    harness.eventually(lambda: not os.path.exists(os.path.dirname(socket)), 5, "it has ended")


def test_a_daemon_that_hangs(folder, monkeypatch):
    monkeypatch.setattr(feedd.service, "_STOP_SECONDS", 0.3)
    with feedd.serve(sections(folder / "numbers.bin"), program=PROGRAM) as service:
        pid = service.pid
        os.kill(pid, signal.SIGSTOP)
    harness.eventually(lambda: not os.path.exists(f"/proc/{pid}"), 5, "it is killed")
    assert not os.path.exists(service.socket)


OWNER = """
import feedd, os, signal, sys
with feedd.serve(sys.argv[1], program=sys.argv[2]) as service:
    loader = feedd.DataLoader("numbers", 16, framework="numpy")
    held = next(iter(loader))
    child = 0
    if sys.argv[3] == "fork":
        child = os.fork()
        if child == 0: signal.pause()
    print(service.pid, service.socket, child, flush=True)
    {}
"""


def begin(folder, ending, fork=""):
    process = support.start(OWNER.format(ending), text(folder / "numbers.bin"), PROGRAM, fork)
    pid, socket, child = process.stdout.readline().split()
    return process, int(pid), pathlib.Path(socket), int(child)


@pytest.mark.parametrize("fork", ["", "fork"])
def test_the_owner_is_killed(folder, fork):
    """The daemon ends with it, also while a child of it lives, and nothing is left: no process, no file."""
    objects = harness.shared_objects()
    process, pid, socket, child = begin(folder, "signal.pause()", fork)
    members = {pid, *harness.session_processes(os.getsid(pid))}
    assert len(members) >= 3, "the shell, feedd and its loader"
    process.kill()
    process.wait()
    process.stdout.close()
    harness.eventually(lambda: not any(os.path.exists(f"/proc/{member}") for member in members), 10, "no process is left")
    harness.eventually(lambda: not socket.parent.exists(), 5, "its folder is gone")
    harness.eventually(lambda: not harness.shared_objects() - objects, 3, "nothing new in /dev/shm")
    if child:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("ending", ["sys.exit(0)", "os._exit(0)", "raise SystemExit", "pass", "os.kill(os.getpid(), 15)"])
def test_ends_of_the_owner(folder, ending):
    process, pid, socket, _ = begin(folder, ending)
    support.finish(process, None)
    harness.eventually(lambda: not os.path.exists(f"/proc/{pid}") and not socket.parent.exists(), 10, "nothing is left")


def test_a_child_that_leaves_the_block_takes_nothing_away(folder):
    """A fork within the block, whose child ends as programs do."""
    ending = """
    if os.fork() == 0: sys.exit(0)
    os.wait()
    print(len(list(feedd.DataLoader("numbers", 16, framework="numpy"))), os.path.exists(service.socket))"""
    process, _, _, _ = begin(folder, ending)
    assert support.finish(process) == "13 True\n"
