"""More datasets of the storm: those whose samples lie in blocks that loaders decode, and packed shards; most of them with
shuffle windows."""

import ctypes
import itertools
import random
import struct

import expected
import files
import harness
import packed
import parquet_writer as parquet
import test_arrow

ROWS = 300  # of a record batch or row group
LZ4, ZSTD = 0, 1


# ---- Compressed Arrow files ------------------------------------------------------------------------------------


def compress(codec, body):
    """As a buffer of an Arrow file."""
    if not body:
        return b""
    name = "ZSTD_" if codec == ZSTD else "LZ4F_"
    library = ctypes.CDLL("libzstd.so.1" if codec == ZSTD else "liblz4.so.1")
    bound, make = (getattr(library, name + word) for word in (("compressBound", "compress") if codec == ZSTD
                                                              else ("compressFrameBound", "compressFrame")))  # fmt: skip
    bound.restype = make.restype = ctypes.c_size_t
    room = bound(ctypes.c_size_t(len(body)), None)
    frame = ctypes.create_string_buffer(room)
    last = ctypes.c_int(1) if codec == ZSTD else None  # the level, or the preferences
    used = make(frame, ctypes.c_size_t(room), body, ctypes.c_size_t(len(body)), last)
    assert used <= room, f"{name}: error {used}"
    return struct.pack("<q", len(body)) + frame.raw[:used]


def some_texts(chance, count):
    """[(text, number), ...]: some that compress well, some that do not, and empty ones."""
    texts = []
    for number in range(count):
        size = chance.randrange(900)
        texts.append((bytes([number % 251]) * size if number % 3 else chance.randbytes(size), number))
    return texts


def frames_batch(samples, codec):
    count = len(samples)
    texts, labels = [text for text, _ in samples], struct.pack(f"<{count}q", *(label for _, label in samples))
    buffers = [compress(codec, buffer) for buffer in [*test_arrow.arrow.strings(texts), b"", labels]]
    return test_arrow.arrow.batch(count, [(count, 0)] * 2, buffers, compression=codec)


def write_frames(path, samples, codec, make):
    """Returns the sizes of the record batches."""
    parts = [samples[at : at + ROWS] for at in range(0, len(samples), ROWS)]
    path.write_bytes(make(test_arrow.COLUMNS, [frames_batch(part, codec) for part in parts]))
    return [len(part) for part in parts]


def ragged_content(samples):
    return {"text": expected.Ragged(text for text, _ in samples), "label": [struct.pack("<q", label) for _, label in samples]}


ARROW = {"format": "arrow", "field_text": "bytes", "field_label": "i64"}


def make_frames(folder, chance):
    """Record batches of both codecs, and memory for few of them; and parts of it."""
    samples = some_texts(chance, 3500)
    groups = write_frames(folder / "frames-0.arrow", samples[:2000], LZ4, test_arrow.arrow.stream)
    groups += write_frames(folder / "frames-1.arrow", samples[2000:], ZSTD, test_arrow.arrow.file)
    right = ragged_content(samples)
    options = {**ARROW, "path": folder / "frames-*.arrow", "block_memory": "500K"}
    return [
        windowed(folder, "frames", right, expected.Shuffled(2, groups), **options, shuffle_window=2),
        part(folder, "stretch", "frames", right, expected.Shuffled(3, groups, 450, 2500), 450, samples="450..2950",
             shuffle_window=3),
        files.Dataset(folder, "unwindowed", right, of="frames", shuffle_window=0),
    ]  # fmt: skip


def make_fading(folder, chance):
    """The same, but its file is cut now and then, so that blocks are missing and others take the places of their samples. In
    random order, nearly every batch needs a block again."""
    samples = some_texts(chance, 4000)
    write_frames(folder / "fading.arrow", samples, LZ4, test_arrow.arrow.stream)
    options = {**ARROW, "path": folder / "fading.arrow", "pad_text": "600 7", "block_memory": "500K", "on_error": "replace"}
    return [files.Dataset(folder, "fading", test_arrow.content_of(samples, 600), **options), make_alike(folder, chance)]


def make_alike(folder, chance):
    """As fading, with blocks that all have one size, stored and decoded: where one cannot be read, another one that was read
    into the same memory before could be taken for it."""
    parts = [[chance.randbytes(64) for _ in range(ROWS)] for _ in range(60)]
    batches = [
        test_arrow.arrow.batch(ROWS, [(ROWS, 0)], [compress(LZ4, buffer) for buffer in test_arrow.arrow.strings(part)],
                               compression=LZ4)
        for part in parts
    ]  # fmt: skip
    (folder / "alike.arrow").write_bytes(test_arrow.arrow.stream(test_arrow.COLUMNS[:1], batches))
    options = {"format": "arrow", "path": folder / "alike.arrow", "field_text": "bytes", "pad_text": "64 0"}
    return files.Dataset(folder, "alike", {"text": sum(parts, [])}, **options, block_memory="100K", on_error="replace")


# ---- Parquet -----------------------------------------------------------------------------------------------------


def rows_group(samples, codec):
    """Of several pages."""
    pages, numbers = [], []
    for at in range(0, len(samples), 100):
        some = samples[at : at + 100]
        pages.append(parquet.page(len(some), parquet.strings([text for text, _ in some]), codec=codec))
        numbers.append(parquet.page(len(some), struct.pack(f"<{len(some)}q", *(label for _, label in some)), codec=codec))
    count = len(samples)
    columns = [
        parquet.column(parquet.BYTE_ARRAY, pages, count, codec), parquet.column(parquet.INT64, numbers, count, codec)
    ]  # fmt: skip
    return count, columns


def make_rows(folder, chance):
    """Row groups of several codecs, one after the other."""
    samples = some_texts(chance, 3100)
    elements = [parquet.element("text", parquet.BYTE_ARRAY), parquet.element("label", parquet.INT64)]
    codecs, groups = itertools.cycle((parquet.GZIP, parquet.SNAPPY, parquet.NONE)), []
    for number, mine in enumerate((samples[:1300], samples[1300:])):
        parts = [mine[at : at + ROWS] for at in range(0, len(mine), ROWS)]
        content = parquet.file(elements, [rows_group(some, next(codecs)) for some in parts])
        (folder / f"rows-{number}.parquet").write_bytes(content)
        groups += [len(some) for some in parts]
    options = {"format": "parquet", "path": folder / "rows-*.parquet", "field_text": "bytes", "field_label": "i64"}
    right = ragged_content(samples)
    return [windowed(folder, "rows", right, expected.Shuffled(3, groups), **options, block_memory="700K", shuffle_window=3)]


# ---- Packed shards -----------------------------------------------------------------------------------------------


def make_packed(folder, source):
    """What feedctl makes of a dataset, and a part of it that consumers bring."""
    with harness.Instance() as feedd:
        feedd.datasets[source.name] = {harness.dotted(key): value for key, value in source.options.items()}
        feedd.start()
        feedd.ctl("pack", source.name, folder / "packed", "--shard-size=512K")
    shards = packed.shards(folder, "packed")
    groups, right = [shard.samples for shard in shards], packed.content(shards)
    assert b"".join(map(files.truth_of, right.values())) == source.truth.read_bytes(), "the shards hold what was packed"
    begin, end = len(right["txt"]) * 3 // 10, len(right["txt"]) * 9 // 10
    options = {"format": "packed", "path": folder / "packed-?????.feed", "shuffle_window": 2}
    return [
        windowed(folder, "packed", right, expected.Shuffled(2, groups), **options),
        part(folder, "own-stretch", "packed", right, expected.Shuffled(2, groups, begin, end - begin), begin,
             brings="range:300000:900000"),
    ]  # fmt: skip


# ---- Windows -----------------------------------------------------------------------------------------------------


def windowed(folder, name, content, windows, **options):
    path = folder / f"{name}.groups"
    sizes = [size for _, size in windows.groups]
    path.write_bytes(struct.pack(f"<{2 + len(sizes)}Q", windows.size, len(sizes), *sizes))
    path.chmod(0o644)
    return files.Dataset(folder, name, content, groups=path, **options)


def part(folder, name, of, content, windows, first, **options):
    """A range of a dataset, with what it has of each group."""
    count = sum(size for _, size in windows.groups)
    mine = {field: samples[first : first + count] for field, samples in content.items()}
    mine = {field: expected.Ragged(mine[field], samples.item) if isinstance(samples, expected.Ragged) else mine[field]
            for field, samples in content.items()}  # fmt: skip
    return windowed(folder, name, mine, windows, of=of, **options)


def make_all(folder, seed, ragged):
    """{name: Dataset}; `ragged` is the dataset that is packed."""
    made = [make(folder, random.Random(f"{seed} {make.__name__}")) for make in (make_frames, make_fading, make_rows)]
    return {dataset.name: dataset for dataset in [*sum(made, []), *make_packed(folder, ragged)]}
