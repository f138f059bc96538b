"""Files whose paths are longer than a message: it has the beginning and the end of the path, and the whole reason, which is
that of the same file with a short path."""

import contextlib
import os
import pathlib
import shutil

import data
import harness

LENGTHS = (600, 1500, 4000)
RECORDS = {"format": "records", "record_bytes": 64, "field_v": "u8[64] @ 0"}


def make_deep(root, length):
    """A folder whose path has that many bytes. PATH_MAX is 4,096."""
    path = str(root)
    while len(path) < length - 50:
        path += "/a-folder-whose-name-is-long"
    path += "/" + "z" * (length - len(path) - 1)
    os.makedirs(path)
    return pathlib.Path(path)


@contextlib.contextmanager
def folders():
    """An instance, and a folder of it with a short path; then folders with long ones."""
    with harness.Instance() as feedd:
        short = feedd.directory / "short"
        short.mkdir()
        yield feedd, short, [make_deep(feedd.directory, length) for length in LENGTHS]


def ending(done, name):
    """What a complaint says after the last path that ends with /name."""
    said = f"status {done.returncode}, stdout {done.stdout!r}, stderr {done.stderr!r}"
    assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, said
    assert f"/{name}" in done.stderr, said
    return done.stderr.rpartition(f"/{name}")[2]


def refuse(name, write, *parts, prepare=lambda _: None, **options):
    """write(folder) makes the file of that name in a folder, which replaces {folder} in the options. They are those of a
    view if they say of which dataset."""
    with folders() as (feedd, short, deep):
        prepare(feedd)
        reasons = []
        for folder in (short, *deep):
            write(folder)
            here = {key: str(value).replace("{folder}", str(folder)) for key, value in options.items()}
            (feedd.add_view if "of" in here else feedd.add_dataset)("broken", **here)
            feedd.write_config()
            done = feedd.check()
            reasons.append(ending(done, name))
            assert done.stderr.startswith(f"feedd: {feedd.config}:") and " broken] " in done.stderr, done.stderr
            assert (folder == short) == ("..." not in done.stderr), done.stderr
            assert len(done.stderr) < 600, done.stderr
        assert all(part in reasons[0] for part in parts) and len(reasons[0]) > 20, reasons
        assert set(reasons) == {reasons[0]}, reasons


def content(name, bytes_):
    return lambda folder: (folder / name).write_bytes(bytes_)


# ---- Readers -------------------------------------------------------------------------------------------------


def test_records():
    refuse("r.bin", content("r.bin", bytes(100)), "100", "64", **RECORDS, path="{folder}/r.bin")


def test_a_file_that_is_missing():
    refuse("r.bin", lambda _: None, "No such file", **RECORDS, path="{folder}/r.bin")


def test_a_pattern():
    refuse("r*.bin", lambda _: None, "wanted at least one", **RECORDS, path="{folder}/r*.bin")


def test_npy():
    refuse("x.npy", lambda at: data.write_npy(at / "x.npy", "|O", (10,), bytes(80)), "save numpy.stack(array)",
           format="npy", field_x="{folder}/x.npy")  # fmt: skip


def test_idx():
    refuse("x.idx", content("x.idx", b"\1\2\3\4" * 8), format="idx", field_x="{folder}/x.idx")


def test_tokens():
    refuse("t.bin", content("t.bin", bytes(20)), format="tokens", path="{folder}/t.bin", dtype="u16", length=64)


def test_arrow():
    refuse("a.arrow", content("a.arrow", bytes(100)), "found no schema at its start", format="arrow",
           path="{folder}/a.arrow", field_x="i64")  # fmt: skip


def test_parquet():
    refuse("a.parquet", content("a.parquet", bytes(100)), "found no Parquet file", format="parquet",
           path="{folder}/a.parquet", field_x="i64")  # fmt: skip


def test_tar():
    refuse("a.tar", content("a.tar", b"x" * 2000), format="tar", path="{folder}/a.tar", field_x="bytes @ x")


def test_a_file_of_a_folder():
    def write(folder):
        (folder / "class").mkdir()
        os.mkfifo(folder / "class/x.jpg")

    refuse("class/x.jpg", write, "found a FIFO", format="folder", path="{folder}", field_x="bytes @ file")


def test_a_link_out_of_a_folder():
    """Here both paths are long."""

    def write(folder):
        (folder / "tree").mkdir()
        (folder / "y.jpg").write_bytes(b"y")
        (folder / "tree/x.jpg").symlink_to(folder / "y.jpg")

    refuse("y.jpg", write, "wanted it to stay in the folder, or links = FOLDER", format="folder", path="{folder}/tree",
           field_x="bytes @ file")  # fmt: skip


def test_the_list_of_a_view():
    refuse("list.npy", lambda at: data.write_npy(at / "list.npy", "<i4", (1,), b"\xff" * 4), "found sample number -1",
           prepare=data.add_records, of="numbers", indices="{folder}/list.npy")  # fmt: skip


def test_the_weights_of_a_view():
    refuse("w.npy", lambda at: data.write_npy(at / "w.npy", "<f4", (3,), bytes(12)), "wanted",
           prepare=data.add_records, of="numbers", weights="{folder}/w.npy")  # fmt: skip


def test_a_folder_that_may_not_be_searched():
    """The path stands in the message twice: as a whole, and up to what is in the way."""
    with harness.Instance() as feedd:
        folder = make_deep(feedd.directory, 3000)
        private = folder / "private"
        private.mkdir()
        data.write_records(private / "r.bin", 10, 64)
        private.chmod(0)
        feedd.add_dataset("broken", **RECORDS, path=private / "r.bin")
        feedd.write_config()
        feedd.config.chmod(0o644)
        feedd.directory.chmod(0o711)
        options = {"user": "nobody"} if os.geteuid() == 0 else {}  # root may search everything
        program = shutil.copy(harness.BUILD / "feedd", feedd.directory)
        done = feedd.program(program, "--config", feedd.config, "--check", check=False, **options)
        said = done.stderr
        assert "/private/r.bin: the file cannot be opened: Permission denied: /" in said, done
        assert "/private is not searchable by user " in said and len(said.split("...")) == 3, done


# ---- The configuration ---------------------------------------------------------------------------------------


def check_configuration(text, *parts, write=lambda _: None):
    """The text in a file, with {folder} replaced by that of the file; the reason begins after its name."""
    with folders() as (feedd, short, deep):
        reasons = []
        for folder in (short, *deep):
            write(folder)
            config = folder / "long.conf"
            config.write_text(text.replace("{folder}", str(folder)))
            done = feedd.program(harness.PROGRAMS / "feedd", "--config", config, "--check", check=False)
            reasons.append(ending(done, "long.conf"))
            assert (folder == short) == ("..." not in done.stderr), done.stderr
        assert all(part in reasons[0] for part in parts) and set(reasons) == {reasons[0]}, reasons


def test_a_wrong_configuration():
    check_configuration("[feedd]\nring_memori = 3\n", ":2: ", "ring_memori", "perhaps")
    check_configuration("[feedd]\nring_memory = much\n", ":2: ", "ring_memory", "much")


def test_an_included_configuration():
    def write(folder):
        (folder / "sub").mkdir()
        (folder / "sub/more.conf").write_text("[dataset x]\nformat = none\n")

    with folders() as (feedd, short, deep):
        reasons = []
        for folder in (short, *deep):
            write(folder)
            feedd.config.write_text(f"[feedd]\ninclude = {folder}/sub/*.conf\n")
            reasons.append(ending(feedd.check(), "more.conf"))
        assert "none" in reasons[0] and set(reasons) == {reasons[0]}, reasons


# ---- While it runs -------------------------------------------------------------------------------------------


def test_a_file_that_has_shrunk():
    """The journal, the consumer and feedctl status name the reason."""
    with harness.Instance(loaders=1) as feedd:
        path = make_deep(feedd.directory, 3000) / "r.bin"
        data.write_records(path, 1000, 64)
        feedd.add_dataset("numbers", **RECORDS, path=path)
        feedd.start()
        os.truncate(path, 64)
        done = feedd.ctl("read", "numbers", "--batch-size", "10", check=False)
        reason = "it has shrunk since it was opened; on_error = skip in feedd.conf leaves such samples out"
        for said in (done.stderr, feedd.read_log(), str(feedd.status())):
            assert "/r.bin, offset " in said and reason in said, said
        os.truncate(path, 100)
        done = feedd.ctl("reload", check=False)
        reason = "found 100 bytes of records, wanted a multiple of record_bytes = 64 (36 bytes are left over)"
        for said in (done.stderr, feedd.read_log()):
            assert f"/r.bin: {reason}" in said, said
        assert f"{reason}; everything stays as it was" in feedd.read_log(), feedd.read_log()
