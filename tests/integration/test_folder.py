"""Files in folders, as torchvision's ImageFolder has them or as a CSV file lists them, against Python's own reading."""

import os
import random
import struct

import consumer
import expected
import harness

READERS = ("auto", "uring", "mapped", "pread")
ROOM, PAD = 2000, 7
FIELDS = {"field_image": "bytes @ file", "pad_image": f"{ROOM} {PAD}", "field_label": "i64 @ class"}


def write(root, files):
    """files: {path: bytes}"""
    for path, content in files.items():
        place = os.path.join(os.fsencode(root), os.fsencode(path))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(content)


def some(count, classes=("cat", "dog", "a.b", "Zebra"), seed=0, most=3000):
    dice = random.Random(seed)
    folders = [f"{name}{sub}" for name in classes for sub in ("", "/one", "/one/two", ".x/y")]
    return {f"{dice.choice(folders)}/{i:05}.jpg": dice.randbytes(dice.randrange(most)) for i in range(count)}


def in_order(root, needs_class=True):
    """[(class number, class, path)] as ImageFolder numbers and sorts them: os.walk of each class, sorted."""
    root = os.fsencode(root)
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith(b"."))
    top = sorted(entry.name for entry in os.scandir(root) if entry.is_file())
    samples = [] if needs_class else [(0, b"", name) for name in top]
    for number, name in enumerate(classes):
        for folder, _, names in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            samples += [(number, name, os.path.relpath(os.path.join(folder, file), root)) for file in sorted(names)]
    return [sample for sample in samples if not any(part.startswith(b".") for part in sample[2].split(b"/"))]


def padded(content, room=ROOM, pad=PAD):
    return content[:room] + bytes([pad]) * (room - len(content))


def read(root, path):
    with open(os.path.join(os.fsencode(root), path), "rb") as file:
        return file.read()


def content_of(root, room=ROOM):
    samples = in_order(root)
    return {
        "image": [padded(read(root, path), room) for _, _, path in samples],
        "label": [struct.pack("<q", number) for number, _, _ in samples],
    }


def add(instance, files, name="pictures", **options):
    """Returns what must be delivered."""
    root = instance.directory / name
    write(root, files)
    instance.add_dataset(name, format="folder", path=root, **{**FIELDS, **options})
    return content_of(root)


def check(feedd, content, batch_size=7, name="pictures", **options):
    batches = consumer.read(feedd, name, batch_size, **options)
    expected.check_run(content, batches, batch_size, **options)


def fails(feedd, *parts, name="pictures"):
    """A sample cannot be read, and the error says so."""
    with consumer.Consumer(feedd, name, 1) as reader:
        while (event := reader.event())["event"] != "error":
            pass
    assert event["code"] == "EIO", event
    for part in (f"dataset {name}: sample ", *parts):
        assert part in event["text"], f"nothing of {part!r} in {event}"


def verify(feedd, name="pictures", count=None):
    """feedctl compares with the files by itself."""
    done = feedd.ctl("read", name, "--epochs=2", "--shuffle", "--batch-size=9", "--verify")
    assert f"verified {count or ''}" in done.stdout and "as feedd's index describes them\n" in done.stdout, done


def refuse(make, *parts, **options):
    """make(root) has a folder with one file, a/1."""
    with harness.Instance() as instance:
        root = instance.directory / "pictures"
        write(root, {"a/1": b"one"})
        make(root)
        options = {key: value for key, value in {"path": root, **FIELDS, **options}.items() if value}
        instance.add_dataset("pictures", format="folder", **options)
        done = instance.check()
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done
        for part in ("[dataset pictures] ", *parts):
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


# ---- What is delivered -------------------------------------------------------------------------------------


def test_every_reader():
    for reader in READERS:
        with harness.Instance(io=reader) as feedd:
            content = add(feedd, some(150))
            feedd.start()
            check(feedd, content)
            check(feedd, content, batch_size=30, epochs=3, shuffle=True, seed=4)


def test_large_files():
    """Of more than one read takes."""
    sizes = (0, 1, 4095, 4096, 524288, 524289, 1500001, 2000000)
    files = {f"c/{i}": random.Random(i).randbytes(size) for i, size in enumerate(sizes)}
    for reader in ("uring", "pread", "mapped"):
        with harness.Instance(io=reader, ring_memory="256M") as feedd:
            add(feedd, files, pad_image="1600000")
            feedd.start()
            content = {"image": [padded(data, 1600000, 0) for data in files.values()], "label": [bytes(8)] * len(files)}
            check(feedd, content, batch_size=2, shuffle=True, seed=1)


def test_without_pad():
    """Every field of bytes may be ragged."""
    for reader in READERS:
        with harness.Instance(io=reader) as feedd:
            root = feedd.directory / "pictures"
            write(root, {**some(100), "cat/large": bytes(range(256)) * 5000, "cat/empty": b""})
            feedd.add_dataset(
                "pictures", format="folder", path=root, field_image="bytes @ file", field_name="bytes",
                field_kind="bytes @ class", field_label="u8 @ class",
            )  # fmt: skip
            feedd.start()
            samples = in_order(root)
            content = {
                "image": expected.Ragged(read(root, path) for _, _, path in samples),
                "name": expected.Ragged(path for _, _, path in samples),
                "kind": expected.Ragged(name for _, name, _ in samples),
                "label": [bytes([number]) for number, _, _ in samples],
            }
            check(feedd, content, batch_size=9, epochs=2, shuffle=True)
            verify(feedd, count=204)


def test_every_field():
    with harness.Instance() as feedd:
        root = feedd.directory / "pictures"
        write(root, some(60))
        feedd.add_dataset(
            "pictures", format="folder", path=root, field_image="bytes @ file", pad_image=ROOM, field_size="length @ file",
            field_class="u8", field_kind="bytes @ class", pad_kind="6 32", field_name="bytes", pad_name=64,
            field_long="length @ name", field_again="bytes @ file", pad_again="5 255", field_short="length @ class",
        )  # fmt: skip
        feedd.start()
        samples = in_order(root)
        content = {
            "image": [padded(read(root, path), pad=0) for _, _, path in samples],
            "size": [struct.pack("<q", len(read(root, path))) for _, _, path in samples],
            "class": [bytes([number]) for number, _, _ in samples],
            "kind": [padded(name, 6, 32) for _, name, _ in samples],
            "name": [padded(path, 64, 0) for _, _, path in samples],
            "long": [struct.pack("<q", len(path)) for _, _, path in samples],
            "again": [padded(read(root, path), 5, 255) for _, _, path in samples],
            "short": [struct.pack("<q", len(name)) for _, name, _ in samples],
        }
        check(feedd, content, epochs=2, shuffle=True, seed=3)
        verify(feedd, count=120)


def test_verify_finds_what_differs():
    """The daemon still has the folder that feedctl finds under another name."""
    with harness.Instance() as feedd:
        files = {f"a/{number:02}": bytes([number]) * 100 for number in range(20)}
        add(feedd, files)
        feedd.start().indexed()
        root = feedd.directory / "pictures"
        root.rename(feedd.directory / "before")
        write(root, {**files, "a/07": bytes([7]) * 90 + bytes(10)})
        done = feedd.ctl("read", "pictures", "--epochs=1", "--verify", check=False)
        place = f"field image of sample 7 (number 7 of the batch) differs at byte 90: 7 was delivered, {root}/a/07 has 0"
        assert done.returncode == 1 and place in done.stderr, done
        (root / "a/07").unlink()
        done = feedd.ctl("read", "pictures", "--epochs=1", "--verify", check=False)
        assert done.returncode == 1 and f"cannot open {root}/a/07 to verify against it: No such file" in done.stderr, done


def test_names_of_all_kinds():
    names = [b"\xff\xfe.jpg", b"new\nline.jpg", b"a b;c.jpg", "é中.jpg".encode(), b"%s%n.jpg", b"n" * 255, b"\x1b[31m", b'"q"']
    with harness.Instance() as feedd:
        root = feedd.directory / "pictures"
        write(root, {b"\xfe\nclass/" + name: name * 3 for name in names} | {b"plain/" + name: name for name in names})
        feedd.add_dataset(
            "pictures", format="folder", path=root, field_image="bytes @ file", pad_image=800, field_name="bytes", pad_name=300
        )
        feedd.start()
        samples = in_order(root)
        assert len(samples) == 2 * len(names)
        content = {
            "image": [padded(read(root, path), 800, 0) for _, _, path in samples],
            "name": [padded(path, 300, 0) for _, _, path in samples],
        }
        check(feedd, content, shuffle=True)
        os.unlink(os.path.join(os.fsencode(root), b"\xfe\nclass/new\nline.jpg"))
        fails(feedd, "/\\xfe\\x0aclass/new\\x0aline.jpg, offset 0: the file is gone")


def test_long_paths():
    """A loader prepares few of these at a time, because each has to be assembled somewhere."""
    deep = "/".join(f"{i:x}" * 250 for i in range(15))
    for reader in READERS:
        with harness.Instance(io=reader) as feedd:
            names = [f"{name}/{deep}/{i:03}" for name in ("cat", "dog") for i in range(60)]
            content = add(feedd, {name: name[-3:].encode() * i for i, name in enumerate(names)})
            feedd.start()
            check(feedd, content, 40, shuffle=True, epochs=2)


def test_files_without_a_class():
    files = {**some(20), "top.jpg": b"top", "another": b"12"}
    with harness.Instance() as feedd:
        root = feedd.directory / "pictures"
        content = add(feedd, files)
        feedd.add_dataset("flat", format="folder", path=root, field_file="bytes", pad_file=ROOM)
        feedd.start()
        check(feedd, content)
        assert len(content["image"]) == 20
        check(feedd, {"file": [padded(read(root, path), pad=0) for _, _, path in in_order(root, False)]}, name="flat")


def test_what_is_left_out():
    """Names that begin with a dot, other extensions; classes without files keep their number."""
    with harness.Instance() as feedd:
        root = feedd.directory / "pictures"
        write(root, {"b/1.jpg": b"1", "b/2.JPeG": b"22", "b/3.png": b"333", "b/.4.jpg": b"", ".git/5.jpg": b"", "b/jpg": b"",
                     "c/notes.txt": b"", "d/6.x.jpg": b"6", "d/.7/8.jpg": b""})  # fmt: skip
        (root / "a").mkdir()
        os.mkfifo(root / "b/fifo")
        feedd.add_dataset("pictures", format="folder", path=root, extensions="jpg|jpeg", **FIELDS)
        feedd.start()
        labels = [struct.pack("<q", number) for number in (1, 1, 3)]
        check(feedd, {"image": [padded(data) for data in (b"1", b"22", b"6")], "label": labels})


def test_fields_without_reads():
    """Labels alone come out of the index, whatever has become of the files."""
    with harness.Instance() as feedd:
        content = add(feedd, some(100))
        feedd.add_dataset("labels", format="folder", path="pictures", field_label="i16 @ class", transform_label="cast f32")
        feedd.start().indexed()
        for path in (feedd.directory / "pictures").rglob("*.jpg"):
            path.unlink()
        floats = [struct.pack("<f", struct.unpack("<q", value)[0]) for value in content["label"]]
        check(feedd, {"label": floats}, name="labels", epochs=2, shuffle=True)


def test_views():
    with harness.Instance() as feedd:
        content = add(feedd, some(200))
        feedd.add_view("val", "pictures", samples="90%..", split_seed=3, pad_image=16)
        feedd.start()
        right = expected.view(content, 180, 200, 3)
        check(feedd, {**right, "image": [image[:16] for image in right["image"]]}, name="val", epochs=2, shuffle=True, seed=8)


def test_many_files_at_once():
    """More than descriptors, in flight at the same time."""
    with harness.Instance(queue_depth=1024) as feedd:
        content = add(feedd, some(3000, most=50))
        feedd.start(wrap=["sh", "-c", 'ulimit -n 200; exec "$@"', "sh"])
        check(feedd, content, batch_size=1500, epochs=2, shuffle=True)


def test_whole_files_need_no_descriptors():
    """They are opened, read and closed by linked entries, also in a loader that is confined. This one may open no descriptor
    any more, and delivers all of them; only one that has changed has to be opened by itself, which shows that it cannot."""
    options = {"epochs": 0, "shuffle": True, "seed": 6}
    with harness.Instance(io="uring", loaders=1, ring="64K") as feedd:
        content = add(feedd, some(200, most=ROOM))
        feedd.start()
        with consumer.Consumer(feedd, "pictures", 8, step=True, **options) as reader:
            reader.attached()
            batches = reader.take(1)
            (loader,) = [process for process in feedd.status()["processes"] if process["role"] == "loader"]
            if not loader["reader"].startswith("uring"):
                harness.skip("this machine has no io_uring")
            harness.prlimit(loader["pid"], "nofile", 3)
            batches += reader.take(99)
            expected.check_run(content, batches, 8, **{**options, "epochs": 4})
            for path in (feedd.directory / "pictures").rglob("*.jpg"):
                with path.open("ab") as file:
                    file.write(b"more")
            reader.command("next", 20000)
            while (event := reader.event())["event"] == "batch":
                reader.release(event)
                reader.command("next", 20000)
        assert event["event"] == "error" and "Too many open files" in event["text"], event


def test_loaders_and_daemon_die():
    with harness.Instance() as feedd:
        content = add(feedd, some(300))
        feedd.start()
        batches = consumer.read_through_kills(feedd, "pictures", 5, 120, shuffle=True, epochs=2)
        expected.check_run(content, batches, 5, epochs=2, shuffle=True)


# ---- Links -------------------------------------------------------------------------------------------------


def test_links_within_the_folder():
    with harness.Instance() as feedd:
        root = feedd.directory / "pictures"
        write(root, some(40, classes=("cat", "dog")))
        (root / "dog/link.jpg").symlink_to("../cat/one")
        (root / "kitten").symlink_to("cat")
        (root / "dog/absolute").symlink_to(next((root / "cat").rglob("*.jpg")).resolve())
        (feedd.directory / "by-link").symlink_to("pictures")
        feedd.add_dataset("pictures", format="folder", path="by-link", field_name="bytes", pad_name=50, **FIELDS)
        feedd.start()
        content = content_of(root)
        assert len(content["image"]) > 60
        content["name"] = [padded(path, 50, 0) for _, _, path in in_order(root)]
        check(feedd, content, shuffle=True, seed=2)
        verify(feedd)


def test_a_farm_of_links():
    """Folders of links to files that are elsewhere, which have to be named."""
    with harness.Instance() as feedd:
        store, root = feedd.directory / "store", feedd.directory / "pictures"
        files = some(60)
        for number, (path, data) in enumerate(files.items()):
            write(store / str(number % 2), {str(number): data})
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).symlink_to(store / str(number % 2) / str(number))
        feedd.add_dataset("pictures", format="folder", path=root, **FIELDS)
        done = feedd.check()
        assert done.returncode and "found a symbolic link to " in done.stderr and "links = FOLDER" in done.stderr, done
        feedd.add_dataset("pictures", format="folder", path=root, links="store/*", **FIELDS)
        feedd.write_config()
        feedd.start()
        for reader in READERS:
            feedd.add_dataset("pictures", format="folder", path=root, links="store/*", io=reader, **FIELDS)
            feedd.ctl("reload")
            check(feedd, content_of(root), shuffle=True)
            verify(feedd, count=120)
        (store / "0/0").unlink()
        fails(feedd, "store/0/0, offset 0: the file is gone")


def test_links_that_lead_nowhere():
    def loop(root):
        (root / "a/back").symlink_to("..")

    def each_other(root):
        (root / "b").mkdir()
        (root / "a/b").symlink_to("../b")
        (root / "b/a").symlink_to("../a")

    refuse(lambda root: (root / "a/x").symlink_to("missing"), "a/x: found a symbolic link to nothing")
    refuse(lambda root: (root / "a/x").symlink_to("x"), "a/x: Too many levels of symbolic links")
    refuse(lambda root: (root / "a/x").symlink_to("/etc/passwd"), "found a symbolic link to /etc/passwd, wanted it to stay")
    refuse(lambda root: (root / "x").symlink_to("/etc"), "pictures/x: found a symbolic link to /etc, ")
    refuse(lambda root: (root / "x").symlink_to(root.parent), "wanted it to stay in the folder")
    refuse(loop, "a/back: found a link to a folder that it is in")
    refuse(each_other, "found a link to a folder that it is in")


# ---- What is refused ---------------------------------------------------------------------------------------


def test_folders_that_are_wrong():
    refuse(lambda root: (root / "a/1").unlink(), "found no files in sub-directories, wanted a sub-directory with files "
           "for each class; without classes, declare the fields: field.image = bytes @ file")
    refuse(lambda root: (root / "a/1").rename(root / "1"), "found no files in sub-directories, wanted a sub-directory with")
    refuse(lambda root: (root / "a/1").unlink(), "found no files, wanted some", field_label=None)
    refuse(lambda _: None, "found no files with extension png in sub-directories, wanted", extensions="png")
    for extensions in (".png", "jpg|.png", "jpg,png"):
        refuse(lambda _: None, f'found "{extensions}", wanted file extensions without dots', extensions=extensions)
    refuse(lambda root: os.mkfifo(root / "a/f"), "a/f: found a FIFO, socket or device, wanted regular files")
    refuse(lambda root: os.truncate(root / "a/1", 1 << 32), "a/1: found a file of 4 GiB or more")
    refuse(lambda _: None, "the folder cannot be opened: No such file or directory", path="missing")
    refuse(lambda _: None, "the folder cannot be opened: Not a directory", path="pictures/a/1")
    refuse(lambda _: None, "links: ", "the folder cannot be opened: Not a directory", links="pictures/a/1")
    refuse(lambda root: [(root / f"{n}").mkdir() for n in range(256)], "found 257 classes", field_label="u8 @ class")
    refuse(lambda root: [(root / f"{n}").mkdir() for n in range(128)], "found 129 classes", field_label="i8 @ class")
    if os.geteuid():
        refuse(lambda root: (root / "a").chmod(0), "Permission denied")
