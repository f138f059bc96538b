"""Seeds of fuzz_arrow: small Arrow files and streams with columns of each kind."""

import struct

import arrow_writer as arrow

COMPLETE, TWO, BOUNDARIES = 1, 2, 4


def columns():
    return [
        arrow.field("s", arrow.UTF8), arrow.integer(64, name="i"), arrow.field("b", arrow.BOOL),
        arrow.field("l", arrow.LIST, children=[arrow.integer(16, name="item")]),
        arrow.field("a", arrow.STRUCT, children=[arrow.field("c", arrow.LARGE_BINARY)]),
        arrow.field("f", arrow.FIXED_LIST, {0: arrow.i32(2)}, children=[arrow.floating(32, name="item")]),
    ]  # fmt: skip


def lz4(content):
    """A frame with one block that is not compressed, as zstd() makes one."""
    head = b"\x04\x22\x4d\x18\x60\x40\x82"
    return head + struct.pack("<I", 1 << 31 | len(content)) + content + bytes(4)


def zstd(content):
    head = b"\x28\xb5\x2f\xfd\x20" + bytes([len(content)])
    return head + struct.pack("<I", len(content) << 3 | 1)[:3] + content


def coded(content, frame):
    return struct.pack("<q", len(content)) + frame(content) if content else b""


def batch(compression=None):
    """Three rows."""
    nodes = [(3, 0), (3, 0), (3, 0), (3, 0), (5, 0), (3, 0), (3, 0), (3, 0), (6, 0)]
    buffers = [
        *arrow.strings([b"one", b"", b"three"]), b"", struct.pack("<3q", 1, -2, 3), b"", b"\x05",
        b"", arrow.offsets([2, 3, 0]), b"", struct.pack("<5h", *range(5)),
        b"", b"", arrow.offsets([1, 0, 2], "q"), b"xyz", b"", b"", struct.pack("<6f", *range(6)),
    ]  # fmt: skip
    if compression is not None:
        buffers = [coded(buffer, (lz4, zstd)[compression]) for buffer in buffers]
        buffers[3] = struct.pack("<q", -1) + struct.pack("<3q", 1, -2, 3)  # one that is not
    return arrow.batch(3, nodes, buffers, compression=compression)


def lines(x, y, z="", pad="4 1"):
    return f"{x}\n{y}\n{z}\n{pad}\n".encode()


def footed(content):
    """The end that COMPLETE replaces: the footer's length in the last two bytes."""
    (length,) = struct.unpack("<I", content[-10:-6])
    return content[:-10] + bytes(8) + struct.pack("<H", length)


def seeds():
    stream, file = arrow.stream(columns(), [batch(), batch()]), arrow.file(columns(), [batch(), batch()])
    text = lines("bytes @ s", "i64 @ i", "bool @ b")
    yield "stream", bytes([0]) + text + stream
    yield "file", bytes([0]) + text + file
    yield "file-completed", bytes([COMPLETE]) + text + footed(file)
    yield "two", bytes([TWO]) + text + stream * 2
    yield "ragged", bytes([0]) + lines("bytes @ s", "i16[] @ l", "bytes @ a.c", "") + stream
    yield "lists", bytes([0]) + lines("i16[] @ l", "length @ l", "f32[2] @ f", "2") + stream
    yield "struct", bytes([0]) + lines("bytes @ a.c", "length @ a.c", "u8[] @ s", "2") + stream
    yield "equal", bytes([0]) + lines("i16[2] @ l", "f32[2] @ f", pad="") + stream
    for name, codec in (("lz4", 0), ("zstd", 1)):
        packed = arrow.stream(columns(), [batch(codec), batch()])
        yield f"compressed-{name}", bytes([0]) + text + packed
        yield f"compressed-lists-{name}", bytes([0]) + lines("i16[] @ l", "f32[2] @ f", "bytes @ a.c", "") + packed
        yield f"packed-{name}", bytes([2 << 3 | BOUNDARIES]) + lines("i16[] @ l", "", pad="") + packed
    for pack in (1, 3):
        yield f"packed-{pack}", bytes([pack << 3]) + lines("i16[] @ l", "", pad="") + stream
        yield f"packed-two-{pack}", bytes([pack << 3 | TWO | BOUNDARIES]) + lines("i16[] @ l", "", pad="") + stream * 2
    yield "packed-bytes", bytes([4 << 3]) + lines("bytes @ s", "", pad="") + stream
    yield "cut", bytes([0]) + text + stream[:-100]
    legacy = arrow.framed(arrow.message(arrow.SCHEMA, arrow.schema(columns())), continuation=False)
    yield "legacy", bytes([0]) + text + legacy + batch() + bytes(4)
    words = [arrow.field("d", arrow.UTF8, dictionary=True), *columns()[:2]]
    yield "dictionary", bytes([0]) + lines("bytes @ s", "bytes @ d") + arrow.stream(words, [])
