"""Parts of inputs: what the functions of fuzz.h take apart."""

import struct


def number(value):
    """fuzz_number: 6 bits, or 3, 6 or 9 more bytes."""
    for tag, more in enumerate((0, 3, 6, 9)):
        if value < 1 << (6 + 8 * more):
            whole = value.to_bytes(more + 1, "big")
            return bytes([tag << 6 | whole[0]]) + whole[1:]
    raise ValueError(value)


def u16(value):
    return struct.pack("<H", value)


def patch(page, offset, data):
    """fuzz_patch: a word of one of the target's pages."""
    return bytes([page, offset // 4, len(data)]) + data


def patch_at(offset, data):
    """fuzz_patch: any place."""
    return b"\xff" + number(offset) + bytes([len(data)]) + data
