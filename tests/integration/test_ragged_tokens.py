"""Tokens and records of any length, by files of offsets: as ragged fields, with one length, and packed into windows."""

import json
import random
import struct

import consumer
import data
import expected
import harness
import test_megatron
import test_weights

CODES = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "u64": "Q", "i64": "q", "f32": "f", "f64": "d"}
DESCR = {"u32": "<u4", "i32": "<i4", "u64": "<u8", "i64": "<i8"}


def write_offsets(path, offsets, dtype="i64"):
    data.write_npy(path, DESCR[dtype], (len(offsets),), struct.pack(f"<{len(offsets)}{CODES[dtype]}", *offsets))


def write(path, documents, dtype="u16", offsets="i64", before=0, after=0, header=0):
    """PATH.bin and PATH.npy; `before` and `after`: values of the file that belong to no document."""
    at = [before]
    for document in documents:
        at.append(at[-1] + len(document))
    values = [7] * before + [value for document in documents for value in document] + [9] * after
    path.with_suffix(".bin").write_bytes(bytes(header) + struct.pack(f"<{len(values)}{CODES[dtype]}", *values))
    write_offsets(path.with_suffix(".npy"), at, offsets)


def content_of(documents, dtype="u16", name="tokens"):
    item = struct.calcsize(CODES[dtype])
    return {name: expected.Ragged((struct.pack(f"<{len(d)}{CODES[dtype]}", *d) for d in documents), item)}


def serve(files, dtype="u16", **options):
    instance = harness.Instance()
    for number, documents in enumerate(files):
        write(instance.directory / f"text-{number}", documents, dtype)
    instance.add_dataset("text", format="tokens", path="text-*.bin", offsets="text-*.npy", dtype=dtype, **options)
    return instance


def check(feedd, content, batch_size=5, name="text", **options):
    expected.check_run(content, consumer.read(feedd, name, batch_size, **options), batch_size, **options)


# ---- Ragged fields -----------------------------------------------------------------------------------------


def test_documents_of_two_files():
    """Some without tokens, some longer than a batch is on average."""
    files = [test_megatron.some(200), [[], [], *test_megatron.some(150, 2, 3000), []]]
    for io in ("uring", "mapped", "pread"):
        with serve(files, io=io).start() as feedd:
            content = content_of(sum(files, []))
            check(feedd, content, 33)
            check(feedd, content, 50, epochs=2, shuffle=True, seed=3)


def test_every_type_of_offsets():
    """Values before the first and after the last document are not delivered."""
    documents = test_megatron.some(60)
    for number, offsets in enumerate(DESCR):
        with harness.Instance() as feedd:
            write(feedd.directory / "x", documents, "i32", offsets, before=number, after=3 - number, header=100)
            feedd.add_dataset(
                "text", format="tokens", path="x.bin", offsets="x.npy", dtype="i32", header_bytes=100, io_direct="yes"
            )
            feedd.start()
            check(feedd, content_of(documents, "i32"), shuffle=True)


def test_records():
    dice = random.Random(5)
    documents = [[dice.randrange(100) for _ in range(dice.randrange(40))] for _ in range(80)]
    with harness.Instance() as feedd:
        for dtype in CODES:
            write(feedd.directory / dtype, documents, dtype)
            feedd.add_dataset(dtype, format="records", path=f"{dtype}.bin", offsets=f"{dtype}.npy", field_wave=dtype)
        feedd.start()
        for dtype in CODES:
            check(feedd, content_of(documents, dtype, "wave"), 7, dtype, shuffle=True, epochs=2)


def test_pairs_of_megatron():
    """Each document of a pair is a sample, and the .idx file says its type."""
    pairs = [test_megatron.some(120), [[], *test_megatron.some(50, 2, 900)]]
    for kind, dtype in ((8, "u16"), (4, "i32"), (5, "i64")):
        with harness.Instance() as feedd:
            for number, documents in enumerate(pairs):
                cuts = [1 + place % 3 for place in range(len(documents))]
                test_megatron.pair(feedd.directory / f"text-{number}", documents, kind, cuts)
            feedd.add_dataset("text", format="megatron", path="text-*.idx")
            feedd.start()
            check(feedd, content_of(sum(pairs, []), dtype), 16, shuffle=True, epochs=2)


def test_views_and_weights():
    documents = test_megatron.some(100)
    with serve([documents]) as feedd:
        feedd.add_view("part", "text", samples="10%..60%", split_seed=4)
        weights = test_weights.some(count=100)
        test_weights.write_weights(feedd.directory / "weights.dat", weights, "<f8")
        feedd.add_view("drawn", "text", weights="weights.dat")
        feedd.start()
        content = content_of(documents)
        check(feedd, expected.view(content, 10, 60, 4), 4, "part", shuffle=True)
        expected.check_drawn(content, weights, consumer.read(feedd, "drawn", 10, epochs=2), 0)


def test_ranks_and_a_gpu():
    documents = test_megatron.some(101, most=500)
    with serve([documents]).start() as feedd:
        content = content_of(documents)
        for rank in range(3):
            batches = consumer.read(feedd, "text", 4, shuffle=True, rank=rank, world_size=3, local_world_size=1)
            expected.check_run(content, batches, 4, shuffle=True, rank=rank, world_size=3)
        batches = consumer.read(feedd, "text", 8, shuffle=True, epochs=2, device="host:0")
        expected.check_run(content, batches, 8, shuffle=True, epochs=2)


def test_loaders_and_daemon_die():
    documents = test_megatron.some(300)
    with serve([documents]).start() as feedd:
        batches = consumer.read_through_kills(feedd, "text", 8, 76, shuffle=True, epochs=2)
        expected.check_run(content_of(documents), batches, 8, shuffle=True, epochs=2)


# ---- One length --------------------------------------------------------------------------------------------


def padded(documents, length, value, dtype):
    code = f"<{length}{CODES[dtype]}"
    return [struct.pack(code, *(document + [value] * length)[:length]) for document in documents]


def test_one_length():
    """Shorter documents are filled up with any value of the type, longer ones are cut."""
    documents = test_megatron.some(100, limit=100)
    cases = ("u8", 255), ("i8", -1), ("u16", 50256), ("i32", -100), ("u64", 2**64 - 1), ("i64", -100)
    for dtype, value in cases:
        with serve([documents], dtype, pad_tokens=f"21 {value}").start() as feedd:
            check(feedd, {"tokens": padded(documents, 21, value, dtype)}, 9, shuffle=True)


def test_one_length_of_pairs_records_and_views():
    documents = test_megatron.some(60)
    with harness.Instance() as feedd:
        test_megatron.pair(feedd.directory / "x", documents)
        write(feedd.directory / "y", documents, "i32")
        feedd.add_dataset("text", format="megatron", path="x.idx")
        feedd.add_view("short", "text", pad_tokens=8, transform_tokens="cast f32")
        feedd.add_dataset("numbers", format="records", path="y.bin", offsets="y.npy", field_x="i32", pad_x="30 -1")
        write(feedd.directory / "z", documents, "f32")
        feedd.add_dataset("halves", format="records", path="z.bin", offsets="z.npy", field_x="f32", pad_x="30 0.5")
        feedd.start()
        right = [struct.pack("<8f", *struct.unpack("<8H", row)) for row in padded(documents, 8, 0, "u16")]
        check(feedd, {"tokens": right}, name="short")
        check(feedd, {"x": padded(documents, 30, -1, "i32")}, name="numbers")
        check(feedd, {"x": padded(documents, 30, 0.5, "f32")}, name="halves")


# ---- Windows -----------------------------------------------------------------------------------------------


def test_packed():
    """The same windows as of pairs of Megatron."""
    files = [test_megatron.some(200), [[], [], *test_megatron.some(150, 2, 200), []]]
    for length in (1, 7, 64):
        with harness.Instance() as feedd:
            for number, documents in enumerate(files):
                write(feedd.directory / f"text-{number}", documents, before=3 * number, after=number)
            paths = {"path": "text-*.bin", "offsets": "text-*.npy", "pack": length, "cu_seqlens": "yes"}
            feedd.add_dataset("text", format="tokens", **paths, dtype="u16")
            feedd.add_dataset("records", format="records", **paths, field_ids="u16")
            feedd.start()
            content = test_megatron.boundaries(files, length)
            renamed = {("ids" if name == "tokens" else name): values for name, values in content.items()}
            check(feedd, content, 33)
            check(feedd, content, 50, epochs=2, shuffle=True, seed=3)
            check(feedd, renamed, 33, "records", shuffle=True, seed=3)


# ---- feedctl -----------------------------------------------------------------------------------------------


def test_verify():
    documents = test_megatron.some(150)
    with serve([documents, documents[:40]]) as feedd:
        feedd.add_view("part", "text", samples="10%..60%", split_seed=4)
        feedd.add_view("even", "text", pad_tokens="21 50256")
        test_megatron.pair(feedd.directory / "x", documents)
        feedd.add_dataset("pairs", format="megatron", path="x.idx")
        write(feedd.directory / "y", documents, before=5)
        feedd.add_dataset("packed", format="tokens", path="y.bin", offsets="y.npy", dtype="u16", pack=16)
        feedd.start()
        for name in ("text", "part", "even", "pairs", "packed"):
            done = feedd.ctl("read", name, "--epochs=2", "--shuffle", "--verify")
            assert "all bytes equal to the files', as feedd's index describes them" in done.stdout, done


def test_show():
    with serve([[[258, 3, 1], [], [50256]]]).start() as feedd:
        shown = [json.loads(feedd.ctl("show", "text", str(sample), "--json").stdout) for sample in range(3)]
        assert "258" in str(shown[0]) and "50256" in str(shown[2]), shown


# ---- What is refused ---------------------------------------------------------------------------------------


def refuse(*parts, at=(0, 2, 2, 6), kind="i64", values=6, change=None, **options):
    with harness.Instance() as instance:
        (instance.directory / "x.bin").write_bytes(bytes(2 * values))
        write_offsets(instance.directory / "x.npy", at, kind)
        if change:
            change(instance.directory)
        default = {"format": "tokens", "path": "x.bin", "offsets": "x.npy", "dtype": "u16"}
        options = {key: value for key, value in {**default, **options}.items() if value is not None}
        instance.add_dataset("text", **options)
        done = instance.check()
        if not parts:
            assert done.returncode == 0, done
            return
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done
        for part in ("[dataset text] ", *parts):
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def test_offsets_that_lie():
    refuse()
    refuse("x.npy: found offset -1 at index 0, wanted at least 0 and at most 6", at=(-1, 2))
    refuse("x.npy: found offset -5 at index 1, wanted at least 3", at=(3, -5, 6), kind="i32")
    refuse("x.npy: found offset 1 at index 2, wanted at least 2 and at most 6", at=(0, 2, 1, 6))
    refuse("x.npy: found offset 7 at index 3, wanted at least 2 and at most 6", at=(0, 2, 2, 7))
    refuse(f"found offset {2**64 - 1} at index 1", at=(0, 2**64 - 1), kind="u64")
    refuse(f"found offset {2**32 - 1} at index 1", at=(0, 2**32 - 1), kind="u32")
    refuse("x.npy: found 1 offset, wanted at least 2: one more than there are samples", at=(0,))
    refuse("x.npy: found 0 offsets, wanted at least 2", at=())


def test_offsets_of_another_kind():
    def npy(descr, shape, content):
        return lambda folder: data.write_npy(folder / "x.npy", descr, shape, content)

    wanted = "wanted an array of u32, i32, u64 or i64 with one dimension"
    refuse(f"x.npy: found i64[2,2], {wanted}", change=npy("<i8", (2, 2), bytes(32)))
    refuse(f"x.npy: found f64[3], {wanted}", change=npy("<f8", (3,), bytes(24)))
    refuse(f"x.npy: found u16[3], {wanted}", change=npy("<u2", (3,), bytes(6)))
    refuse("x.npy: found big-endian dtype", change=npy(">i8", (3,), bytes(24)))
    refuse("x.npy: found 23 bytes of data, wanted 24", change=npy("<i8", (3,), bytes(23)))
    refuse("x.npy: found an array of Python objects", "if the items have one shape", change=npy("|O", (3,), bytes(24)))
    refuse("found a zip or npz file, wanted npy", change=lambda folder: (folder / "x.npy").write_bytes(b"PK\3\4" + bytes(60)))
    refuse(f"found {2**27 + 2} offsets, wanted at most {2**27 + 1}", change=npy("<i8", (2**27 + 2,), b""))
    refuse("[dataset text] offsets: ", "x.npy", change=lambda folder: (folder / "x.npy").unlink())


def test_files_that_do_not_match():
    refuse("x.bin: found 13 bytes of values, wanted a multiple of 2", change=lambda f: (f / "x.bin").write_bytes(bytes(13)))
    refuse("offsets: found 1 file, wanted 2: one for each file of path", path="*.bin", change=two_files)
    refuse("x.bin: found 6 tokens, wanted at least 7", pack=6)


def two_files(folder):
    (folder / "y.bin").write_bytes(bytes(12))


def test_a_sample_that_is_too_large():
    def sparse(folder):
        with (folder / "x.bin").open("wb") as file:
            file.truncate((1 << 30) + 2)

    refuse(f"found {(1 << 29) + 1} values in document 0, wanted at most {1 << 29}, which is 1 GiB",
           at=(0, (1 << 29) + 1), change=sparse)  # fmt: skip


def test_settings_that_do_not_go_together():
    refuse("length: found together with offsets, wanted one of them", length=4)
    refuse("length: found nothing, wanted a whole number of tokens", "format tokens needs it or offsets", offsets=None)
    refuse('cu_seqlens: found "yes" without pack, wanted both', cu_seqlens="yes")
    refuse("pack: found without offsets", "set length", offsets=None, pack=4)
    refuse("pad.tokens: found no field of that name", offsets=None, length=2, pad_tokens=4)
    refuse("pad.tokens: found no field of that name", pack=2, pad_tokens=4)
    refuse("pad.text: found no field of that name with samples of different lengths", pad_text=4)
    refuse("transform.tokens: found a ragged field, wanted one whose samples have a fixed shape", transform_tokens="cast f32")
    for pad in ("0", "8 65536", "8 -1", "8 x", "8 1.5", "8x"):
        refuse(f'pad.tokens: found "{pad}", wanted a LENGTH from 1 to', "VALUE of type u16", pad_tokens=pad)
    refuse("pad.tokens: found", f"a LENGTH from 1 to {1 << 29} and", pad_tokens=1 << 30)
    records = {"format": "records", "dtype": None}
    refuse("record_bytes: found together with offsets", **records, record_bytes=4, field_x="u16")
    refuse("record_bytes: found nothing", "format records needs it or offsets", **records, offsets=None, field_x="u16 @ 0")
    refuse("field.y: found a second field, wanted one, because offsets is set", **records, field_x="u8", field_y="u8")
    refuse('field.x: found "u8 @ 0", wanted the type of a value', **records, field_x="u8 @ 0")
    refuse('field.x: found "uint8", wanted', "perhaps you mean u8", **records, field_x="uint8")
    refuse("pad.x: found no field of that name", **records, offsets=None, record_bytes=2, field_x="u16 @ 0", pad_x=2)
    refuse('field.x: found "f32", wanted integers, which pack can lay end to end', **records, pack=2, field_x="f32")
    refuse("field.position: found the name of a field that pack adds", **records, pack=2, field_position="u16")
    refuse("pack: found without offsets", "set length, in format tokens", **records, offsets=None, pack=2, record_bytes=2,
           field_x="u16 @ 0")  # fmt: skip


def test_pack_where_it_cannot_be():
    for key in ("pack", "cu_seqlens"):
        setting = {key: 4 if key == "pack" else "yes", "offsets": None, "dtype": None}
        refuse(f"{key}: found in a dataset of format packed", "set it in the dataset that feedctl pack reads, and make",
               format="packed", **setting)  # fmt: skip
        refuse(f"{key}: found in a dataset of format tar", "write the documents to flat files of tokens, with offsets",
               format="tar", field_x="bytes", **setting)  # fmt: skip
