"""Writes Arrow IPC streams and files, also wrong ones, without Arrow: just the flatbuffers that are needed.

A column is (name, type, batches): a type is a function of this file's or a tuple of it with children, and a batch is what its
buffers hold. test_arrow.py has pyarrow read what is written here.
"""

import struct

NULL, INT, FLOAT, BINARY, UTF8, BOOL, LIST, STRUCT, FIXED_BINARY, FIXED_LIST, LARGE_BINARY, LARGE_UTF8, LARGE_LIST = (
    1, 2, 3, 4, 5, 6, 12, 13, 15, 16, 19, 20, 21,
)  # fmt: skip
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
MAGIC = b"ARROW1"


# ---- Flatbuffers ---------------------------------------------------------------------------------------------


class Table:
    """fields: {number: bytes of a scalar, or another object}"""

    def __init__(self, fields):
        self.fields = fields


class Vector:
    """Of objects, or of scalars and structs given as bytes."""

    def __init__(self, items, align=8):
        self.items, self.align = items, align


def align(out, size, after=0):
    out += bytes(-(len(out) + after) % size)


def put(out, item, places):
    """Appends an object and returns where it is; `places` are those of objects that are there already."""
    if id(item) in places:
        return places[id(item)]
    if isinstance(item, str):
        align(out, 4)
        at = len(out)
        out += struct.pack("<I", len(item.encode())) + item.encode() + b"\0"
        return at
    if isinstance(item, Vector):
        return put_vector(out, item, places)
    return put_table(out, item, places)


def put_vector(out, vector, places):
    objects = bool(vector.items) and not isinstance(vector.items[0], bytes)
    align(out, vector.align, 4)
    at = places[id(vector)] = len(out)
    out += struct.pack("<I", len(vector.items))
    slots = len(out)
    out += bytes(4 * len(vector.items)) if objects else b"".join(vector.items)
    for number, item in enumerate(vector.items if objects else ()):
        slot = slots + 4 * number
        struct.pack_into("<I", out, slot, put(out, item, places) - slot)
    return at


def put_table(out, table, places):
    count = max(table.fields, default=-1) + 1
    offsets, size = [0] * count, 4
    for number, value in sorted(table.fields.items()):
        width = len(value) if isinstance(value, bytes) else 4
        size += -size % width
        offsets[number] = size
        size += width
    align(out, 8)
    vtable = len(out)
    out += struct.pack(f"<HH{count}H", 4 + 2 * count, size, *offsets)
    align(out, 8)
    at = places[id(table)] = len(out)
    out += struct.pack("<i", at - vtable) + bytes(size - 4)
    for number, value in table.fields.items():
        slot = at + offsets[number]
        if isinstance(value, bytes):
            out[slot : slot + len(value)] = value
        else:
            struct.pack_into("<I", out, slot, put(out, value, places) - slot)
    return at


def finish(root):
    out = bytearray(8)
    struct.pack_into("<I", out, 0, put(out, root, {}))
    align(out, 8)
    return bytes(out)


def i8(value):
    return struct.pack("<B", value)


def i16(value):
    return struct.pack("<h", value)


def i32(value):
    return struct.pack("<i", value)


def i64(value):
    return struct.pack("<q", value)


# ---- Schemas -------------------------------------------------------------------------------------------------


def field(name, kind, parameters=None, children=(), dictionary=False):
    fields = {0: name, 1: i8(1), 2: i8(kind), 3: Table(parameters or {}), 5: Vector(list(children), 4)}
    if dictionary:
        fields[4] = Table({0: i64(0), 1: integer(32).fields[3]})
    return Table(fields)


def integer(bits, signed=True, name=""):
    return field(name, INT, {0: i32(bits), 1: i8(signed)})


def floating(bits, name=""):
    return field(name, FLOAT, {0: i16({16: 0, 32: 1, 64: 2}[bits])})


def schema(fields, endianness=0):
    return Table({0: i16(endianness), 1: Vector(list(fields), 4)})


# ---- Messages ------------------------------------------------------------------------------------------------


def message(kind, header, body_bytes=0, version=4):
    return Table({0: i16(version), 1: i8(kind), 2: header, 3: i64(body_bytes)})


def framed(root, body=b"", continuation=True):
    metadata = finish(root)
    metadata += bytes(-(len(metadata) + 8) % 8)
    head = b"\xff\xff\xff\xff" if continuation else b""
    metadata += bytes(-(len(metadata) + len(head) + 4) % 8)
    return head + struct.pack("<I", len(metadata)) + metadata + body


def batch_header(rows, nodes, buffers, compression=None):
    """nodes: [(length, nulls), ...]; buffers: [(offset, length), ...]"""
    fields = {
        0: i64(rows), 1: Vector([struct.pack("<qq", *node) for node in nodes]),
        2: Vector([struct.pack("<qq", *buffer) for buffer in buffers]),
    }  # fmt: skip
    if compression is not None:
        fields[3] = Table({0: i8(compression)})
    return Table(fields)


def batch(rows, nodes, contents, **header):
    """contents: [bytes of each buffer, ...]. As a message."""
    body, buffers = b"", []
    for content in contents:
        buffers.append((len(body), len(content)))
        body += content + bytes(-len(content) % 8)
    return framed(message(BATCH, batch_header(rows, nodes, buffers, **header), len(body)), body)


END = b"\xff\xff\xff\xff" + bytes(4)


def stream(fields, batches, end=END):
    return framed(message(SCHEMA, schema(fields))) + b"".join(batches) + end


def file(fields, batches, blocks=None):
    """`blocks` replaces the offsets of the batches in the footer."""
    out = MAGIC + b"\0\0" + framed(message(SCHEMA, schema(fields)))
    found = []
    for one in batches:
        found.append(len(out))
        out += one
    items = [struct.pack("<qi4xq", at, 0, 0) for at in (found if blocks is None else blocks)]
    footer = finish(Table({0: i16(4), 1: schema(fields), 2: Vector([]), 3: Vector(items)}))
    return out + END + footer + struct.pack("<I", len(footer)) + MAGIC


# ---- Values --------------------------------------------------------------------------------------------------


def offsets(lengths, form="i", first=0):
    ends = [first]
    for length in lengths:
        ends.append(ends[-1] + length)
    return struct.pack(f"<{len(ends)}{form}", *ends)


def strings(values):
    """The three buffers of a binary column."""
    return [b"", offsets(map(len, values)), b"".join(values)]
