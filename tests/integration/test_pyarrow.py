"""Arrow files as PyArrow writes them, in every way it has: what is delivered, against what PyArrow itself reads."""

import random
import re

import consumer
import expected
import harness
import numpy as np
import pyarrow as pa
import test_documents
from pyarrow import ipc

ROOM = 20
NUMBERS = {
    "u8": pa.uint8(), "i8": pa.int8(), "u16": pa.uint16(), "i16": pa.int16(), "u32": pa.uint32(), "i32": pa.int32(),
    "u64": pa.uint64(), "i64": pa.int64(), "f16": pa.float16(), "f32": pa.float32(), "f64": pa.float64(),
}  # fmt: skip
NUMPY = {"bool": np.bool_, **{name: kind.to_pandas_dtype() for name, kind in NUMBERS.items()}}
TEXTS = {"string": pa.string(), "binary": pa.binary(), "large_string": pa.large_string(), "large_binary": pa.large_binary()}


def write(path, table, stream=True, chunk=None, **options):
    writer = ipc.new_stream if stream else ipc.new_file
    with writer(str(path), table.schema, options=ipc.IpcWriteOptions(**options)) as sink:
        sink.write_table(table, max_chunksize=chunk)


def numbers(dtype, count, dice):
    raw = dice.randbytes(count * np.dtype(NUMPY[dtype]).itemsize)
    return np.nan_to_num(np.frombuffer(raw, NUMPY[dtype]))


def some(count, seed=0):
    """A table with a column of every type that is served, and of some that are not."""
    dice = random.Random(seed)
    columns = {name: pa.array(numbers(name, count, dice), kind) for name, kind in NUMBERS.items()}
    columns["bool"] = pa.array([dice.random() < 0.5 for _ in range(count)])
    for name, kind in TEXTS.items():
        columns[name] = pa.array(["é" * dice.randrange(ROOM) for _ in range(count)], pa.string()).cast(kind)
    for name, kind in NUMBERS.items():
        lists = [numbers(name, dice.randrange(8), dice) for _ in range(count)]
        columns[f"list_{name}"] = pa.array(lists, pa.list_(kind))
        columns[f"large_list_{name}"] = pa.array(lists, pa.large_list(kind))
        values = pa.array(numbers(name, 6 * count, dice), kind)
        inner = pa.FixedSizeListArray.from_arrays(values, 3)
        columns[f"fixed_{name}"] = pa.FixedSizeListArray.from_arrays(inner, 2)
    columns["equal"] = pa.array([[number, 1, 2] for number in range(count)], pa.list_(pa.int32()))
    columns["digest"] = pa.array([dice.randbytes(16) for _ in range(count)], pa.binary(16))
    columns["when"] = pa.array(range(count), pa.timestamp("us", "UTC"))
    columns["day"] = pa.array(range(count), pa.date32())
    inner = pa.StructArray.from_arrays([columns["binary"], columns["i32"]], ["bytes", "size"])
    columns["image"] = pa.StructArray.from_arrays([pa.nulls(count, pa.string()), inner], ["path", "content"])
    columns["with.dot"] = columns["u8"]
    # Those that are not served must not be in the way of the others.
    columns["words"] = pa.array(["a", "b"] * count).slice(0, count).dictionary_encode()
    columns["view"] = pa.array(["text that is longer than twelve bytes"] * count).cast(pa.string_view())
    columns["nothing"] = pa.nulls(count)
    columns["map"] = pa.array([[("a", 1)]] * count, pa.map_(pa.string(), pa.int8()))
    columns["union"] = pa.UnionArray.from_sparse(pa.array([0] * count, pa.int8()), [columns["i8"], columns["string"]])
    if count:
        columns["runs"] = pa.RunEndEncodedArray.from_arrays([count], [7])
    else:
        columns["runs"] = pa.array([], pa.run_end_encoded(pa.int32(), pa.int64()))
    columns["list_view"] = pa.array([[1, 2]] * count, pa.list_view(pa.int8()))
    columns["decimal"] = pa.array([1] * count, pa.decimal128(20, 2))
    columns["last"] = columns["i64"]
    return pa.table(columns)


# Of the served columns: what is declared, and what of it one value becomes.
def cut(value, room, dtype="u1"):
    value = np.asarray(value, dtype)[:room]
    return value.tobytes() + bytes((room - len(value)) * value.itemsize)


def declared():
    fields = {name: (name, name) for name in [*NUMBERS, "bool"]}
    for name in TEXTS:
        fields[name] = (f"bytes @ {name}", name)
        fields[f"ragged_{name}"] = (f"bytes @ {name}", name)
        fields[f"n_{name}"] = (f"length @ {name}", name)
    for name in NUMBERS:
        fields[f"list_{name}"] = (f"{name}[]", f"list_{name}")
        fields[f"ragged_list_{name}"] = (f"{name}[] @ list_{name}", f"list_{name}")
        fields[f"large_list_{name}"] = (f"{name}[]", f"large_list_{name}")
        fields[f"fixed_{name}"] = (f"{name}[2,3]", f"fixed_{name}")
    fields |= {
        "equal": ("i32[3]", "equal"), "digest": ("u8[16]", "digest"), "when": ("i64", "when"), "day": ("i32", "day"),
        "dot": ("u8 @ with.dot", "with.dot"), "last": ("i64", "last"), "size": ("i32 @ image.content.size", "i32"),
        "image": ("bytes @ image.content.bytes", "binary"), "n_list": ("length @ list_i8", "list_i8"),
        "text": ("u8[] @ string", "string"), "n_map": ("length @ list_i64", "list_i64"),
    }  # fmt: skip
    return fields


def delivered(table, field, form, column):
    """The bytes of each sample, by what PyArrow says of the column."""
    if field.startswith("ragged"):
        return ragged(table.column(column), form)
    values = table.column(column)
    dtype = form.split("[")[0].split()[0]
    if dtype == "length":
        if pa.types.is_list(values.type):
            return [np.int64(len(value)).tobytes() for value in values.to_pylist()]
        return [np.int64(len(value)).tobytes() for value in values.cast(pa.large_binary()).to_pylist()]
    if dtype == "bytes" or form == "u8[] @ string":
        return [cut(list(value), ROOM) for value in values.cast(pa.large_binary()).to_pylist()]
    if "[]" in form:
        return [cut(value, ROOM, NUMPY[dtype]) for value in values.to_pylist()]
    if pa.types.is_fixed_size_binary(values.type):
        return values.to_pylist()
    if pa.types.is_temporal(values.type):
        values = values.cast({"i64": pa.int64(), "i32": pa.int32()}[dtype])
    return [np.asarray(value, NUMPY[dtype]).tobytes() for value in values.to_pylist()]


def ragged(values, form):
    if form.startswith("bytes"):
        return expected.Ragged(values.cast(pa.large_binary()).to_pylist())
    dtype = np.dtype(NUMPY[form.split("[")[0]])
    return expected.Ragged([np.asarray(value, dtype).tobytes() for value in values.to_pylist()], dtype.itemsize)


def groups():
    """A dataset has at most 16 fields."""
    fields = list(declared().items())
    return [dict(fields[at : at + 15]) for at in range(0, len(fields), 15)]


def add_dataset(feedd, name, path, fields):
    options = {f"field_{field}": form for field, (form, _) in fields.items()}
    for field, (form, _) in fields.items():
        if not field.startswith("ragged") and ("[]" in form or form.startswith("bytes")):
            options[f"pad_{field}"] = ROOM
    feedd.add_dataset(name, format="arrow", path=path, **options)


def check(pattern, table):
    """Delivers every field of the files, and compares; so does feedctl."""
    for number, fields in enumerate(groups()):
        with harness.Instance() as feedd:
            add_dataset(feedd, "hf", pattern, fields)
            feedd.start()
            content = {field: delivered(table, field, form, column) for field, (form, column) in fields.items()}
            options = {"shuffle": True, "seed": number, "epochs": 2}
            expected.check_run(content, consumer.read(feedd, "hf", 16, **options), 16, **options)
            assert "all bytes equal to the files'" in feedd.ctl("read", "hf", "--epochs=1", "--verify").stdout


# ---- What is delivered -------------------------------------------------------------------------------------


def read_back(path, stream):
    return (ipc.open_stream if stream else ipc.open_file)(str(path)).read_all()


def test_streams_and_files_of_all_types():
    with harness.Instance() as home:
        tables = []
        for number, stream in enumerate((True, False, True, False)):
            path = home.directory / f"{number}.arrow"
            write(path, some(50, number), stream, chunk=17)
            tables.append(read_back(path, stream))
        check(home.directory / "*.arrow", pa.concat_tables(tables))


def test_slices():
    """Arrays that begin in the middle of their buffers."""
    with harness.Instance() as home:
        table = pa.concat_tables([some(100).slice(31, 45), some(40).slice(0, 0), some(9).slice(8)])
        write(home.directory / "a.arrow", table, chunk=13)
        check(home.directory / "a.arrow", read_back(home.directory / "a.arrow", True))


def test_compressed():
    """Every codec, in streams and files, beside files that are not compressed."""
    for codec in ("lz4", "zstd"):
        with harness.Instance() as home:
            tables = []
            for number, options in enumerate(({"compression": codec}, {"compression": codec}, {})):
                path = home.directory / f"{number}.arrow"
                write(path, some(50, number), stream=number != 1, chunk=17, **options)
                tables.append(read_back(path, number != 1))
            check(home.directory / "*.arrow", pa.concat_tables(tables))


def test_older_forms():
    for options in ({"use_legacy_format": True}, {"metadata_version": ipc.MetadataVersion.V4}):
        with harness.Instance() as home:
            table = some(30)
            if "metadata_version" in options:
                table = table.drop_columns(["union"])
            table = table.drop_columns(["runs", "list_view", "view"])
            write(home.directory / "a.arrow", table, **options)
            check(home.directory / "a.arrow", table)


def test_as_datasets_caches_them():
    """A folder of streams in batches of 1000, with its description in the schema, and extension types that are plain inside."""
    with harness.Instance() as home:
        features = {b"huggingface": b'{"info": {"features": {}}}'}
        tables = [some(1500, seed).drop_columns(["image"]).replace_schema_metadata(features) for seed in range(2)]
        for number, table in enumerate(tables):
            write(home.directory / f"squad-train-{number:05}-of-00002.arrow", table, chunk=1000)
        (home.directory / "dataset_info.json").write_text("{}")
        whole = pa.concat_tables(tables)
        feedd_fields = {"list_i64": ("i64[]", "list_i64"), "string": ("bytes", "string"), "i64": ("i64", "i64")}
        with harness.Instance() as feedd:
            add_dataset(feedd, "hf", home.directory / "squad-train-*.arrow", feedd_fields)
            feedd.start()
            content = {field: delivered(whole, field, form, column) for field, (form, column) in feedd_fields.items()}
            expected.check_run(content, consumer.read(feedd, "hf", 100, shuffle=True), 100, shuffle=True)


def test_squad_as_the_documents_declare_it():
    """Its own columns, as datasets caches them."""
    count = 50
    lists = {"text": [["an answer"] * (1 + number % 3) for number in range(count)],
             "answer_start": [list(range(1 + number % 3)) for number in range(count)]}  # fmt: skip
    answers = pa.StructArray.from_arrays([pa.array(lists["text"], pa.list_(pa.string())),
                                          pa.array(lists["answer_start"], pa.list_(pa.int32()))], list(lists))  # fmt: skip
    columns = {name: [f"{name} {number}" * (number % 5) for number in range(count)]
               for name in ("id", "title", "context", "question")}  # fmt: skip
    (section,) = re.findall(r"^\[dataset squad\]\n.*?\n(?=\[|$)", test_documents.blocks("docs/data.md", "ini", "## Arrow")[0],
                            re.MULTILINE | re.DOTALL)  # fmt: skip
    with harness.Instance() as feedd:
        write(feedd.directory / "0.arrow", pa.table({**columns, "answers": answers}), chunk=20)
        feedd.write_config()
        feedd.write_config(f"{feedd.config.read_text()}\n{section.replace('/data/squad', str(feedd.directory))}")
        feedd.start()
        context = [text.encode() for text in columns["context"]]
        content = {
            "question": expected.Ragged([text.encode() for text in columns["question"]]),
            "context": [cut(list(text), 4000) for text in context],
            "length": [np.int64(len(text)).tobytes() for text in context],
            "starts": expected.Ragged([np.asarray(value, "i4").tobytes() for value in lists["answer_start"]], 4),
        }
        expected.check_run(content, consumer.read(feedd, "squad", 8, shuffle=True), 8, shuffle=True)


# ---- What is refused ---------------------------------------------------------------------------------------


def refuse(table, *parts, **options):
    with harness.Instance() as instance:
        write(instance.directory / "a.arrow", table, **options)
        instance.add_dataset("hf", format="arrow", path="a.arrow", field_x="i64")
        done = instance.check()
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done
        for part in parts:
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def test_what_is_refused():
    numbers_of = pa.array([1, 2, None, 4], pa.int64())
    many = pa.table({"x": pa.array(range(1000))})
    refuse(pa.table({"x": numbers_of}), 'a.arrow: batch 1: found 1 null in column "x", wanted none')
    refuse(pa.table({"x": numbers_of}), 'batch 2: found 1 null in column "x"', chunk=2)
    refuse(pa.table({"x": pa.array([1, 2]).dictionary_encode()}), 'found column "x" dictionary-encoded', "dictionary_decode")
    refuse(pa.table({"x": pa.array([[1], [2]], pa.list_view(pa.int64()))}), 'found column "x" of type list_view, wanted ')
    refuse(pa.table({"x": pa.array(["1"], pa.string_view())}), 'found column "x" of type string_view, wanted ')
    for stream in (True, False):
        with harness.Instance() as home:
            write(home.directory / "a.arrow", many, stream)
            whole = (home.directory / "a.arrow").read_bytes()
        assert len(whole) > 8000
        for length in range(1, len(whole) - 8, 97):  # a stream is whole without its end
            with harness.Instance() as instance:
                (instance.directory / "a.arrow").write_bytes(whole[:length])
                instance.add_dataset("hf", format="arrow", path="a.arrow", field_x="i64")
                done = instance.check()
                assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, (length, done)
