"""Writes Parquet files byte by byte, also wrong ones: an independent writer, from the description of the format."""

import struct
import zlib

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
REQUIRED, OPTIONAL, REPEATED = range(3)
PLAIN, RLE, DELTA, DELTA_LENGTH, DELTA_BYTE_ARRAY, RLE_DICTIONARY, SPLIT = 0, 3, 5, 6, 7, 8, 9
NONE, SNAPPY, GZIP = range(3)
DATA, INDEX, DICTIONARY, DATA_2 = range(4)
MAP, LIST = 1, 3  # converted types


# ---- Thrift's compact protocol -----------------------------------------------------------------------------


def varint(number):
    out = b""
    while number >= 128:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def zigzag(number):
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def i32(number):
    return 5, zigzag(number)


def i64(number):
    return 6, zigzag(number)


def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return 8, varint(len(value)) + value


def boolean(value):
    return 1 if value else 2, b""


def many(values):
    """A list of values of one type, at least one."""
    kind = values[0][0] if values else 12
    head = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([0xF0 | kind]) + varint(len(values))
    return 9, head + b"".join(value for _, value in values)


def structure(fields):
    """{number: value}; None is left out."""
    out, before = b"", 0
    for number, value in sorted(fields.items()):
        if value is None:
            continue
        kind, content = value
        near = 0 < number - before < 16
        out += (bytes([number - before << 4 | kind]) if near else bytes([kind]) + zigzag(number)) + content
        before = number
    return 12, out + b"\0"


# ---- Values and levels -------------------------------------------------------------------------------------


def packed(values, width):
    """One run of packed bits."""
    groups = -(-len(values) // 8)
    bits = sum(value << width * place for place, value in enumerate(values))
    return varint(groups << 1 | 1) + bits.to_bytes(groups * width, "little")


def levels(values, most):
    raw = packed(values, most.bit_length())
    return struct.pack("<I", len(raw)) + raw


def strings(values):
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


def delta(values):
    """Blocks of 128 in 4 groups, all as wide as the widest difference."""
    steps = [after - before for before, after in zip(values, values[1:])]
    out = varint(128) + varint(4) + varint(len(values)) + zigzag(values[0] if values else 0)
    for at in range(0, len(steps), 128):
        block = steps[at : at + 128]
        least = min(block)
        width = max(step - least for step in block).bit_length()
        used = -(-len(block) // 32)
        bits = sum(step - least << width * place for place, step in enumerate(block))
        out += zigzag(least) + bytes([width] * used + [0] * (4 - used)) + bits.to_bytes(used * 4 * width, "little")
    return out


# ---- Pages, columns and files ------------------------------------------------------------------------------


def compress(codec, body):
    if codec == GZIP:
        maker = zlib.compressobj(wbits=31)
        return maker.compress(body) + maker.flush()
    if codec == SNAPPY:  # literals alone
        pieces = [body[at : at + 60] for at in range(0, len(body), 60)]
        return varint(len(body)) + b"".join(bytes([len(piece) - 1 << 2]) + piece for piece in pieces)
    return body


def page(count, values, encoding=PLAIN, rep=b"", def_=b"", kind=DATA, codec=NONE, **header):
    """`rep` and `def_` as levels() makes them. `header` replaces fields of the page's header, by number: f3=..."""
    about = {1: i32(count), 2: i32(encoding), 3: i32(RLE), 4: i32(RLE)}
    number = {DATA: 5, INDEX: 6, DICTIONARY: 7, DATA_2: 8}[kind]
    if kind == DICTIONARY:
        about = {1: i32(count), 2: i32(encoding)}
    before = b""
    if kind == DATA_2:
        before = rep[4:] + def_[4:]
        about = {1: i32(count), 2: i32(0), 3: i32(count), 4: i32(encoding), 5: i32(len(def_[4:])), 6: i32(len(rep[4:]))}
        about[7] = boolean(codec != NONE)
    body = before + compress(codec, values) if before or kind == DATA_2 else compress(codec, rep + def_ + values)
    decoded = len(before) + len(values) if kind == DATA_2 else len(rep + def_ + values)
    fields = {1: i32(kind), 2: i32(decoded), 3: i32(len(body)), number: structure(about)}
    fields |= {int(name[1:]): value for name, value in header.items()}
    return structure(fields)[1] + body


def element(name, kind=None, repetition=REQUIRED, children=None, length=None, converted=None):
    given = {1: kind, 2: length, 3: repetition, 5: children, 6: converted}
    fields = {number: None if value is None else i32(value) for number, value in given.items()}
    return structure({**fields, 4: text(name)})


def column(kind, pages, count, codec=NONE, **more):
    """A column chunk: the pages, and what is said of them once their place is known."""

    def describe(offset):
        about = {
            1: i32(kind), 2: many([i32(PLAIN)]), 3: many([text("x")]), 4: i32(codec), 5: i64(count),
            6: i64(len(b"".join(pages))), 7: i64(len(b"".join(pages))), 9: i64(offset),
        }  # fmt: skip
        return structure({2: i64(offset), 3: structure(about | {int(name[1:]): value for name, value in more.items()})})

    return b"".join(pages), describe


def file(elements, groups, **more):
    """`groups`: [(rows, [column, ...]), ...]. The root is added to the elements; each says how many children it has."""
    out, about, top, left = b"PAR1", [], 0, 0
    for number, columns in groups:
        chunks = []
        for content, describe in columns:
            chunks.append(describe(len(out)))
            out += content
        about.append(structure({1: many(chunks), 2: i64(len(out)), 3: i64(number)}))
    for one in elements:  # those that are in no other
        top, left = (top + 1, 0) if not left else (top, left - 1)
        left += children_of(one)
    footer = {1: i32(1), 2: many([element("schema", children=top), *elements]), 3: i64(sum(n for n, _ in groups))}
    footer |= {4: many(about)} | {int(name[1:]): value for name, value in more.items()}
    footer = structure(footer)[1]
    return out + footer + struct.pack("<I", len(footer)) + b"PAR1"


def children_of(one):
    """Of an element as it is made above, whose fields all have small numbers."""
    content, at, number = one[1], 0, 0
    while content[at]:
        number += content[at] >> 4
        kind, at = content[at] & 15, at + 1
        if kind == 8:
            at += 1 + content[at]
            continue
        if number == 5:
            return content[at] >> 1
        at += 1
        while content[at - 1] & 128:
            at += 1
    return 0


def images(count):
    """A file as README describes it: a binary in a struct, and a number."""
    elements = [
        element("image", repetition=OPTIONAL, children=2),
        element("bytes", BYTE_ARRAY, OPTIONAL), element("path", BYTE_ARRAY, OPTIONAL),
        element("label", INT64, OPTIONAL),
    ]  # fmt: skip
    pictures = strings([bytes([number]) * (number + 1) for number in range(count)])
    return file(elements, [(count, [
        column(BYTE_ARRAY, [page(count, pictures, def_=levels([2] * count, 2), codec=SNAPPY)], count, SNAPPY),
        column(BYTE_ARRAY, [page(count, b"", def_=levels([1] * count, 2), codec=SNAPPY)], count, SNAPPY),
        column(INT64, [page(count, struct.pack(f"<{count}q", *range(count)), def_=levels([1] * count, 1))], count),
    ])])  # fmt: skip
