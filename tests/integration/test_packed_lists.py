"""Lists of tokens as PyArrow writes them, packed into windows, against what PyArrow itself reads: in Arrow files, compressed or
not, and in Parquet files."""

import itertools
import os

import consumer
import expected
import harness
import numpy as np
import pyarrow as pa
import test_compressed
import test_megatron
from pyarrow import ipc, parquet

KINDS = {
    "u8": pa.uint8(), "i8": pa.int8(), "u16": pa.uint16(), "i16": pa.int16(), "u32": pa.uint32(), "i32": pa.int32(),
    "u64": pa.uint64(), "i64": pa.int64(),
}  # fmt: skip
CODES = dict(zip(KINDS, "BbHhIiQq"))
PAGES = {"use_dictionary": False, "data_page_size": 100, "write_batch_size": 4, "data_page_version": "2.0"}
FORMS = {  # of files: how one is written
    "stream": lambda path, table: write_arrow(path, table, ipc.new_stream),
    "file": lambda path, table: write_arrow(path, table, ipc.new_file),
    "lz4": lambda path, table: write_arrow(path, table, ipc.new_stream, compression="lz4"),
    "zstd": lambda path, table: write_arrow(path, table, ipc.new_file, compression="zstd"),
    "snappy": lambda path, table: parquet.write_table(table, path, 9, compression="snappy"),
    "pages": lambda path, table: parquet.write_table(table, path, 30, compression="zstd", **PAGES),
    "plain": lambda path, table: parquet.write_table(table, path, 20, compression="none", use_dictionary=False),
}
PARQUET = ("snappy", "pages", "plain")


def write_arrow(path, table, writer, **options):
    with writer(str(path), table.schema, options=ipc.IpcWriteOptions(**options)) as sink:
        sink.write_table(table, max_chunksize=9)


def documents(count, seed, kind="i32", most=40):
    """With some that have no tokens, and row groups and record batches that have none."""
    dice = np.random.default_rng(seed)
    sizes = [0 if 20 <= number < 50 else int(dice.integers(most)) for number in range(count)]
    return [dice.integers(100, size=size).astype(KINDS[kind].to_pandas_dtype()) for size in sizes]


def lists(kind, *seeds, large=False, count=100):
    """A column for each file: slices of larger ones."""
    make = pa.large_list if large else pa.list_
    return [pa.array(documents(count, seed, kind), make(KINDS[kind])).slice(3, count - 10) for seed in seeds]


def add(feedd, columns, forms, length, kind="i32", form="{}[]", **options):
    """The n-th file has the n-th form. Returns the windows."""
    name = "parquet" if forms[0] in PARQUET else "arrow"
    for number, (column, how) in enumerate(zip(columns, itertools.cycle(forms))):
        FORMS[how](feedd.directory / f"hf-{number}.{name}", pa.table({"row": range(len(column)), "input_ids": column}))
    declared = form.format(kind) + " @ input_ids"
    feedd.add_dataset("hf", format=name, path=f"hf-*.{name}", pack=length, field_tokens=declared, **options)
    packed = test_megatron.windows([[row for column in columns for row in column.to_pylist()]], length, CODES[kind])
    if options.get("cu_seqlens"):
        rows = [[row for column in columns for row in column.to_pylist()]]
        packed = test_megatron.boundaries(rows, length, CODES[kind])
    return packed


def check(feedd, content, batch_size=16, name="hf", **options):
    expected.check_run(content, consumer.read(feedd, name, batch_size, **options), batch_size, **options)


def verify(feedd, name="hf"):
    said = feedd.ctl("read", name, "--epochs=2", "--shuffle", "--verify").stdout
    assert "all bytes equal to the files', as feedd's index describes them" in said, said


def test_every_form():
    """Files of one form, and of several, where some record batches are read in place and others decoded."""
    for forms in (*((form,) for form in FORMS), ("lz4", "stream", "zstd"), ("file", "lz4")):
        with harness.Instance(loaders=2) as feedd:
            content = add(feedd, lists("i32", 1, 2, 3), forms, 100, cu_seqlens="yes")
            feedd.add_view("val", "hf", samples="70%..", split_seed=1)
            feedd.start()
            check(feedd, content, batch_size=7)
            check(feedd, content, epochs=2, shuffle=True, seed=2)
            count = len(content["tokens"])
            check(feedd, expected.view(content, count * 70 // 100, count, 1), name="val", shuffle=True)
            for name in ("hf", "val"):
                verify(feedd, name)
            assert (test_compressed.blocks(feedd) > 0) == bool(set(forms) - {"stream", "file"}), forms


def test_every_type():
    for number, kind in enumerate(KINDS):
        for form in ("stream", "zstd", "snappy"):
            with harness.Instance() as feedd:
                content = add(feedd, lists(kind, 1, 2, large=number % 2), (form,), 40, kind)
                feedd.start()
                check(feedd, content, shuffle=True)


def test_lists_of_a_fixed_size():
    column = pa.FixedSizeListArray.from_arrays(pa.array(range(64 * 30), pa.int32()), 64).slice(3, 25)
    for form in FORMS:
        with harness.Instance() as feedd:
            content = add(feedd, [column, column], (form,), 100, form="{}[64]")
            feedd.start()
            check(feedd, content, batch_size=4, shuffle=True)


def test_windows_in_more_blocks_than_loaders_keep():
    """Each window lies in several blocks, of which a loader has room for about two."""
    dice = np.random.default_rng(5)
    column = pa.array([dice.integers(1 << 30, size=800) for _ in range(90)], pa.list_(pa.int32()))
    for form in ("zstd", "snappy"):
        with harness.Instance(loaders=2) as feedd:
            content = add(feedd, [column], (form,), 20000, block_memory="160K")
            feedd.start()
            check(feedd, content, batch_size=2, shuffle=True, epochs=2)
            verify(feedd)


def shuffled(columns, rows, length):
    """By record batches or row groups of so many rows."""
    parts = [column[at : at + rows].to_pylist() for column in columns for at in range(0, len(column), rows)]
    return expected.Shuffled(2, test_megatron.groups(parts, length))


def test_shuffled_by_blocks():
    order = {"shuffle": True, "seed": 5, "epochs": 2}
    for form, rows in (("lz4", 9), ("pages", 30)):
        with harness.Instance() as feedd:
            columns = lists("i32", 1, 2)
            content = add(feedd, columns, (form,), 30, shuffle_window=2)
            feedd.start()
            batches = consumer.read(feedd, "hf", 8, **order)
            expected.check_run(content, batches, 8, windows=shuffled(columns, rows, 30), **order)


def test_a_view_shuffled_by_blocks():
    """Its dataset first has no window, and then a different one."""
    order = {"shuffle": True, "seed": 5, "epochs": 2}
    columns = lists("i32", 1, 2)
    for (form, rows), options in itertools.product((("lz4", 9), ("pages", 30)), ({}, {"shuffle_window": 4})):
        with harness.Instance() as feedd:
            content = add(feedd, columns, (form,), 30, **options)
            feedd.add_view("view", "hf", shuffle_window=2)
            feedd.start()
            batches = consumer.read(feedd, "view", 8, **order)
            expected.check_run(content, batches, 8, windows=shuffled(columns, rows, 30), **order)
            assert "the index fits its files" in feedd.ctl("index", "view").stdout


def test_a_kept_index():
    columns = lists("i32", 1, 2)
    for form in ("lz4", "snappy"):
        with harness.Instance(index_folder="kept") as feedd:
            (feedd.directory / "kept").mkdir(mode=0o755)
            content = add(feedd, columns, (form,), 30, cu_seqlens="yes", shuffle_window=2)
            assert "made in" in feedd.check().stdout and "read in" in feedd.check().stdout
            feedd.start()
            batches = consumer.read(feedd, "hf", 8, shuffle=True)
            expected.check_run(content, batches, 8, windows=shuffled(columns, 9, 30), shuffle=True)
            verify(feedd)


def test_a_mix():
    with harness.Instance() as feedd:
        first = add(feedd, lists("u16", 1, 2), ("zstd",), 30, "u16")
        pairs = test_megatron.some(100)
        test_megatron.pair(feedd.directory / "x", pairs)
        feedd.add_dataset("pair", format="megatron", path="x.idx", pack=30)
        feedd.add_mix("both", {"pair": 1, "hf": 2}, 300)
        feedd.start()
        sources = [expected.Source(content) for content in (test_megatron.windows([pairs], 30), first)]
        mix = expected.Mixed(sources, [1, 2], 300)
        mix.check(consumer.read(feedd, "both", 6, shuffle=True, epochs=1), shuffle=True)


def test_loaders_and_daemon_die():
    with harness.Instance() as feedd:
        content = add(feedd, lists("i32", 1, 2), ("zstd",), 30)
        feedd.start()
        count = -(-len(content["tokens"]) // 2)
        batches = consumer.read_through_kills(feedd, "hf", 2, count, shuffle=True, epochs=1)
        expected.check_run(content, batches, 2, shuffle=True)


def test_a_block_that_is_damaged():
    """Every window that lies in it is left out, and no other one."""
    columns = lists("i32", 1)
    with harness.Instance() as feedd:
        content = add(feedd, columns, ("zstd",), 30, on_error="skip")
        feedd.start().indexed()
        path = feedd.directory / "hf-0.arrow"
        data = bytearray(path.read_bytes())
        (magic,) = (test_compressed.MAGIC["zstd"],)
        places = [at for at in range(len(data)) if data.startswith(magic, at)]
        at = places[-1]
        for place in range(at + 4, min(at + 40, len(data))):
            data[place] ^= 0x5A
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), data, 0)
        batches = consumer.read(feedd, "hf", 4)
        skipped = sum(batch["skipped"] for batch in batches)
        assert 0 < skipped < len(content["tokens"]), skipped
        expected.check_bytes(content, batches)


def test_verify_says_where_bytes_differ():
    dice = np.random.default_rng(5)
    column = pa.array([dice.integers(1 << 30, size=500) for _ in range(20)], pa.list_(pa.int32()))
    with harness.Instance() as feedd:
        add(feedd, [column, column], ("zstd",), 700)
        feedd.start().indexed()
        path = feedd.directory / "hf-1.arrow"
        other = pa.array([row if number else [7, *row[1:]] for number, row in enumerate(column.to_pylist())], column.type)
        path.unlink()
        FORMS["zstd"](path, pa.table({"row": range(20), "input_ids": other}))
        done = feedd.ctl("read", "hf", "--epochs=1", "--verify", check=False)
        assert done.returncode == 1 and f" of {path}, decoded, has 7 at offset 0" in done.stderr, done


def refuse(table, kind, *parts, **options):
    with harness.Instance() as feedd:
        FORMS["snappy" if kind == "parquet" else "lz4"](feedd.directory / "a", table)
        feedd.add_dataset("hf", format=kind, path="a", pack=4, **options)
        done = feedd.check()
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done
        for part in ("[dataset hf] ", *parts):
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def test_what_is_refused():
    texts = pa.table({"x": [b"one", b"three", b"", b"one"] * 9})
    refuse(texts, "parquet", 'found the values of column "x" apart from each other, wanted a column of lists', field_x="bytes")
    nulls = pa.table({"x": pa.array([[1, 2], [3, None], [4] * 9], pa.list_(pa.int32()))})
    for kind in ("arrow", "parquet"):
        refuse(nulls, kind, "null", field_x="i32[]")
    many = pa.table({"x": pa.array([[1] * 100000], pa.list_(pa.int64()))})
    refuse(many, "parquet", "block_memory: found 65536 bytes, wanted at least", field_x="i64[]", block_memory="64K")
