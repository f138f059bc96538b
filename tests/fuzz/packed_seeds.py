"""Seeds of fuzz_packed.c, for seeds.py."""

import struct

HASHES, TWO, ENDS = 1, 2, 4
U8, I64, F32 = 2, 9, 12


def field(name, dtype, shape=(), ragged=False):
    shape = (0,) if ragged else shape
    return struct.pack("<32sIIII8Q", name, dtype, len(shape), ragged, 0, *shape, *(0,) * (8 - len(shape)))


def shard(fields, body, table, samples, number=0, last=1, alignment=1, version=1):
    """As fuzz_packed.c takes it apart. Hashes are its business."""
    head = struct.pack(
        "<8sIIQIIQQQQQQII", b"FEEDPACK", version, len(fields), 7, number, last, 10 * number, 10 * number + samples, samples,
        4096 + len(body), len(table), 0, alignment, 0,
    )  # fmt: skip
    return (head + b"".join(fields)).ljust(512, b"\0") + body + table


def seeds():
    x, y, z = field(b"x", U8, ragged=True), field(b"y", I64), field(b"z", F32, (2, 3))
    sizes = struct.pack("<3I4x", 5, 0, 2)
    whole = shard([x, y], bytes(range(7)), sizes + struct.pack("<3q", 1, 2, 3), 3)
    yield "ragged", bytes([HASHES]) + b"\n" + whole
    yield "padded", bytes([HASHES]) + b"4 9\n" + whole
    yield "aligned", bytes([HASHES]) + b"\n" + shard([x, z], bytes(96 + 32), struct.pack("<3I4x", 5, 24, 2), 3, alignment=32)
    yield "too-large", bytes([HASHES]) + b"\n" + shard([x], bytes(7), struct.pack("<3I4x", 5, 0, 3), 3)
    yield "too-small", bytes([HASHES]) + b"\n" + shard([x], bytes(7), struct.pack("<3I4x", 5, 0, 1), 3)
    floats = field(b"x", F32, ragged=True)
    yield "half-a-value", bytes([HASHES]) + b"\n" + shard([floats], bytes(8), struct.pack("<2I", 3, 5), 2)
    yield "records", bytes([HASHES]) + b"\n" + shard([y, z], bytes(3 * 32), b"", 3)
    yield "records-aligned", bytes([HASHES | ENDS]) + b"\n" + shard([z], bytes(2 * 32), b"", 2, alignment=32)
    yield "two", bytes([HASHES | TWO]) + b"\n" + whole + shard([x, y], bytes(range(7)), sizes + bytes(24), 3)
    first = shard([x], bytes(7), sizes, 3, last=0)
    yield "a-set", bytes([HASHES | TWO]) + b"\n" + first + shard([x], bytes(7), sizes, 3, number=1)
    yield "one-is-missing", bytes([HASHES]) + b"\n" + first
    yield "twice-a-name", bytes([HASHES]) + b"\n" + shard([y, y], bytes(32), b"", 2)
    yield "version", bytes([HASHES]) + b"\n" + shard([y], bytes(8), b"", 1, version=2)
    yield "damaged", bytes([0]) + b"\n" + whole
