"""Compressed Arrow files, whose blocks loaders decode: within bounded memory, with every reader, damaged, and lying."""

import json
import os
import random
import struct
import time

import consumer
import expected
import harness
import mixes
import numpy as np
import pyarrow as pa
import test_errors
from pyarrow import ipc, parquet

MAGIC = {"lz4": struct.pack("<I", 0x184D2204), "zstd": struct.pack("<I", 0xFD2FB528)}
ROWS, CHUNK, MOST = 600, 100, 60
FIELDS = {"field_ids": "u16[] @ ids", "field_text": "bytes @ text", "field_pair": "f32[2]", "field_n": "i64"}


def table(rows=ROWS, seed=0):
    """Columns that compress well, so that every buffer is compressed."""
    dice = np.random.default_rng(seed)
    lists = [np.full(dice.integers(MOST), number % 1000, np.uint16) for number in range(rows)]
    text = [bytes([65 + number % 26]) * int(dice.integers(MOST)) for number in range(rows)]
    pairs = pa.array(np.arange(2 * rows, dtype=np.float32) % 7)
    return pa.table({
        "ids": pa.array(lists, pa.list_(pa.uint16())), "text": pa.array(text, pa.binary()),
        "pair": pa.FixedSizeListArray.from_arrays(pairs, 2), "n": pa.array(range(rows), pa.int64()),
    })  # fmt: skip


def write(path, content, codec="zstd", chunk=CHUNK):
    with ipc.new_stream(str(path), content.schema, options=ipc.IpcWriteOptions(compression=codec)) as sink:
        sink.write_table(content, max_chunksize=chunk)


def delivered(content, fields=FIELDS):
    values = {
        "ids": expected.Ragged([np.asarray(value, np.uint16).tobytes() for value in content["ids"].to_pylist()], 2),
        "text": expected.Ragged(content["text"].to_pylist()),
        "pair": [np.asarray(value, np.float32).tobytes() for value in content["pair"].to_pylist()],
        "n": [struct.pack("<q", value) for value in content["n"].to_pylist()],
    }  # fmt: skip
    return {name.removeprefix("field_"): values[name.removeprefix("field_")] for name in fields}


def add(feedd, content, codec="zstd", fields=FIELDS, chunk=CHUNK, **options):
    path = feedd.directory / "a.arrow"
    write(path, content, codec, chunk)
    feedd.add_dataset("hf", format="arrow", path=path, **fields, **options)
    return path


def blocks(feedd):
    return sum(feed["loader_counters"]["blocks"] for feed in feedd.statistics()["feeds"])


# ---- What is delivered -------------------------------------------------------------------------------------


def test_readers():
    """With each of them, in stored and in random order, and memory for a few of the blocks."""
    whole = table()
    for io, direct in (("uring", "no"), ("mapped", "no"), ("pread", "no"), ("uring", "yes")):
        for codec in ("lz4", "zstd"):
            with harness.Instance(io=io, loaders=2) as feedd:
                add(feedd, whole, codec, io_direct=direct, block_memory="64K")
                feedd.start()
                for options in ({"epochs": 2}, {"epochs": 2, "shuffle": True, "seed": 3}):
                    expected.check_run(delivered(whole), consumer.read(feedd, "hf", 32, **options), 32, **options)
                assert blocks(feedd) > 0


def large(rows=64, each=20_000):
    """Blocks of several MiB, which take several reads."""
    dice = np.random.default_rng(1)
    values = [dice.integers(0, 256, each, np.uint8).tobytes()[: int(dice.integers(each))] + bytes(each) for _ in range(rows)]
    return pa.table({"text": pa.array(values, pa.binary())})


def test_blocks_are_decoded_once_if_they_fit():
    whole, fields = large(), {"field_text": "bytes"}
    for memory, once in (("256M", True), ("1500K", False)):
        with harness.Instance(loaders=1) as feedd:
            add(feedd, whole, "lz4", fields, chunk=16, block_memory=memory)
            content = {"text": expected.Ragged(whole["text"].to_pylist())}
            feedd.start()
            batches = consumer.read(feedd, "hf", 8, epochs=3, shuffle=True)
            expected.check_run(content, batches, 8, epochs=3, shuffle=True)
            assert blocks(feedd) == 4 if once else blocks(feedd) > 20, blocks(feedd)


def kill_loaders_while(feedd, reader, pause_s):
    """Kills one after another until the consumer is done; returns how many."""
    dice, killed = random.Random(1), 0
    while reader.process.poll() is None:
        time.sleep(dice.random() * 2 * pause_s)
        if alive := feedd.children_called("loader"):
            killed += harness.kill(dice.choice(alive))
    return killed


def write_lists(path, lists, codec):
    write(path, lists, codec, 16) if path.suffix == ".arrow" else parquet.write_table(lists, path, 16, compression=codec)


def numbers(rows=480, each=2000):
    """Lists in 30 record batches or row groups, which are a block each in both formats."""
    dice = np.random.default_rng(2)
    values = [np.full(dice.integers(1, each), number, np.int32) for number in range(rows)]
    return pa.table({"ids": pa.array(values, pa.list_(pa.int32()))})


def shared(kind, codec, loaders, memory="256M", kills=False, **options):
    """What is delivered is right. Returns how many blocks were decoded."""
    lists = numbers()
    content = {"ids": expected.Ragged([np.asarray(one, np.int32).tobytes() for one in lists["ids"].to_pylist()], 4)}
    with harness.Instance(loaders=loaders, ring="256K") as feedd:
        write_lists(feedd.directory / f"a.{kind}", lists, codec)
        feedd.add_dataset("hf", format=kind, path=f"a.{kind}", field_ids="i32[]", block_memory=memory)
        feedd.start().indexed()
        with consumer.Consumer(feedd, "hf", 8, sleep_us=harness.slowly(2000) if kills else 0, **options) as reader:
            killed = kill_loaders_while(feedd, reader, 0.03) if kills else 0
            expected.check_run(content, reader.finish(60), 8, **options)
        assert killed >= 3 or not kills, killed
        return blocks(feedd)


def test_loaders_share_what_they_decode():
    """Without that, each of them decodes all 30 blocks. Those of two fit into what two have, but not into what one has."""
    for kind, codec in (("arrow", "lz4"), ("arrow", "zstd"), ("parquet", "zstd")):
        for loaders in (2, 3):
            for options in ({"epochs": 2}, {"epochs": 3, "shuffle": True, "seed": 5}):
                count = shared(kind, codec, loaders, **options)
                assert 30 <= count <= 36, (kind, codec, loaders, options, count)
    count = shared("arrow", "lz4", 2, "1400K", epochs=4, shuffle=True)
    assert count < 300, count


@harness.limit(200)
def test_loaders_that_share_blocks_are_killed():
    for kind, codec in (("arrow", "lz4"), ("arrow", "zstd"), ("parquet", "snappy")):
        for memory in ("256M", "300K"):
            shared(kind, codec, 3, memory, kills=True, epochs=4, shuffle=True, seed=7)
            shared(kind, codec, 2, memory, kills=True, epochs=4)


def test_loaders_without_shared_memory():
    """The daemon may make no file as large as that: each loader then has memory of its own."""
    whole = large()
    content = {"text": expected.Ragged(whole["text"].to_pylist())}
    with harness.Instance(loaders=4, ring="256K") as feedd:
        add(feedd, whole, "lz4", {"field_text": "bytes"}, chunk=16)
        feedd.start(wrap=("prlimit", f"--fsize={6 << 20}:{6 << 20}", "--")).indexed()
        expected.check_run(content, consumer.read(feedd, "hf", 4, epochs=3), 4, epochs=3)
        assert "each loader decodes blocks for itself: cannot make a memory file of" in feedd.read_log(), feedd.read_log()
        assert blocks(feedd) > 0


def test_views_mixes_and_kills():
    whole, other = table(), table(seed=1)
    fields = {"field_text": "bytes", "field_n": "i64"}
    with harness.Instance(loaders=2) as feedd:
        add(feedd, whole, "lz4", fields, block_memory="64K", pad_text=9)
        write(feedd.directory / "b.arrow", other)
        feedd.add_dataset("other", format="arrow", path="b.arrow", pad_text=9, **fields)
        feedd.add_view("part", "hf", samples="10%..50%", split_seed=1)
        feedd.add_mix("both", {"hf": 2, "other": 1}, 900)
        feedd.start()
        contents = []
        for number in (whole, other):
            text = [value[:9].ljust(9, b"\0") for value in number["text"].to_pylist()]
            contents.append({"text": text, "n": delivered(number)["n"]})
        view = expected.view(contents[0], 60, 300, 1)
        expected.check_run(view, consumer.read(feedd, "part", 16, shuffle=True), 16, shuffle=True)
        mixed = expected.Mixed([expected.Source(content) for content in contents], (2, 1), 900)
        mixes.check(feedd, 16, mixed=mixed)
        batches = consumer.read_through_kills(feedd, "hf", 5, 240, shuffle=True, epochs=2)
        expected.check_run(contents[0], batches, 5, epochs=2, shuffle=True)


def test_what_feedctl_says():
    with harness.Instance() as feedd:
        add(feedd, table(), "lz4")
        said = feedd.check().stdout
        assert " 18 blocks to decode: " in said and " decoded, the largest " in said, said
        feedd.start().indexed()
        assert "AAAA" in feedd.ctl("show", "hf", "26").stdout
        assert json.loads(feedd.ctl("errors", "hf", "--json").stdout)["fatal"] == 0


# ---- What is not -------------------------------------------------------------------------------------------


def test_the_largest_block_must_fit():
    with harness.Instance() as feedd:
        add(feedd, large(), "lz4", {"field_text": "bytes"}, chunk=16, block_memory="600K")
        done = feedd.check()
        assert done.returncode == 1 and "block_memory: found 614400 bytes, wanted at least " in done.stderr, done
        feedd.datasets["hf"]["block_memory"] = done.stderr.split("wanted at least ")[1].split()[0]
        feedd.write_config()
        assert feedd.check().returncode == 0


def frames(path, codec):
    """Where the frames of the column text begin: in each batch, those of its offsets and of its bytes."""
    content, at, found = path.read_bytes(), 0, []
    while (at := content.find(MAGIC[codec], at) + 1) > 0:
        found.append(at - 1)
    return found


def patch(path, offset, content):
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), content, offset)


def damaged(codec, change, on_error, decided, before=False):
    """The bytes of the third batch cannot be had, which the index, made `before` or afterwards, does not say."""
    whole, fields = table().select(["text"]), {"field_text": "bytes"}
    content = {"text": [value[:9].ljust(9, b"\0") for value in whole["text"].to_pylist()]}
    with harness.Instance(loaders=2) as feedd:
        path = add(feedd, whole, codec, fields, on_error=on_error, pad_text=9)
        found = frames(path, codec)
        assert len(found) == 2 * ROWS / CHUNK, found
        if before:
            feedd.start().indexed()
        change(path, found[5])
        if not before:
            feedd.start()
        bad = {number for number in range(200, 300) if whole["text"][number].as_py()}
        decided(feedd, content, bad)


def skipped(feedd, content, bad):
    batches = consumer.read(feedd, "hf", 50)
    assert sum(batch["skipped"] for batch in batches) == len(bad)
    expected.check_bytes(content, batches)


def replaced(feedd, content, bad):
    with consumer.Consumer(feedd, "hf", 50, epochs=1, shuffle=True, seed=2) as reader:
        batches = reader.finish()
    assert expected.check_replaced(content, bad, batches, 50, shuffle=True, seed=2) == len(bad)


def failed(feedd, content, bad):
    with consumer.Consumer(feedd, "hf", 50) as reader:
        expected.check_bytes(content, reader.fail("EIO", "dataset hf", "a.arrow, offset ", "its block cannot be decoded"))
    rows = test_errors.counted(feedd, "fatal", 1, "hf")["samples"]
    assert rows and all(row["sample"] in bad and row["file"].endswith("a.arrow") for row in rows), rows


def test_damaged_blocks():
    def magic(path, at):
        patch(path, at, b"none")

    def longer(path, at):
        (length,) = struct.unpack("<q", path.read_bytes()[at - 8 : at])
        patch(path, at - 8, struct.pack("<q", length + 1))

    damaged("lz4", magic, "skip", skipped)
    damaged("zstd", magic, "fail", failed, before=True)
    damaged("zstd", longer, "skip", skipped)
    damaged("lz4", longer, "replace", replaced)
    damaged("lz4", lambda path, at: patch(path, at + 4, bytes(100)), "replace", replaced)


def test_a_file_that_is_cut_later():
    def cut(path, at):
        os.truncate(path, at + 10)

    def lost(feedd, content, bad):
        skipped(feedd, content, bad | {number for number in range(300, ROWS) if content["text"][number] != bytes(9)})

    for io in ("uring", "mapped"):
        damaged("lz4", cut, "skip", lost, before=True)
