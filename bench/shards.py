"""Tar shards for benchmarks, written with Python's tarfile, and the list of what lies where in them."""

import array
import os
import random
import tarfile

CONTENT_BYTES = 16 * 2**20
SHARD_BYTES = 64 * 2**20


class Shards:
    """`count` members of `least` to `most` bytes (any size is as likely as any other), one per sample, in shards of
    64 MiB: PREFIX-000000.tar and so on. PREFIX.extents: file, offset and bytes of each, as three u64."""

    def __init__(self, prefix, count, least, most):
        self.prefix = prefix
        self.samples = count
        self.extents = f"{prefix}.extents"
        if not os.path.exists(self.extents):
            os.makedirs(os.path.dirname(prefix), exist_ok=True)
            self._write(least, most)
        table = array.array("Q")
        with open(self.extents, "rb") as file:
            table.frombytes(file.read())
        if len(table) != 3 * count:
            raise ValueError(f"{self.extents} is damaged; remove it")
        self.paths = [f"{prefix}-{number:06d}.tar" for number in range(table[-3] + 1)]
        self.bytes = sum(table[2::3])
        self.mean = round(self.bytes / count)

    def _write(self, least, most):
        numbers = random.Random(1)
        content = numbers.randbytes(CONTENT_BYTES)
        table = array.array("Q")
        shard, number = None, -1
        for sample in range(self.samples):
            if shard is None or shard.tell() >= SHARD_BYTES:
                number += 1
                self._end(shard)
                shard = open(f"{self.prefix}-{number:06d}.tar", "wb")
            member = tarfile.TarInfo(f"{sample:09d}.bin")
            member.size = numbers.randint(least, most)
            shard.write(member.tobuf(tarfile.USTAR_FORMAT))
            table.extend((number, shard.tell(), member.size))
            start = numbers.randrange(CONTENT_BYTES - member.size)
            shard.write(content[start:start + member.size])
            shard.write(bytes(-member.size % tarfile.BLOCKSIZE))
        self._end(shard)
        with open(f"{self.extents}.new", "wb") as file:
            file.write(table.tobytes())
        os.rename(f"{self.extents}.new", self.extents)

    @staticmethod
    def _end(shard):
        if shard:
            shard.write(bytes(2 * tarfile.BLOCKSIZE))
            shard.close()

    def pattern(self):
        return f"{self.prefix}-*.tar"
