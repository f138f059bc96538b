"""Seeds of fuzz_parquet: small Parquet files with columns of each kind, in every encoding."""

import struct

import parquet_writer as p

COMPLETE, TWO, BOUNDARIES = 1, 2, 4
WORDS = [b"one", b"", b"three", b"three"]


def lines(x, y, z="", pad="4 1"):
    return f"{x}\n{y}\n{z}\n{pad}\n".encode()


def footed(content):
    """The end that COMPLETE replaces: the footer's length in the last two bytes."""
    return content[:-8] + bytes(6) + content[-8:-6]


def flat(codec=p.NONE, kind=p.DATA):
    """Four rows: a string, a number and a bool."""
    some = p.levels([1] * 4, 1)
    numbers = struct.pack("<4i", 1, -2, 3, 4)
    return p.file(
        [p.element("s", p.BYTE_ARRAY, p.OPTIONAL), p.element("i", p.INT32, p.OPTIONAL), p.element("b", p.BOOLEAN)],
        [(4, [
            p.column(p.BYTE_ARRAY, [p.page(4, p.strings(WORDS), def_=some, codec=codec, kind=kind)], 4, codec),
            p.column(p.INT32, [p.page(4, numbers, def_=some, codec=codec, kind=kind)], 4, codec),
            p.column(p.BOOLEAN, [p.page(4, b"\x05", codec=codec, kind=kind)], 4, codec),
        ])] * 2,
    )  # fmt: skip


def encoded():
    """The same without levels, with dictionaries and differences."""
    pages = [p.page(2, p.strings([b"one", b"three"]), kind=p.DICTIONARY), p.page(4, b"\x01" + p.packed([0, 1, 1, 0], 1), 8)]
    prefixes, suffixes = p.delta([0, 2, 3, 0]), p.delta([3, 1, 0, 2])
    joined = p.page(4, prefixes + suffixes + b"abcdef"[:6], p.DELTA_BYTE_ARRAY)
    return p.file(
        [p.element("s", p.BYTE_ARRAY), p.element("i", p.INT64), p.element("b", p.BYTE_ARRAY), p.element("f", p.FLOAT)],
        [(4, [
            p.column(p.BYTE_ARRAY, pages, 4),
            p.column(p.INT64, [p.page(4, p.delta([5, 3, 9, 9]), p.DELTA)], 4),
            p.column(p.BYTE_ARRAY, [joined], 4),
            p.column(p.FLOAT, [p.page(4, bytes(range(16)), p.SPLIT)], 4),
        ])],
    )  # fmt: skip


def more():
    """Bytes of one length, lengths before bytes, and a number in a dictionary."""
    numbers = [p.page(2, struct.pack("<2d", 1, 2), kind=p.DICTIONARY), p.page(3, b"\x01" + p.packed([0, 1, 1], 1), 8)]
    return p.file(
        [p.element("f", p.FIXED, length=3), p.element("s", p.BYTE_ARRAY), p.element("d", p.DOUBLE)],
        [(3, [
            p.column(p.FIXED, [p.page(3, bytes(range(9)), p.SPLIT)], 3),
            p.column(p.BYTE_ARRAY, [p.page(3, p.delta([1, 0, 4]) + b"abcde", p.DELTA_LENGTH)], 3),
            p.column(p.DOUBLE, numbers, 3),
        ])],
    )  # fmt: skip


def lists(kind=p.DATA, codec=p.NONE):
    """Three rows of lists of i16, in two pages; and a list of lists."""
    elements = [
        p.element("l", repetition=p.OPTIONAL, children=1, converted=p.LIST),
        p.element("list", repetition=p.REPEATED, children=1), p.element("element", p.INT32, p.OPTIONAL, converted=16),
        p.element("n", repetition=p.OPTIONAL, children=1, converted=p.LIST),
        p.element("list", repetition=p.REPEATED, children=1),
        p.element("element", repetition=p.OPTIONAL, children=1, converted=p.LIST),
        p.element("list", repetition=p.REPEATED, children=1), p.element("element", p.INT32, p.OPTIONAL),
    ]  # fmt: skip
    dictionary = p.page(2, struct.pack("<2i", 7, 8), kind=p.DICTIONARY, codec=codec)
    first = p.page(4, b"\x01" + p.packed([0, 1, 1], 1), 8, p.levels([0, 1, 0, 0], 1), p.levels([3, 3, 1, 3], 3), kind, codec)
    second = p.page(1, struct.pack("<i", 9), p.PLAIN, p.levels([1], 1), p.levels([3], 3), kind, codec)
    nested = p.page(4, struct.pack("<2i", 1, 2), 0, p.levels([0, 2, 0, 0], 2), p.levels([5, 5, 1, 3], 5), kind, codec)
    return p.file(elements, [(3, [
        p.column(p.INT32, [dictionary, first, second], 5, codec), p.column(p.INT32, [nested], 4, codec),
    ])])  # fmt: skip


def both_kinds():
    """A page of the older kind that says of its levels what only newer ones do."""
    about = p.structure({5: p.i32(3), 6: p.i32(2), 7: p.boolean(True)})
    words = p.page(4, p.strings(WORDS), codec=p.SNAPPY, f8=about)
    return p.file([p.element("s", p.BYTE_ARRAY)], [(4, [p.column(p.BYTE_ARRAY, [words], 4, p.SNAPPY)])])


def seeds():
    text = lines("bytes @ s", "i32 @ i", "bool @ b")
    yield "flat", bytes([0]) + text + flat()
    yield "flat-completed", bytes([COMPLETE]) + text + footed(flat())
    yield "flat-2", bytes([COMPLETE]) + text + footed(flat(kind=p.DATA_2))
    yield "two", bytes([TWO]) + text + flat() * 2
    yield "snappy", bytes([COMPLETE]) + text + footed(flat(p.SNAPPY))
    yield "gzip-2", bytes([COMPLETE]) + text + footed(flat(p.GZIP, p.DATA_2))
    yield "encoded", bytes([COMPLETE]) + lines("bytes @ s", "i64 @ i", "bytes @ b", "") + footed(encoded())
    yield "split", bytes([COMPLETE]) + lines("length @ s", "f32 @ f", "bytes @ b", "") + footed(encoded())
    yield "more", bytes([COMPLETE]) + lines("u8[3] @ f", "bytes @ s", "f64 @ d", "") + footed(more())
    yield "lists", bytes([COMPLETE]) + lines("i16[] @ l", "length @ n", "length @ l", "") + footed(lists())
    yield "lists-2", bytes([COMPLETE]) + lines("i16[] @ l", "length @ n", "") + footed(lists(p.DATA_2, p.SNAPPY))
    yield "packed", bytes([COMPLETE | 2 << 3]) + lines("i16[] @ l", "", pad="") + footed(lists())
    boundaries = bytes([COMPLETE | BOUNDARIES | 1 << 3])
    yield "packed-2", boundaries + lines("i16[] @ l", "", pad="") + footed(lists(p.DATA_2, p.SNAPPY))
    yield "packed-bytes", bytes([COMPLETE | 1 << 3]) + lines("u8[3] @ f", "", pad="") + footed(more())
    yield "both-kinds", bytes([COMPLETE]) + lines("bytes @ s", "length @ s", "") + footed(both_kinds())
    yield "cut", bytes([0]) + text + flat()[:-100]
