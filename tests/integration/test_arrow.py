"""Arrow files and streams, most of them wrong in some way that no library writes. test_pyarrow.py has those of pyarrow."""

import os
import random
import struct
import time

import arrow_writer as arrow
import consumer
import expected
import harness

READERS = ("auto", "uring", "mapped", "pread")
ROOM, PAD = 300, 7
FIELDS = {"field_text": "bytes", "pad_text": f"{ROOM} {PAD}", "field_label": "i64"}
COLUMNS = [arrow.field("text", arrow.UTF8), arrow.integer(64, name="label")]


def some(count, first=0, most=400):
    """[(text, label), ...]"""
    dice = random.Random(first)
    return [(dice.randbytes(dice.randrange(most)), first + number) for number in range(count)]


def batch_of(samples, **header):
    count = len(samples)
    texts, labels = [text for text, _ in samples], struct.pack(f"<{count}q", *(label for _, label in samples))
    return arrow.batch(count, [(count, 0)] * 2, [*arrow.strings(texts), b"", labels], **header)


def content_of(samples, room=ROOM, pad=PAD):
    return {
        "text": [text[:room] + bytes([pad]) * (room - len(text)) for text, _ in samples],
        "label": [struct.pack("<q", label) for _, label in samples],
    }


def given(options):
    return {key: value for key, value in options.items() if value is not None}


def add_files(instance, name="hf", **options):
    """Files and streams, of several batches or none. Returns what must be delivered."""
    samples = some(100)
    parts = [samples[:40], samples[40:41], [], samples[41:80], samples[80:]]
    write = {"0": arrow.stream, "1": arrow.file, "2": arrow.stream, "3": arrow.file}
    batches = {"0": parts[:3], "1": parts[3:4], "2": [], "3": parts[4:]}
    for number, make in write.items():
        content = make(COLUMNS, [batch_of(part) for part in batches[number]])
        (instance.directory / f"{name}-{number}.arrow").write_bytes(content)
    instance.add_dataset(name, format="arrow", path=instance.directory / f"{name}-*.arrow", **given({**FIELDS, **options}))
    return content_of(samples)


def squad(count):
    """A stream with the columns of SQuAD, as datasets caches it."""
    names = ("id", "title", "context", "question")
    lists = [arrow.field("text", arrow.LIST, children=[arrow.field("item", arrow.UTF8)]),
             arrow.field("answer_start", arrow.LIST, children=[arrow.integer(32, name="item")])]  # fmt: skip
    columns = [arrow.field(name, arrow.UTF8) for name in names] + [arrow.field("answers", arrow.STRUCT, children=lists)]
    texts = [arrow.strings([f"{name} {number}".encode() for number in range(count)]) for name in (*names, "answer")]
    answers = [b"", b"", arrow.offsets([1] * count), *texts[4]]
    starts = [b"", arrow.offsets([1] * count), b"", struct.pack(f"<{count}i", *range(count))]
    nodes = [(count, 0)] * (len(names) + 5)
    return arrow.stream(columns, [arrow.batch(count, nodes, [*sum(texts[:4], []), *answers, *starts])])


def questions(count):
    """A stream with lists, and with a string in a struct."""
    columns = [
        arrow.field("input_ids", arrow.LIST, children=[arrow.integer(32, name="item")]),
        arrow.field("answers", arrow.STRUCT, children=[arrow.field("text", arrow.UTF8)]),
    ]  # fmt: skip
    lengths = [number * 100 for number in range(count)]
    values = struct.pack(f"<{sum(lengths)}i", *range(sum(lengths)))
    texts = arrow.strings([b"yes", b"no"] * (count // 2))
    nodes = [(count, 0), (sum(lengths), 0), (count, 0), (count, 0)]
    return arrow.stream(columns, [arrow.batch(count, nodes, [b"", arrow.offsets(lengths), b"", values, b"", *texts])])


def check(feedd, content, batch_size=7, name="hf", **options):
    expected.check_run(content, consumer.read(feedd, name, batch_size, **options), batch_size, **options)


# ---- What is delivered -------------------------------------------------------------------------------------


def test_every_reader():
    for reader in READERS:
        with harness.Instance(io=reader) as feedd:
            content = add_files(feedd)
            feedd.start()
            check(feedd, content)
            check(feedd, content, batch_size=30, epochs=3, shuffle=True, seed=4)


def test_direct():
    with harness.Instance(io="uring") as feedd:
        content = add_files(feedd, io_direct="yes")
        feedd.start()
        check(feedd, content, shuffle=True, seed=1)


def test_ragged():
    """Without pads, texts keep their lengths, and so do lists of larger values."""
    for reader in READERS:
        with harness.Instance(io=reader) as feedd:
            content = add_files(feedd, pad_text=None)
            content["text"] = expected.Ragged(text for text, _ in some(100))
            (feedd.directory / "lists.arrow").write_bytes(questions(10))
            feedd.add_dataset("lists", format="arrow", path="lists.arrow", field_ids="i32[] @ input_ids",
                              field_answer="bytes @ answers.text")  # fmt: skip
            feedd.start()
            check(feedd, content, shuffle=True, epochs=2)
            ends = [sum(range(number)) * 100 for number in range(11)]
            ids = [struct.pack(f"<{end - begin}i", *range(begin, end)) for begin, end in zip(ends, ends[1:])]
            lists = {"ids": expected.Ragged(ids, 4), "answer": expected.Ragged([b"yes", b"no"] * 5)}
            check(feedd, lists, 4, name="lists", shuffle=True, seed=2)


def test_views_and_transforms():
    with harness.Instance() as feedd:
        content = add_files(feedd, transform_label="cast f32, scale 2")
        feedd.add_view("val", "hf", samples="90%..", split_seed=3, pad_text=f"16 {PAD}")
        feedd.start()
        content["label"] = [struct.pack("<f", 2.0 * struct.unpack("<q", value)[0]) for value in content["label"]]
        right = expected.view(content, 90, 100, 3)
        check(feedd, {**right, "text": [text[:16] for text in right["text"]]}, name="val", shuffle=True, seed=8)


def test_loaders_and_daemon_die():
    with harness.Instance() as feedd:
        content = add_files(feedd)
        feedd.start()
        batches = consumer.read_through_kills(feedd, "hf", 5, 40, shuffle=True, epochs=2)
        expected.check_run(content, batches, 5, epochs=2, shuffle=True)


def test_a_kept_index():
    """It serves the same, as long as fields and files are the same."""
    with harness.Instance() as feedd:
        (feedd.directory / "indices").mkdir(mode=0o755)
        feedd.settings["index_folder"] = feedd.directory / "indices"
        content = add_files(feedd)
        assert "made in" in feedd.check().stdout and "read in" in feedd.check().stdout
        feedd.start()
        check(feedd, content)
        path = feedd.directory / "hf-1.arrow"
        path.write_bytes(arrow.file(COLUMNS, [batch_of(some(39, 500))]))
        assert "made in" in feedd.check().stdout
        feedd.datasets["hf"]["field.label"] = "length @ text"
        feedd.write_config()
        assert "made in" in feedd.check().stdout


def test_a_file_that_is_cut_later():
    """Of a dataset that skips what cannot be read, some samples are missing; the others are as they were."""
    with harness.Instance(io="pread") as feedd:
        samples = some(100, most=ROOM)
        path = feedd.directory / "a.arrow"
        path.write_bytes(arrow.stream(COLUMNS, [batch_of(samples[:50]), batch_of(samples[50:])]))
        feedd.add_dataset("hf", format="arrow", path=path, on_error="skip", **FIELDS)
        feedd.start().indexed()
        os.truncate(path, path.stat().st_size // 2)
        batches = consumer.read(feedd, "hf", 10)
        assert sum(batch["skipped"] for batch in batches) > 30
        expected.check_bytes(content_of(samples), batches)


# ---- What is refused ---------------------------------------------------------------------------------------


def refuse(content, *parts, **options):
    with harness.Instance() as instance:
        (instance.directory / "a.arrow").write_bytes(content)
        instance.add_dataset("hf", format="arrow", path="a.arrow", **given({**FIELDS, **options}))
        done = instance.check()
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done
        for part in ("[dataset hf] ", *parts):
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def test_other_files():
    refuse(b"", "a.arrow: found an empty file")
    refuse(b"abc", "found the end of the file at byte 3, wanted an Arrow IPC file or stream")
    refuse(b"PAR1" + bytes(100), "found a Parquet file, wanted an Arrow IPC file or stream")
    refuse(b"FEA1" + bytes(100), "found a Feather file of version 1")
    refuse(bytes(100), "found no schema at its start")
    refuse(b"\xff" * 100, "found no schema at its start")
    refuse(arrow.END, "found no schema at its start")
    refuse(batch_of(some(3)), "found no schema at its start")
    refuse(arrow.stream(COLUMNS, []), "found no samples")


def test_files_that_are_cut():
    whole = arrow.stream(COLUMNS, [batch_of(some(3, most=20))])
    body = len(whole) - len(arrow.END)
    refuse(whole[: body - 8], "wanted the body of a message: ")
    refuse(whole[:40], "found the end of the file at byte 40, wanted metadata: ")
    refuse(arrow.stream(COLUMNS, [batch_of(some(3))], end=b"\xff\xff"), "wanted a message: 4 bytes at offset")
    refuse(arrow.stream(COLUMNS, [batch_of(some(3))], end=b"\xff\xff\xff\xff"), "wanted a message: 8 bytes at offset")
    whole = arrow.file(COLUMNS, [batch_of(some(3))])
    refuse(whole[:-1], "found no footer, wanted a whole Arrow IPC file; it was cut, or its writer not closed")
    refuse(whole[:12], "found the end of the file at byte 12, wanted a footer")
    refuse(whole[:-10] + struct.pack("<I", 1 << 20) + arrow.MAGIC, "found a footer of 1048576 bytes in a file of ")
    refuse(whole[:-10] + struct.pack("<I", 8) + arrow.MAGIC, "found a footer that cannot be read")


def test_a_stream_may_simply_end():
    with harness.Instance() as feedd:
        samples = some(20)
        (feedd.directory / "a.arrow").write_bytes(arrow.stream(COLUMNS, [batch_of(samples)], end=b""))
        feedd.add_dataset("hf", format="arrow", path="a.arrow", **FIELDS)
        feedd.start()
        check(feedd, content_of(samples))


def test_messages_that_lie():
    def stream(*batches):
        return arrow.stream(COLUMNS, batches)

    def batch(rows=1, nodes=((1, 0),) * 2, buffers=((0, 0), (0, 8), (8, 1), (16, 0), (16, 8)), body=24, **header):
        root = arrow.message(arrow.BATCH, arrow.batch_header(rows, nodes, buffers, **header), body)
        return stream(arrow.framed(root, struct.pack("<ii", 0, 1) + b"x" + bytes(15)))

    with harness.Instance() as instance:
        (instance.directory / "a.arrow").write_bytes(batch())
        instance.add_dataset("hf", format="arrow", path="a.arrow", **FIELDS)
        assert instance.check().returncode == 0
    refuse(batch(rows=-1), "batch 1: found -1 rows")
    refuse(batch(rows=2), 'batch 1: found 1 values in 2 rows')
    refuse(batch(rows=1 << 40, nodes=((1 << 40, 0),) * 2), "found too many samples, wanted at most 134217728")
    refuse(batch(rows=1 << 27, nodes=((1 << 27, 0),) * 2), "found a buffer of 8 bytes, wanted 536870916")
    refuse(batch(nodes=((-1, 0), (1, 0))), "found -1 values in 1 rows")
    refuse(batch(nodes=((1, 0),)), "found 1 columns and 5 buffers, wanted as many as the schema has: 2 columns and 5 buffers")
    refuse(batch(buffers=((0, 0),)), "found 2 columns and 1 buffers")
    refuse(batch(nodes=((1, 1), (1, 0))), 'found 1 null in column "text", wanted none; fill or drop them')
    refuse(batch(nodes=((1, 0), (1, -1))), 'found -1 nulls in column "label"')
    for buffer in ((0, 25), (25, 0), (-8, 8), (0, -1), (1 << 62, 1 << 62), ((1 << 63) - 1, (1 << 63) - 1)):
        refuse(batch(buffers=((0, 0), (0, 8), buffer, (16, 0), (16, 8))), "found a buffer of ", "in a body of 24")
    refuse(batch(buffers=((0, 0), (0, 7), (8, 1), (16, 0), (16, 8))), "found a buffer of 7 bytes, wanted 8")
    refuse(batch(buffers=((0, 0), (0, 8), (8, 1), (16, 0), (16, 7))), "found a buffer of 7 bytes, wanted 8")
    refuse(batch(body=1000), "wanted the body of a message: 1000 bytes at offset")
    refuse(batch(body=-1), "found a message with a body of -1 bytes")
    refuse(batch(compression=0), "batch 1: found a compressed buffer of 0 bytes that says it has 4294967296 when decoded")
    refuse(batch(compression=2), "found buffers that are compressed with an unknown codec, wanted lz4 or zstd")
    refuse(stream(arrow.framed(arrow.message(arrow.SCHEMA, arrow.schema(COLUMNS)))), "found a second schema")
    refuse(stream(arrow.framed(arrow.message(9, arrow.schema([])))), "found another message, wanted record batches")
    old = arrow.message(arrow.BATCH, arrow.batch_header(0, [], []), version=2)
    refuse(stream(arrow.framed(old)), "found metadata of version 3, wanted 4 or 5")
    refuse(stream(b"\xff\xff\xff\xff" + struct.pack("<I", 0xFFFFFFF0)), "found metadata of 4294967280 bytes")


def test_offsets_that_lie():
    def offsets(*values, form="i", texts=b"0123456789"):
        raw = struct.pack(f"<{len(values)}{form}", *values)
        column = arrow.field("text", arrow.UTF8 if form == "i" else arrow.LARGE_UTF8)
        count = len(values) - 1
        labels = struct.pack(f"<{count}q", *range(count))
        one = arrow.batch(count, [(count, 0)] * 2, [b"", raw, texts, b"", labels])
        refuse(arrow.stream([column, COLUMNS[1]], [one]), 'of column "text", wanted them to rise and to end by 10')

    offsets(0, 5, 4)
    offsets(0, 11)
    offsets(-1, 5)
    offsets(0, -1, 5)
    offsets(0, 5, 1 << 40, form="q")
    offsets(-(1 << 63), 5, form="q")
    offsets(0, -1, form="q")


def test_footers_that_lie():
    one = batch_of(some(3))
    refuse(arrow.file(COLUMNS, [one], blocks=[1 << 40]), "wanted a record batch: 8 bytes at offset 1099511627776")
    refuse(arrow.file(COLUMNS, [one], blocks=[-8]), "wanted a record batch: 8 bytes at offset 18446744073709551608")
    refuse(arrow.file(COLUMNS, [one], blocks=[8]), "found no record batch at offset 8, where the footer has one")
    again = arrow.file(COLUMNS, [one], blocks=[arrow.file(COLUMNS, [one]).index(one)] * 100)
    refuse(again, "found a footer that has the same record batches again and again")


def test_schemas_that_nobody_can_visit():
    """A few hundred bytes whose fields are shared have 2^60 fields. They are refused, and soon."""
    one = arrow.field("x", arrow.STRUCT)
    for _ in range(40):
        one = arrow.field("x", arrow.STRUCT, children=[one, one])
    begun = time.monotonic()
    refuse(arrow.stream([one], []), "found a message that cannot be read")
    refuse(arrow.stream([arrow.field("x", arrow.STRUCT, children=[arrow.integer(8, name="y")] * 70000)], []),
           "found too many columns, wanted at most 65536")  # fmt: skip
    assert time.monotonic() - begun < 10 * harness.SLOWNESS


def test_columns():
    columns = [
        arrow.integer(32, name="i"), arrow.field("b", arrow.BOOL), arrow.field("s", arrow.UTF8),
        arrow.field("l", arrow.LIST, children=[arrow.integer(64, name="item")]),
        arrow.field("ll", arrow.LIST, children=[arrow.field("l", arrow.LIST, children=[arrow.integer(64)])]),
        arrow.field("f", arrow.FIXED_LIST, {0: arrow.i32(3)}, children=[arrow.floating(32, name="item")]),
        arrow.field("image", arrow.STRUCT, children=[arrow.field("bytes", arrow.BINARY), arrow.field("path", arrow.UTF8)]),
        arrow.field("d", arrow.UTF8, dictionary=True), arrow.field("n", arrow.NULL), arrow.field("e", arrow.LIST),
        arrow.integer(7, name="odd"),
    ]  # fmt: skip
    content = arrow.stream(columns, [])

    def declare(value, *parts, pad=None):
        refuse(content, *parts, field_text=None, field_label=None, pad_text=None, field_x=value, pad_x=pad)

    declare("i64 @ i", 'field.x: found column "i" of type int32, which can be declared as i32')
    declare("i32[1] @ i", "which can be declared as i32")
    declare("length @ i", "which can be declared as i32")
    declare("u8 @ b", 'found column "b" of type bool, which can be declared as bool')
    declare("u8 @ s", 'found column "s" of type string, which can be declared as bytes or length')
    declare("i32[] @ l", 'found column "l" of type list, which can be declared as i64[], or i64[N]', pad=4)
    declare("i64[2,2] @ l", 'found column "l" of type list')
    declare("i64[] @ ll", 'found column "ll" of type list, which can be declared as length', pad=4)
    declare("i64[] @ e", 'found column "e" of type list, which can be declared as length', pad=4)
    declare("f32[4] @ f", 'found column "f" of type fixed_size_list, which can be declared as f32[3]')
    declare("f32[3,1] @ f", "which can be declared as f32[3]")
    declare("bytes @ image", 'found a struct in column "image", wanted one of its parts, as in image.NAME: bytes, path',
            pad=4)  # fmt: skip
    declare("bytes @ image.pixels", 'found no column "image.pixels", wanted one of these, or a part of one: i, b, s, l',
            pad=4)  # fmt: skip
    declare("bytes @ d", 'found column "d" dictionary-encoded, wanted plain values', pad=4)
    declare("i64 @ n", 'found column "n" of type null, wanted numbers')
    declare("i64 @ odd", 'found column "odd" of type an integer of odd size')
    declare("bytes", 'found no column "x", wanted one of these', pad=4)
    declare("i64[] @ l", "pad.x: found ", pad="0")
    declare("i64[] @ l", "VALUE of type i64", pad="4 x")
    for value in ("", "i64 @", "i64 l", "i64[ @ l", "i64[x] @ l", "i64[1,] @ l", "i64[99999999999999999999]", "picture @ l"):
        declare(value, "field.x: found ", "wanted ")
    declare("int64 @ l", 'unknown type "int64"; perhaps you mean "i64"')
    declare("i64[9] @ l", "pad.x: found no field of that name with samples of different lengths", pad=4)


def test_lists_that_differ_in_length():
    columns = [arrow.field("l", arrow.LIST, children=[arrow.integer(64, name="item")])]
    one = arrow.batch(2, [(2, 0), (5, 0)], [b"", arrow.offsets([2, 3]), b"", struct.pack("<5q", *range(5))])
    fields = {"field_text": None, "field_label": None, "pad_text": None}
    refuse(arrow.stream(columns, [one]), 'batch 1: found 3 values in row 1 of column "l", wanted 2 in each; ',
           "declare it as i64[], with pad.l", field_l="i64[2]", **fields)  # fmt: skip
    short = arrow.batch(2, [(2, 0), (4, 0)], [b"", arrow.offsets([2, 3]), b"", struct.pack("<5q", *range(5))])
    refuse(arrow.stream(columns, [short]), "wanted them to rise and to end by 4", field_l="i64[]", pad_l=2, **fields)
    null = arrow.batch(2, [(2, 0), (5, 1)], [b"", arrow.offsets([2, 3]), b"", struct.pack("<5q", *range(5))])
    refuse(arrow.stream(columns, [null]), 'found 1 null in column "l"', field_l="i64[]", pad_l=2, **fields)
