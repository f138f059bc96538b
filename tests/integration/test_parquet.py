"""Parquet files as PyArrow writes them, in every way it has: what is delivered, against what PyArrow itself reads."""

import itertools
import json
import random
import struct

import consumer
import expected
import harness
import numpy as np
import parquet_writer as w
import pyarrow as pa
from pyarrow import parquet

NUMBERS = {
    "u8": pa.uint8(), "i8": pa.int8(), "u16": pa.uint16(), "i16": pa.int16(), "u32": pa.uint32(), "i32": pa.int32(),
    "u64": pa.uint64(), "i64": pa.int64(), "f16": pa.float16(), "f32": pa.float32(), "f64": pa.float64(),
}  # fmt: skip
NUMPY = {"bool": np.bool_, **{name: kind.to_pandas_dtype() for name, kind in NUMBERS.items()}}
ROOM = 20


def numbers(dtype, count, dice):
    raw = dice.randbytes(count * np.dtype(NUMPY[dtype]).itemsize)
    return np.nan_to_num(np.frombuffer(raw, NUMPY[dtype]))


def some(count, seed=0):
    """A table with a column of every type that is served, and of some that are not."""
    dice = random.Random(seed)
    columns = {name: pa.array(numbers(name, count, dice), kind) for name, kind in NUMBERS.items()}
    columns["bool"] = pa.array([dice.random() < 0.5 for _ in range(count)], pa.bool_())
    columns["string"] = pa.array(["é" * dice.randrange(ROOM) for _ in range(count)], pa.string())
    columns["binary"] = pa.array([dice.randbytes(dice.randrange(ROOM)) for _ in range(count)], pa.binary())
    columns["large"] = columns["binary"].cast(pa.large_binary())
    columns["view"] = columns["string"].cast(pa.string_view())
    columns["words"] = pa.array([dice.choice(["", "a", "bc"]) for _ in range(count)], pa.string()).dictionary_encode()
    columns["digest"] = pa.array([dice.randbytes(16) for _ in range(count)], pa.binary(16))
    columns["when"] = pa.array(range(count), pa.timestamp("us", "UTC"))
    columns["day"] = pa.array(range(count), pa.date32())
    for name, kind in NUMBERS.items():
        lists = [numbers(name, dice.randrange(8), dice) for _ in range(count)]
        columns[f"list_{name}"] = pa.array(lists, pa.list_(kind))
    columns["long"] = pa.array([range(number % 50) for number in range(count)], pa.large_list(pa.int32()))
    columns["equal"] = pa.array([[number, 1, 2] for number in range(count)], pa.list_(pa.int32(), 3))
    inner = pa.StructArray.from_arrays([columns["binary"], columns["i32"], columns["list_i16"]], ["bytes", "size", "list"])
    columns["image"] = pa.StructArray.from_arrays([pa.nulls(count, pa.string()), inner], ["path", "content"])
    columns["with.dot"] = columns["u8"]
    columns["texts"] = pa.array([["a", None, "b"][: number % 4] for number in range(count)], pa.list_(pa.string()))
    columns["nested"] = pa.array([[[1, 2], [], [3]][: number % 4] for number in range(count)], pa.list_(pa.list_(pa.int8())))
    # Those that are not served must not be in the way of the others.
    columns["nothing"] = pa.nulls(count)
    columns["map"] = pa.array([[("a", 1)]] * count, pa.map_(pa.string(), pa.int8()))
    columns["decimal"] = pa.array([1] * count, pa.decimal128(20, 2))
    columns["last"] = columns["i64"]
    return pa.table(columns)


FIELDS = {
    **{name: (name, name) for name in [*NUMBERS, "bool"]},
    **{name: ("bytes", name) for name in ("string", "binary", "large", "view", "words")},
    **{f"n_{name}": (f"length @ {name}", name) for name in ("string", "words", "list_i8", "texts", "nested")},
    **{f"list_{name}": (f"{name}[]", f"list_{name}") for name in NUMBERS},
    "digest": ("u8[16]", "digest"), "when": ("i64", "when"), "day": ("i32", "day"), "dot": ("u8 @ with.dot", "with.dot"),
    "padded": ("bytes @ string", "string"), "long": ("i32[]", "long"), "equal": ("i32[3]", "equal"),
    "image": ("bytes @ image.content.bytes", "binary"), "size": ("i32 @ image.content.size", "i32"),
    "inside": ("i16[] @ image.content.list", "list_i16"), "last": ("i64", "last"),
}  # fmt: skip


def delivered(table, field, form, column):
    """The samples, by what PyArrow says of the column."""
    values = table.column(column)
    if pa.types.is_dictionary(values.type):
        values = values.cast(pa.string())
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        values = values.cast(pa.string()).cast(pa.binary())
    if pa.types.is_temporal(kind):
        values = values.cast({"i64": pa.int64(), "i32": pa.int32()}[form])
    values = values.to_pylist()
    dtype = np.dtype(NUMPY.get(form.split("[")[0].split()[0], "u1"))
    if form.startswith("length"):
        return [np.int64(len(value)).tobytes() for value in values]
    if field == "padded":
        return [value[:ROOM] + bytes(ROOM - len(value[:ROOM])) for value in values]
    if form.startswith("bytes"):
        return expected.Ragged(values)
    if form == "u8[16]":
        return values
    raw = [np.asarray(value, dtype).tobytes() for value in values]
    return expected.Ragged(raw, dtype.itemsize) if "[]" in form else raw


def groups(names=None):
    """A dataset has at most 16 fields."""
    fields = [(field, FIELDS[field]) for field in names or FIELDS]
    return [dict(fields[at : at + 16]) for at in range(0, len(fields), 16)]


def add_dataset(feedd, path, fields, **options):
    options |= {f"field_{field}": form for field, (form, _) in fields.items()}
    if "padded" in fields:
        options["pad_padded"] = ROOM
    feedd.add_dataset("hub", format="parquet", path=path, **options)


def check(pattern, table, names=None, **options):
    """Delivers the files' fields, in order and shuffled, and compares; so does feedctl."""
    for number, fields in enumerate(groups(names)):
        with harness.Instance() as feedd:
            add_dataset(feedd, pattern, fields, **options)
            feedd.start()
            content = {field: delivered(table, field, form, column) for field, (form, column) in fields.items()}
            for order in ({}, {"shuffle": True, "seed": number, "epochs": 2}):
                expected.check_run(content, consumer.read(feedd, "hub", 16, **order), 16, **order)
            assert "all bytes equal to the files'" in feedd.ctl("read", "hub", "--epochs=1", "--verify").stdout


def write(folder, tables, **options):
    """Files of several row groups. Returns what PyArrow reads in them."""
    read = []
    for number, table in enumerate(tables):
        path = folder / f"{number:03}.parquet"
        parquet.write_table(table, path, **{"row_group_size": 20, **options})
        read.append(parquet.read_table(path))
    return pa.concat_tables(read)


def test_all_types():
    """In several files and row groups, of which some are empty."""
    with harness.Instance() as home:
        whole = write(home.directory, [some(50), some(0), some(31, 2)])
        table = some(10, 3)
        with parquet.ParquetWriter(home.directory / "x.parquet", table.schema, compression="zstd") as writer:
            for part in (table.slice(0, 4), table.slice(0, 0), table.slice(4)):
                writer.write_table(part)
        check(home.directory / "*.parquet", pa.concat_tables([whole, table]).combine_chunks())


ENCODED = ["i32", "i64", "u8", "f32", "f64", "bool", "string", "binary", "digest", "n_string", "list_i16", "list_f64", "long"]
DELTA = {
    "i32": "DELTA_BINARY_PACKED", "i64": "DELTA_BINARY_PACKED", "u8": "DELTA_BINARY_PACKED", "f32": "BYTE_STREAM_SPLIT",
    "f64": "BYTE_STREAM_SPLIT", "string": "DELTA_BYTE_ARRAY", "binary": "DELTA_LENGTH_BYTE_ARRAY",
    "digest": "BYTE_STREAM_SPLIT", "bool": "RLE", "list_i16.list.element": "DELTA_BINARY_PACKED",
    "list_f64.list.element": "BYTE_STREAM_SPLIT",
}  # fmt: skip
ENCODINGS = {
    "dictionary": {},
    "plain": {"use_dictionary": False},
    "delta": {"use_dictionary": False, "column_encoding": DELTA},
    "prefixes": {"use_dictionary": False, "column_encoding": {"digest": "DELTA_BYTE_ARRAY", "i64": "BYTE_STREAM_SPLIT"}},
    "growing": {"dictionary_pagesize_limit": 64, "data_page_size": 128, "write_batch_size": 4},
}
CODECS = ("none", "snappy", "gzip", "zstd", "lz4")


def test_encodings():
    """Every codec, version of pages and encoding, together in a dataset; also pages of few values, and lists across pages."""
    with harness.Instance() as home:
        tables = []
        combinations = itertools.product(CODECS, ("1.0", "2.0"), ENCODINGS.items())
        for number, (codec, version, (name, options)) in enumerate(combinations):
            path = home.directory / f"{number:03}.parquet"
            columns = [FIELDS[field][1] for field in ENCODED]
            table = some(40, number).select(list(dict.fromkeys(columns)))
            parquet.write_table(table, path, row_group_size=33, compression=codec, data_page_version=version, **options)
            used = {chunk for group in parquet.read_metadata(path).to_dict()["row_groups"] for column in group["columns"]
                    for chunk in column["encodings"]}  # fmt: skip
            assert ("RLE_DICTIONARY" in used) == (name in ("dictionary", "growing")), (name, used)
            tables.append(parquet.read_table(path))
        check(home.directory / "*.parquet", pa.concat_tables(tables).combine_chunks(), ENCODED)


def test_required_columns():
    """Columns that cannot be null have no levels."""
    table = some(60).select(["i32", "string", "digest", "list_i16"])
    inner = pa.list_(pa.field("element", pa.int16(), nullable=False))
    types = {"list_i16": inner}
    schema = pa.schema([pa.field(f.name, types.get(f.name, f.type), nullable=False) for f in table.schema])
    for version in ("1.0", "2.0"):
        with harness.Instance() as home:
            whole = write(home.directory, [table.cast(schema)], data_page_version=version)
            check(home.directory / "*.parquet", whole, ["i32", "string", "digest", "list_i16"])


def test_little_memory_for_blocks():
    """Blocks are decoded again and again if few of them fit."""
    with harness.Instance() as home:
        tables = [pa.table({"binary": [random.Random(k).randbytes(500) for _ in range(400)]}) for k in range(2)]
        whole = write(home.directory, tables, use_dictionary=False, row_group_size=50)
        check(home.directory / "*.parquet", whole, ["binary"], block_memory=100_000)
    whole = pa.table({"x": [bytes(1000)] * 400})
    small = {"field_x": "bytes", "block_memory": 1 << 16}
    refuse(whole, "block_memory: found 65536 bytes, wanted at least ", fields=small, use_dictionary=False)


def test_a_kept_index():
    """With blocks and values: what it says is what the files say."""
    with harness.Instance(index_folder="kept") as feedd:
        (feedd.directory / "kept").mkdir()
        parquet.write_table(some(200), feedd.directory / "a.parquet", row_group_size=70)
        names = ["i64", "string", "digest", "list_i16", "n_texts", "padded"]
        fields = {name: FIELDS[name] for name in names}
        add_dataset(feedd, "a.parquet", fields)
        assert "made in" in feedd.check().stdout
        assert "read in" in feedd.check().stdout
        feedd.start()
        table = parquet.read_table(feedd.directory / "a.parquet")
        content = {field: delivered(table, field, form, column) for field, (form, column) in fields.items()}
        expected.check_run(content, consumer.read(feedd, "hub", 16, shuffle=True), 16, shuffle=True)


def test_show():
    with harness.Instance() as feedd:
        parquet.write_table(pa.table({"x": [5, 6], "text": ["one", "two"]}), feedd.directory / "a.parquet")
        feedd.add_dataset("hub", format="parquet", path="a.parquet", field_x="i64", field_text="bytes")
        feedd.start()
        shown = json.loads(feedd.ctl("show", "--json", "hub", "1").stdout)
        found = {field["name"]: field for field in shown["fields"]}
        assert found["x"]["values"] == [6] and found["text"]["values"] == list(b"two"), shown


# ---- What is refused ---------------------------------------------------------------------------------------


def refuse(content, *parts, fields=None, **options):
    with harness.Instance() as instance:
        path = instance.directory / "a.parquet"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            parquet.write_table(content, path, **options)
        instance.add_dataset("hub", format="parquet", path="a.parquet", **(fields or {"field_x": "i64"}))
        done = instance.check()
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done
        for part in parts:
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def column(values, kind=None):
    return pa.table({"x": pa.array(values, kind)})


def test_what_is_refused():
    refuse(column([1, 2, None]), 'a.parquet: row group 1: column "x": found a null in row 2', "fill_null")
    refuse(column([1, 2, None]), 'row group 2: column "x": found a null in row 0', row_group_size=2)
    lists = {"field_x": "i64[]"}
    refuse(column([[1], None]), "found a null in row 1", fields=lists)
    refuse(column([[1], [None]], pa.list_(pa.int64())), "found a null in row 1", fields=lists)
    refuse(column([[[1]], [[2]]]), "of type list, which can be declared as length", fields=lists)
    refuse(column([[1, 2], [3]]), 'found 1 values in row 1 of column "x", wanted 2', fields={"field_x": "i64[2]"})
    refuse(column([1.5]), "of type float64, which can be declared as f64")
    refuse(column([1], pa.decimal128(9, 2)), "of type decimal, wanted")
    refuse(column([1], pa.timestamp("ns")), "of type int96, wanted", use_deprecated_int96_timestamps=True)
    refuse(pa.table({"y": [1]}), 'found no column "x"')
    refuse(pa.table({"y": [1]}).slice(0, 0).rename_columns(["x"]), "found no samples")
    refuse(column([1, 2]), "pages compressed with brotli", compression="brotli")
    refuse(b"ARROW1\0\0" + bytes(100), "found no Parquet file, which ends with PAR1")
    refuse(b"PAR1" + bytes(100) + b"PARE", "found an encrypted file")


def test_footers_that_lie():
    """As no library writes them: deep, of no type, and with row groups that are in the same place."""
    deep = [w.element("l", repetition=w.OPTIONAL, children=1, converted=w.LIST)]
    deep += [w.element("array", repetition=w.REPEATED, children=1, converted=w.LIST)] * 60000
    nothing = (1, [w.column(w.INT32, [w.page(1, b"")], 1)])
    refuse(w.file([*deep, w.element("x", w.INT32)], [nothing]), "columns inside of each other, more than 64 deep")
    elements = [deep[0], w.element("list", repetition=w.REPEATED, children=1)]
    for kind in (-1, 8, -(2**31), 2**31 - 1):
        lists = w.page(1, b"", w.PLAIN, w.levels([0], 1), w.levels([1], 3))
        content = w.file([*elements, w.element("element", kind, w.OPTIONAL)], [(1, [w.column(kind, [lists], 1)])])
        refuse(content, "of type list, which can be declared as length", fields={"field_x": "i64[] @ l"})
        with harness.Instance() as instance:
            (instance.directory / "a.parquet").write_bytes(content)
            instance.add_dataset("hub", format="parquet", path="a.parquet", field_x="length @ l")
            assert instance.check().returncode == 0
    one = w.column(w.INT64, [w.page(100, bytes(800))], 100)
    again = (b"", lambda offset: one[1](4))
    refuse(w.file([w.element("x", w.INT64)], [(100, [one]), (100, [again])]), "found row groups that share their pages")


def test_runs_of_levels_without_an_end():
    """A few bytes that say that a row has 2^31 values take no time."""
    most = 2**31 - 1

    def run(count, value):
        return w.varint(count << 1) + bytes([value])

    def page(reps):
        reps, defs = (struct.pack("<I", len(raw)) + raw for raw in (reps, run(most, 3)))
        return w.page(most, b"", w.RLE_DICTIONARY, reps, defs)

    elements = [
        w.element("l", repetition=w.OPTIONAL, children=1, converted=w.LIST),
        w.element("list", repetition=w.REPEATED, children=1), w.element("element", w.INT32, w.OPTIONAL),
    ]  # fmt: skip
    first, more = page(run(1, 0) + run(most - 1, 1)), page(run(most, 1))
    fields = {"field_x": "length @ l"}
    with harness.Instance() as feedd:
        column = w.column(w.INT32, [first] + [more] * 99, most)
        (feedd.directory / "a.parquet").write_bytes(w.file(elements, [(1, [column])]))
        feedd.add_dataset("hub", format="parquet", path="a.parquet", **fields)
        feedd.start()
        batches = consumer.read(feedd, "hub", 1)
        expected.check_run({"x": [struct.pack("<q", 100 * most)]}, batches, 1)
    column = w.column(w.INT32, [first] + [more] * 999, most)
    refuse(w.file(elements, [(1, [column])]), "found more values in a row group", fields=fields)


def test_damaged_files():
    """Cut anywhere, or with a wrong byte anywhere: never more than a sentence, or a file that is still sound."""
    lists = [[n] * (n % 3) for n in range(100)]
    table = pa.table({"x": pa.array(range(100)), "s": [str(n % 9) for n in range(100)], "l": lists})
    dice = random.Random(5)
    fields = {"field_x": "i64", "field_s": "bytes", "field_l": "i64[]"}
    with harness.Instance() as home:
        parquet.write_table(table, home.directory / "a", row_group_size=40, compression="zstd")
        whole = (home.directory / "a").read_bytes()
    with harness.Instance() as instance:
        path = instance.directory / "a.parquet"
        path.write_bytes(whole)
        instance.add_dataset("hub", format="parquet", path=path, **fields)
        assert instance.check().returncode == 0
        for length in range(0, len(whole), len(whole) // 40):
            path.write_bytes(whole[:length])
            done = instance.check()
            assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, (length, done)
        refused = 0
        for _ in range(60):
            at = dice.randrange(len(whole))
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :])
            done = instance.check()
            assert done.returncode in (0, 1) and len(done.stderr.splitlines()) == done.returncode, (at, done)
            refused += done.returncode
        assert refused > 10


def test_a_page_that_becomes_unreadable():
    """Found by the loader that decodes it."""
    with harness.Instance() as feedd:
        path = feedd.directory / "a.parquet"
        parquet.write_table(column([bytes([n]) * 1000 for n in range(100)]), path, use_dictionary=False, compression="zstd")
        feedd.add_dataset("hub", format="parquet", path=path, field_x="bytes")
        feedd.start()
        whole = path.read_bytes()
        start = whole.index(b"\x28\xb5\x2f\xfd")  # of a frame of zstd
        with path.open("r+b") as file:
            file.seek(start)
            file.write(bytes(20))
        consumer.Consumer(feedd, "hub", 10).fail("EIO", f" cannot be read: {path}, offset ")  # any loader's first
        assert "its block cannot be decoded with zstd" in feedd.read_log()


def test_windows_are_of_row_groups():
    with harness.Instance() as feedd:
        pages = {"use_dictionary": False, "data_page_size": 20, "write_batch_size": 3}  # several per row group
        whole = write(feedd.directory, [some(50), some(31, 2)], compression="zstd", **pages)
        fields = {"string": FIELDS["string"], "i32": FIELDS["i32"]}
        add_dataset(feedd, feedd.directory / "*.parquet", fields, shuffle_window=2)
        feedd.start()
        content = {field: delivered(whole, field, form, column) for field, (form, column) in fields.items()}
        order = {"shuffle": True, "seed": 3, "epochs": 2}
        windows = expected.Shuffled(2, (20, 20, 10, 20, 11))
        expected.check_run(content, consumer.read(feedd, "hub", 16, **order), 16, windows=windows, **order)
