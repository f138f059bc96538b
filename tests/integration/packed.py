"""Reads packed shards as docs/packed.md describes them, without feedd. Hashes are left to feedd."""

import struct

import expected

PAGE = 4096
ITEMS = {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 4, 8: 8, 9: 8, 10: 2, 11: 2, 12: 4, 13: 8, 14: 8, 15: 16}
HEADER = struct.Struct("<8sIIQIIQQQQQQII")
FIELD = struct.Struct("<32sIIII8Q")


def align(value, alignment):
    return -(-value // alignment) * alignment


class Shard:
    def __init__(self, path):
        data = path.read_bytes()
        (
            magic, version, count, self.set, self.number, last, self.first, self.end, self.samples, self.table, table_bytes,
            _, self.alignment, reserved,
        ) = HEADER.unpack_from(data)  # fmt: skip
        assert magic == b"FEEDPACK" and version == 1 and reserved == 0, path
        self.last = bool(last)
        self.fields = []
        for i in range(count):
            name, dtype, dimensions, ragged, _, *shape = FIELD.unpack_from(data, HEADER.size + i * FIELD.size)
            size = ITEMS[dtype]
            for extent in shape[:dimensions]:
                size *= extent
            self.fields.append((name.rstrip(b"\0").decode(), bool(ragged), size, ITEMS[dtype]))
        assert self.table + table_bytes == len(data), path
        self.ragged = any(ragged for _, ragged, _, _ in self.fields)
        self.content = {name: [] for name, _, _, _ in self.fields}
        self._read(data)

    def _small(self, size):
        return self.ragged and size <= 16

    def _read(self, data):
        columns, at = {}, self.table
        for name, ragged, size, _ in self.fields:
            if ragged or self._small(size):
                columns[name] = at
                at += align(self.samples * (4 if ragged else size), 8)
        assert at == len(data)
        at = PAGE
        for i in range(self.samples):
            for name, ragged, size, _ in self.fields:
                begin = at
                if ragged:
                    (size,) = struct.unpack_from("<I", data, columns[name] + 4 * i)
                elif self._small(size):
                    begin = columns[name] + size * i
                if name not in columns or ragged:
                    at += size
                self.content[name].append(data[begin : begin + size])
            padded = align(at, self.alignment)
            assert data[at:padded] == bytes(padded - at), "samples are filled up with zeros"
            at = padded
        assert at == self.table


def shards(folder, name):
    return [Shard(path) for path in sorted(folder.glob(f"{name}-?????.feed"))]


def content(found):
    """What a consumer must be delivered."""
    whole = {name: expected.Ragged([], item) if ragged else [] for name, ragged, _, item in found[0].fields}
    for number, shard in enumerate(found):
        assert shard.number == number and shard.set == found[0].set and shard.last == (number + 1 == len(found))
        assert shard.first == (found[number - 1].end if number else 0)
        for name, samples in shard.content.items():
            whole[name].extend(samples)
    return whole
