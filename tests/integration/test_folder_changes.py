"""Files in folders that change after they were indexed, and indices of folders on disk."""

import fcntl
import os
import socket
import threading
import time

import consumer
import expected
import harness
from test_folder import FIELDS, READERS, ROOM, add, check, content_of, fails, some, write


def note(instance):
    """What --check says of the index."""
    done = instance.check()
    assert done.returncode == 0, done
    return next(line.strip() for line in done.stdout.splitlines() if line.strip().startswith("index of"))


# ---- What changes later ------------------------------------------------------------------------------------


def socket_at(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(path))


def test_files_that_change_after_they_were_indexed():
    """Of a dataset that skips what cannot be read, these samples are missing; others are as they were."""

    def replace(path, make):
        path.unlink()
        make(path)

    def outside(path):
        path.unlink()
        path.symlink_to("/etc/passwd")

    def link(path):
        path.rename(path.with_suffix(".moved"))
        path.symlink_to(path.with_suffix(".moved").name)

    changes = {
        "gone": lambda path: path.unlink(),
        "its size has changed": lambda path: path.write_bytes(path.read_bytes()[:-1]),
        "its size has changed ": lambda path: path.write_bytes(path.read_bytes() + b"1"),
        "its size has changed  ": lambda path: path.write_bytes(b""),
        "a FIFO, a socket or a device": lambda path: replace(path, os.mkfifo),
        "a FIFO, a socket or a device ": lambda path: replace(path, socket_at),
        "is a folder now": lambda path: replace(path, os.mkdir),
        "a symbolic link": outside,
        "a symbolic link ": link,
    }
    if os.geteuid() == 0:
        changes["a FIFO, a socket or a device  "] = lambda path: replace(path, lambda p: os.mknod(p, 0o20666, os.makedev(1, 5)))
    for reader in ("uring", "mapped", "pread"):
        with harness.Instance(io=reader) as feedd:
            files = {f"c/{number:03}.jpg": bytes([number]) * (100 + number) for number in range(60)}
            content = add(feedd, files, on_error="skip")
            feedd.add_dataset("strict", format="folder", path="pictures", **FIELDS)
            feedd.start().indexed()
            for number, (reason, change) in enumerate(changes.items()):
                path = feedd.directory / f"pictures/c/{number:03}.jpg"
                kept = path.read_bytes()
                change(path)
                fails(feedd, f"{path}, offset 0: ", reason.strip(), name="strict")
                batches = consumer.read(feedd, "pictures", 10)
                assert sum(batch["skipped"] for batch in batches) == 1, reason
                expected.check_bytes(content, batches)
                if path.is_dir() and not path.is_symlink():
                    path.rmdir()
                elif path.is_symlink() or path.exists():
                    path.unlink()
                path.write_bytes(kept)
            check(feedd, content)


def test_a_folder_on_the_way_becomes_a_link():
    with harness.Instance(io="uring") as feedd:
        add(feedd, {"c/d/1": b"1", "e/d/1": b"2"})
        feedd.start().indexed()
        (feedd.directory / "pictures/c").rename(feedd.directory / "outside")
        (feedd.directory / "pictures/c").symlink_to("../outside")
        fails(feedd, "c/d/1, offset 0: it, or a folder on the way")


def open_elsewhere(path):
    """Whether anybody else has the file open: otherwise, the kernel grants a lease for writing."""
    with path.open("rb") as file:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except BlockingIOError:
            return True
    return False


def test_loaders_keep_no_file_open():
    """A file that is deleted meanwhile would keep its space, and a file system could not be unmounted."""
    for reader in ("uring", "mapped", "pread"):
        with harness.Instance(io=reader, loaders=2, ring="64K") as feedd:
            content = add(feedd, some(200, most=ROOM))
            feedd.start()
            files = sorted((feedd.directory / "pictures").rglob("*.jpg"))
            with consumer.Consumer(feedd, "pictures", 4, step=True, epochs=0, shuffle=True, seed=2) as taking:
                taking.attached()
                batches = []
                for _ in range(3):
                    batches += taking.take(50)
                    harness.eventually(lambda: not any(map(open_elsewhere, files)), what="loaders to close their files")
            expected.check_run(content, batches, 4, epochs=3, shuffle=True, seed=2)


def test_reload_after_a_change():
    with harness.Instance(index_folder="kept") as feedd:
        (feedd.directory / "kept").mkdir()
        first = add(feedd, some(50))
        feedd.start()
        with consumer.Consumer(feedd, "pictures", 10, step=True) as reader:
            reader.attached()
            reader.take(1)
            token = reader.token()
        check(feedd, first)
        second = add(feedd, {"cat/zz.jpg": b"new"})
        feedd.ctl("reload")
        consumer.refused(feedd, "ESTALE", dataset="pictures", batch_size=10, resume=token)
        assert len(second["image"]) == 51
        check(feedd, second)


# ---- Kept indices ------------------------------------------------------------------------------------------


def settled():
    """A folder that changes while it is indexed is not kept."""
    time.sleep(0.1)


def test_an_index_is_kept_until_the_folder_changes():
    with harness.Instance(index_folder="kept") as feedd:
        kept = feedd.directory / "kept"
        kept.mkdir()
        add(feedd, some(50))
        root = feedd.directory / "pictures"
        settled()
        assert f"kept in {kept}" in note(feedd)
        (path,) = kept.iterdir()
        assert "read in" in note(feedd) and "read in" in note(feedd)
        file = next((root / "cat").rglob("*.jpg"))
        changes = (
            lambda: write(root, {"cat/one/new.jpg": b"1"}),
            lambda: (root / "cat/one/new.jpg").rename(root / "cat/one/other.jpg"),
            lambda: (root / "empty").mkdir(),
            lambda: (root / "empty").rmdir(),
            lambda: file.write_bytes(b"longer or shorter"),
            lambda: os.utime(file),
        )
        for number, change in enumerate(changes):
            change()
            settled()
            assert "made in" in note(feedd), number
            assert "read in" in note(feedd), number
        assert list(kept.iterdir()) == [path]  # of the same name
        feedd.start()
        check(feedd, content_of(root))
        assert " index of " not in feedd.read_log() or "read in" in note(feedd)


def test_a_folder_that_has_just_changed_is_not_kept():
    with harness.Instance(index_folder="kept") as feedd:
        (feedd.directory / "kept").mkdir()
        add(feedd, some(5))
        os.utime(feedd.directory / "pictures/", (2e9, 2e9))
        os.utime(feedd.directory / "pictures/")
        text = note(feedd)
        assert "the folder was changed at the same time" in text or f"kept in {feedd.directory / 'kept'}" in text


def test_a_kept_index_of_a_listed_folder():
    with harness.Instance(index_folder="kept") as feedd:
        (feedd.directory / "kept").mkdir()
        root = feedd.directory / "pictures"
        write(root, {"1": b"one", "2": b"two"})
        (feedd.directory / "list.csv").write_text("file,y\n1,1\n2,2\n", encoding="ascii")
        fields = {"field_y": "u8", "field_file": "bytes", "pad_file": 4, "csv": "list.csv"}
        feedd.add_dataset("pictures", format="folder", path=root, **fields)
        settled()
        assert "kept in" in note(feedd) and "read in" in note(feedd)
        (feedd.directory / "list.csv").write_text("file,y\n2,1\n2,2\n", encoding="ascii")
        assert "made in" in note(feedd) and "read in" in note(feedd)
        feedd.start()
        check(feedd, {"y": [b"\1", b"\2"], "file": [b"two\0", b"two\0"]}, batch_size=2)


def test_a_loader_that_lacks_descriptors_for_a_while():
    """No sample is bad because of that."""
    for reader in READERS:
        with harness.Instance(io=reader, loaders=1, ring="16K") as feedd:
            content = add(feedd, some(150))
            feedd.start()
            with consumer.Consumer(feedd, "pictures", 7, step=True, epochs=1) as held:
                held.attached()
                batches = held.take(1)
                loader = feedd.only_loader()
                harness.prlimit(loader, "nofile", 3)
                again = threading.Timer(0.7, harness.prlimit, (loader, "nofile", 256))
                again.start()
                batches += held.take(len(content["label"]) // 7 - 1 + bool(len(content["label"]) % 7))
                again.join()
            expected.check_run(content, batches, 7)
