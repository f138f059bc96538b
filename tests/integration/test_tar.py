"""Tar shards as WebDataset writes them: what is delivered, against what Python's tarfile was given to write."""

import gzip
import io
import os
import random
import struct
import subprocess
import tarfile
import time

import consumer
import expected
import harness

READERS = ("auto", "uring", "mapped", "pread")
ROOM, PAD = 2000, 7
FIELDS = {"field_jpg": "bytes @ jpg|jpeg", "pad_jpg": f"{ROOM} {PAD}", "field_cls": "i32"}


def add(archive, name, content=b"", **header):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in header.items():
        setattr(info, key, value)
    archive.addfile(info, io.BytesIO(content))


def write(path, samples, tar_format=tarfile.USTAR_FORMAT):
    """samples: [(key, {extension: bytes}), ...]"""
    with tarfile.open(path, "w", format=tar_format) as archive:
        for key, members in samples:
            for extension, content in members.items():
                add(archive, f"{key}.{extension}", content)


def some(count, first=0, most=3000, folder=""):
    """Images of 0 to `most` bytes, and classes."""
    dice = random.Random(first)
    return [
        (f"{folder}{first + i:06}", {"jpg": dice.randbytes(dice.randrange(most)), "cls": f" {first + i - 20}\n".encode()})
        for i in range(count)
    ]


def padded(image, room=ROOM, pad=PAD):
    return image[:room] + bytes([pad]) * (room - len(image))


def content_of(samples, room=ROOM):
    return {
        "jpg": [padded(members["jpg"], room) for _, members in samples],
        "cls": [struct.pack("<i", int(members["cls"])) for _, members in samples],
    }


def add_shards(instance, shards, name="wds", **options):
    """Returns what must be delivered."""
    formats = (tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)
    for number, samples in enumerate(shards):
        write(instance.directory / f"{name}-{number}.tar", samples, formats[number % 3])
    declared = {key: value for key, value in {**FIELDS, **options}.items() if value is not None}
    instance.add_dataset(name, format="tar", path=instance.directory / f"{name}-*.tar", **declared)
    return content_of(sum(shards, []))


def check(feedd, content, batch_size=7, name="wds", **options):
    batches = consumer.read(feedd, name, batch_size, **options)
    expected.check_run(content, batches, batch_size, **options)


def three_shards():
    """Names of all kinds: short, of two parts in ustar, and longer than a header takes."""
    folders = "a" * 90 + "/" + "b" * 60 + "/", "c" * 300 + "/é/", "d" * 200
    return [some(count, first, folder=folder) for folder, (count, first) in zip(folders, ((40, 0), (1, 40), (60, 41)))]


# ---- What is delivered -------------------------------------------------------------------------------------


def test_every_reader():
    for reader in READERS:
        with harness.Instance(io=reader) as feedd:
            content = add_shards(feedd, three_shards())
            feedd.start()
            check(feedd, content)
            check(feedd, content, batch_size=30, epochs=3, shuffle=True, seed=4)


def test_direct_and_large_members():
    """Of more than one read takes, at odd offsets."""
    sizes = (0, 1, 511, 512, 513, 524288, 524289, 1500001, 2000000)
    samples = [(f"{i}", {"jpg": random.Random(i).randbytes(size), "cls": b"1"}) for i, size in enumerate(sizes)]
    for options in ({"io": "uring"}, {"io": "uring", "io_direct": "yes"}, {"io": "pread"}, {"io": "mapped"}):
        with harness.Instance(ring_memory="256M") as feedd:
            add_shards(feedd, [samples], pad_jpg="1600000", **options)
            content = {"jpg": [padded(members["jpg"], 1600000, 0) for _, members in samples], "cls": [struct.pack("<i", 1)] * 9}
            feedd.start()
            check(feedd, content, batch_size=2, shuffle=True, seed=1)


def test_numbers_lengths_and_extensions():
    members = [
        ("x/1", {"JPEG": b"abc", "seg.png": b"12345", "cls": b"-5", "score.txt": b"0.1\n", "id": b"18446744073709551615"}),
        ("x/2", {"jpg": b"", "seg.png": b"1", "cls": b"+127", "score.txt": b"-1e-3", "id": b"0"}),
    ]
    with harness.Instance() as feedd:
        write(feedd.directory / "a.tar", members)
        feedd.add_dataset(
            "wds", format="tar", path="a.tar", field_image="bytes @ jpg|jpeg", pad_image=4, field_bytes="length @ jpg|jpeg",
            field_seg="length @ seg.png", field_cls="i8", field_score="f32 @ score.txt", field_wide="f64 @ score.txt",
            field_id="u64",
        )  # fmt: skip
        feedd.start()
        check(feedd, {
            "image": [b"abc\0", b"\0\0\0\0"], "bytes": [struct.pack("<q", 3), struct.pack("<q", 0)],
            "seg": [struct.pack("<q", 5), struct.pack("<q", 1)], "cls": [struct.pack("<b", -5), struct.pack("<b", 127)],
            "score": [struct.pack("<f", 0.1), struct.pack("<f", -1e-3)],
            "wide": [struct.pack("<d", 0.1), struct.pack("<d", -1e-3)], "id": [b"\xff" * 8, bytes(8)],
        })  # fmt: skip


def test_fields_without_reads():
    """Labels alone come out of the index."""
    with harness.Instance() as feedd:
        content = add_shards(feedd, [some(100)])
        feedd.add_dataset("labels", format="tar", path="wds-0.tar", field_cls="i32", transform_cls="cast f32, scale 2")
        feedd.add_dataset("plain", format="tar", path="wds-0.tar", field_cls="i32")
        feedd.start()
        check(feedd, {"cls": content["cls"]}, name="plain", shuffle=True, seed=3)
        floats = [struct.pack("<f", 2.0 * struct.unpack("<i", value)[0]) for value in content["cls"]]
        check(feedd, {"cls": floats}, name="labels", epochs=2)


def test_loaders_without_reads_are_seen_to_move():
    """One that is slower than its consumer always finds another chunk, and must say between two of them that it lives."""
    with harness.Instance(io="uring", loaders=1, loader_timeout=2, ring="64K") as feedd:
        write(feedd.directory / "a.tar", [(f"{number}", {"cls": b"1"}) for number in range(20000)])
        feedd.add_dataset("labels", format="tar", path="a.tar", field_cls="u8")
        feedd.start()
        command = [harness.PROGRAMS / "feedctl", "read", "labels", "--batch-size=20000", "--epochs=1000000", "--shuffle"]
        with subprocess.Popen(command, env=feedd.environment(), stdout=subprocess.DEVNULL) as reader:
            loaders = harness.eventually(lambda: feedd.children_called("loader"), 5, "a loader runs")
            time.sleep(5)
            assert reader.poll() is None and feedd.children_called("loader") == loaders
            reader.kill()


def test_a_padded_field_may_be_transformed():
    with harness.Instance() as feedd:
        content = add_shards(feedd, [some(50)], transform_jpg="cast f32")
        feedd.start()
        floats = [b"".join(struct.pack("<f", byte) for byte in image) for image in content["jpg"]]
        check(feedd, {"jpg": floats, "cls": content["cls"]}, batch_size=10, shuffle=True, seed=2)


def test_members_that_are_no_part_of_a_sample():
    with harness.Instance() as feedd:
        with tarfile.open(feedd.directory / "a.tar", "w", format=tarfile.GNU_FORMAT) as archive:
            add(archive, "folder", type=tarfile.DIRTYPE)
            add(archive, "README", b"no extension")
            add(archive, "folder/1.jpg", b"one")
            add(archive, "folder/._1.jpg", b"of a Macintosh")
            add(archive, "folder/link.jpg", type=tarfile.SYMTYPE, linkname="1.jpg")
            add(archive, "folder/hard.jpg", type=tarfile.LNKTYPE, linkname="folder/1.jpg")
            add(archive, "folder/1.cls", b"1")
            add(archive, "folder/1.json", b"{}")
            add(archive, "folder/2.cls", b"2")
            add(archive, "folder/2.jpg", b"two")
        feedd.add_dataset("wds", format="tar", path="a.tar", **FIELDS)
        feedd.start()
        check(feedd, {"jpg": [padded(b"one"), padded(b"two")], "cls": [struct.pack("<i", 1), struct.pack("<i", 2)]})


def test_views():
    with harness.Instance() as feedd:
        content = add_shards(feedd, [some(80), some(120, 80)])
        feedd.add_view("val", "wds", samples="90%..", split_seed=3, pad_jpg=16)
        feedd.start()
        right = expected.view(content, 180, 200, 3)
        check(feedd, {**right, "jpg": [image[:16] for image in right["jpg"]]}, name="val", epochs=2, shuffle=True, seed=8)


def simply_end(path, within_padding=False):
    """As if it had been cut between two members."""
    data = path.read_bytes().rstrip(b"\0")
    path.write_bytes(data if within_padding else data + bytes(-len(data) % 512))


def test_an_archive_that_simply_ends():
    """Without its blocks of zeros, and cut within the padding of the last member: served, with a warning."""
    for within_padding in (False, True):
        with harness.Instance(index_folder="kept") as feedd:
            (feedd.directory / "kept").mkdir()
            content = add_shards(feedd, [some(20), some(20, 20)])
            assert "may have been cut" not in feedd.check().stdout
            path = feedd.directory / "wds-1.tar"
            simply_end(path, within_padding)
            for note in (", made in", ", read in"):
                text = feedd.check().stdout
                wanted = f"1 archive lacks the blocks of zeros at the end, and may have been cut; the first one: {path}\n"
                assert note in text and wanted in text, text
            feedd.start()
            check(feedd, content)


def test_warnings_of_archives_that_simply_end():
    with harness.Instance() as feedd:
        content = add_shards(feedd, [some(2, number * 2) for number in range(10)])
        for path in feedd.directory.glob("wds-*.tar"):
            simply_end(path)
        feedd.start().indexed()
        check(feedd, content)
        log = feedd.log.read_text()
        assert log.count("ends without the blocks of zeros that end a tar archive") == 8, log
        assert "so do 2 more archives of dataset wds" in log, log
        assert "10 archives lack the blocks of zeros" in feedd.check().stdout


def test_loaders_and_daemon_die():
    with harness.Instance() as feedd:
        content = add_shards(feedd, three_shards())
        feedd.start()
        batches = consumer.read_through_kills(feedd, "wds", 5, 42, shuffle=True, epochs=2)
        expected.check_run(content, batches, 5, epochs=2, shuffle=True)


def test_a_shard_that_is_cut_later():
    """Of a dataset that skips what cannot be read, some samples are missing; the others are as they were."""
    with harness.Instance(io="pread") as feedd:
        content = add_shards(feedd, [some(100, most=8000)], on_error="skip")
        feedd.start().indexed()
        path = feedd.directory / "wds-0.tar"
        os.truncate(path, path.stat().st_size // 2)
        batches = consumer.read(feedd, "wds", 10)
        assert sum(batch["skipped"] for batch in batches) > 30
        expected.check_bytes(content, batches)


def test_other_shards_are_another_dataset():
    with harness.Instance() as feedd:
        first = add_shards(feedd, [some(50)])
        feedd.start()
        with consumer.Consumer(feedd, "wds", 10, step=True) as reader:
            reader.attached()
            reader.take(1)
            token = reader.token()
        check(feedd, first)
        samples = some(50)
        samples[30][1]["cls"] = b"5"  # of the same length
        write(feedd.directory / "wds-0.tar", samples)
        feedd.ctl("reload")
        consumer.refused(feedd, "ESTALE", dataset="wds", batch_size=10, resume=token)
        check(feedd, content_of(samples))


# ---- What is refused ---------------------------------------------------------------------------------------


def refuse(make, *parts, **options):
    """make(path) writes a.tar."""
    with harness.Instance() as instance:
        make(instance.directory / "a.tar")
        options = {key: value for key, value in {**FIELDS, **options}.items() if value}
        instance.add_dataset("wds", format="tar", path="a.tar", **options)
        done = instance.check()
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done
        for part in ("[dataset wds] ", *parts):
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def changed(change):
    """An archive of two samples, whose bytes `change` has altered."""
    def make(path):
        write(path, some(2, most=600))
        path.write_bytes(change(bytearray(path.read_bytes())))

    return make


def test_archives_that_lie():
    def put(at, text):
        """In the first header, whose sum remains right."""
        def change(data):
            data[at : at + len(text)] = text
            data[148:156] = b" " * 8
            data[148:156] = b"%06o\0 " % sum(data[:512])
            return data

        return changed(change)

    refuse(changed(lambda data: data[:700]), "a.tar: found 700 bytes in the file, wanted the member of")
    refuse(changed(lambda data: data[:300]), "found the end of the file at byte 300, wanted 512 bytes at offset 0")
    refuse(changed(lambda data: b"x" + data[1:]), "found no tar header at offset 0")
    refuse(changed(lambda data: gzip.compress(data)), "found gzip data, wanted an uncompressed tar archive")
    refuse(put(124, b"77777777777\0"), "wanted the member of 8589934591 bytes at offset 512")
    refuse(put(124, b"\x80" + b"\xff" * 11), "the tar header at offset 0 gives no valid size")
    refuse(put(124, b"-1\0"), "the tar header at offset 0 gives no valid size")
    refuse(put(156, b"S"), "000000.jpg is stored as a sparse file")
    refuse(put(156, b"x"), "the pax header at offset 0 is damaged")
    refuse(put(156, b"L"), "without a member for field jpg")
    refuse(lambda path: path.write_bytes(bytes(10240)), "found no samples, wanted members named KEY.EXTENSION")
    refuse(lambda path: path.write_bytes(b""), "found an empty file")
    refuse(lambda path: path.write_bytes(b"ab"), "found the end of the file")


def test_pax_headers_that_lie():
    def make(**records):
        def write_one(path):
            with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
                add(archive, "1.jpg", b"12345", pax_headers=records)
                add(archive, "1.cls", b"1")

        return write_one

    refuse(make(size="x"), "the pax header at offset 0 gives no valid size")
    refuse(make(size="99999999999999999999"), "gives no valid size")
    refuse(make(size=str(1 << 40)), "wanted the member of 1099511627776 bytes")
    refuse(make(path="a" * 5000 + ".jpg"), "has a longer name than")
    refuse(make(**{"GNU.sparse.major": "1"}), "is stored as a sparse file")
    refuse(make(comment="z" * (1 << 20)), "found a pax header of 1048")


def test_samples_that_are_not_whole():
    def make(*samples):
        return lambda path: write(path, samples)

    refuse(make(("1", {"jpg": b""})),
           'a.tar: found sample "1" without a member for field cls, wanted one with extension cls; it has jpg')  # fmt: skip
    many = {"seg.png": b"", **{f"part{number}.pt": b"" for number in range(40)}}  # more than a message lists
    listed = ", ".join([*list(many)[:11], "..."]) + "\n"
    refuse(make(("1", {"jpg": b"", "cls": b"1"}), ("2", many)), f"wanted one with extension jpg|jpeg; it has {listed}")
    refuse(make(("1", {"jpg": b"", "cls": b"1"}), ("2", {"cls": b"1"})), 'found sample "2" without a member for field jpg')
    refuse(make(("1", {"jpg": b"", "jpeg": b""})), 'found a second member for field jpg in sample "1": 1.jpeg')
    for text in (b"cat", b"", b"1.5", b"2147483648", b"1 2", b"9" * 300, b"0x10"):
        refuse(make(("1", {"jpg": b"", "cls": text})), "in 1.cls, wanted a number of type i32")
    refuse(make(("1", {"jpg": b"", "cls": b"-1"})), 'found "-1" in 1.cls', field_cls="u64")
    refuse(make(("1", {"jpg": b"", "cls": b"1e39"})), 'found "1e39" in 1.cls', field_cls="f32")


def test_declarations():
    def make(path):
        write(path, some(2))

    refuse(make, 'field.cls: unknown type "int64"; perhaps you mean "i64"', field_cls="int64")
    refuse(make, 'field.cls: found type "picture", wanted bytes, length, or the type of a number', field_cls="picture")
    refuse(make, 'field.cls: found type "f16"', field_cls="f16")
    for text in ("i64 @", "i64 @ a||b", "i64 @ |a", "i64 @ a|", "i64 @ .a", "i64 @ a|.b", "i64 @ a b", "i64 x"):
        refuse(make, "field.cls: found ", "wanted ", field_cls=text)
    for text in ("0", "x", "-1", "5 256", "5x", "5 x", "5 1 1", "1073741825"):
        refuse(make, f'pad.jpg: found "{text}", wanted a LENGTH from 1 to 1073741824', pad_jpg=text)
    refuse(make, "pad.cls: found no field of that name with samples of different lengths", pad_cls="5")
    refuse(make, "pad.other: found no field of that name", pad_other="5")


def test_verify():
    """feedctl compares each field with the files by itself, also where samples are filled up and cut, and in views."""
    with harness.Instance() as feedd:
        add_shards(feedd, three_shards(), field_bytes="length @ jpg|jpeg", pad_jpg=f"{ROOM - 500} 255")
        feedd.add_view("val", "wds", samples="30%..70%", split_seed=3, transform_jpg="cast f32")
        feedd.start()
        order = "--epochs=2", "--shuffle", "--seed=3", "--batch-size=7", "--verify"
        done = feedd.ctl("read", "wds", *order)
        assert "verified 202 samples of 2 whole epochs: each in its place, none twice, all bytes equal to" in done.stdout, done
        assert "the files', as feedd's index describes them\n" in done.stdout, done
        done = feedd.ctl("read", "val", *order)
        assert "all bytes of cls, bytes equal" in done.stdout and "not verified: the bytes of jpg" in done.stdout, done


def test_verify_finds_what_differs():
    """In the page cache, so that loaders and feedctl see different bytes: the file is replaced by another."""
    with harness.Instance() as feedd:
        content = add_shards(feedd, [some(20)])
        feedd.start().indexed()
        path = feedd.directory / "wds-0.tar"
        data = bytearray(path.read_bytes())
        at = data.index(content["jpg"][7][:100]) + 99
        data[at] ^= 1
        path.unlink()
        path.write_bytes(data)
        done = feedd.ctl("read", "wds", "--epochs=1", "--verify", check=False)
        place = f"field jpg of sample 7 (number 7 of the batch) differs at byte 99: {data[at] ^ 1} was delivered, {path}"
        assert done.returncode == 1 and f"{place} has {data[at]} at offset {at}" in done.stderr, done
        os.truncate(path, at)
        done = feedd.ctl("read", "wds", "--epochs=1", "--verify", check=False)
        assert done.returncode == 1 and f"cannot read {path} at offset {at} to verify: the file ends there" in done.stderr
