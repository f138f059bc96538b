"""Packed text in Megatron's files, and how fast its windows reach a consumer."""

import array
import os
import random
import struct

from figures import rounded
from measure import alternate, median

WINDOW = 2048  # tokens, and one more that is a label
BATCH = 32
TOKEN_BYTES = 2
DELIVERED_BYTES = TOKEN_BYTES + 4 + 4  # of a token, about: itself, its position, its document


class Text:
    """PREFIX.idx and PREFIX.bin: documents of 1 to 2,000 tokens of two bytes."""

    def __init__(self, prefix, total_bytes):
        self.path = f"{prefix}-{total_bytes}.idx"
        self.content = f"{prefix}-{total_bytes}.bin"
        if not os.path.exists(self.path):
            os.makedirs(os.path.dirname(prefix), exist_ok=True)
            self._write(total_bytes // TOKEN_BYTES)

    def _write(self, tokens):
        numbers = random.Random(1)
        lengths, offsets, at = array.array("i"), array.array("q"), 0
        while at < tokens:
            length = min(numbers.randint(1, 2000), tokens - at)
            lengths.append(length)
            offsets.append(at * TOKEN_BYTES)
            at += length
        block = numbers.randbytes(2**20)
        with open(self.content, "wb") as file:
            for done in range(0, tokens * TOKEN_BYTES, len(block)):
                file.write(block[:tokens * TOKEN_BYTES - done])
        documents = array.array("q", range(len(lengths) + 1))
        with open(f"{self.path}.new", "wb") as file:
            file.write(struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, len(lengths), len(documents)))
            file.write(lengths.tobytes() + offsets.tobytes() + documents.tobytes())
        os.rename(f"{self.path}.new", self.path)

    def dataset(self, io):
        return {"format": "megatron", "path": self.path, "pack": WINDOW, "io": io}


def tokens(bench):
    """Windows of packed documents, compared with loops that copy as many bytes as are delivered."""
    text = Text(os.path.join(bench.folder, "text"), bench.cached_bytes // 4)
    bench.warm(text.content)
    for io in ("uring", "mapped"):
        with bench.instance({"data": text.dataset(io)}, index_folder=bench.folder) as instance:
            look = bench.consume(instance, "data", batch=BATCH, seconds=0.2)
            record, ring = look["bytes"] // look["samples"], look["slots"] * look["bytes"] // look["batches"]
            path = bench.cached(record)
            results, limits = alternate(
                bench.rounds,
                lambda: bench.consume(instance, "data", batch=BATCH),
                lambda: bench.limit("copy", path, record, "--ring", ring, batch=BATCH))
        value, limit = (median(runs, "samples_per_second") * WINDOW / 1e6 for runs in (results, limits))
        bench.records.add("host.tokens", value, "M tokens/s", {"io": io, "pack": WINDOW, "batch": BATCH}, limit,
                          gigabytes_per_second=value * record / WINDOW / 1e3, ring_bytes=ring,
                          rounds=rounded(results, "samples_per_second"), limit_rounds=rounded(limits, "samples_per_second"))


FIGURES = {"host.tokens": tokens}
