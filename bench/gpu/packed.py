"""gpu.tokens and gpu.ragged: windows of packed text, and samples that differ in length, against the copy limit."""

import os

from setting import MIB, mib
from measure import median, run_json
from shards import Shards
from tokens import DELIVERED_BYTES, Text, WINDOW

BATCH_BYTES = (4 * MIB, 16 * MIB)
GOAL = 5e9  # tokens per second
RAGGED = ((1000, 220000), (100, 3000))


def consume(bench, datasets, batch, batch_bytes, ring):
    """The median report of a consumer that launches no kernel, and the copy limit beside it."""
    with bench.instance(bench.loaders, datasets, index_folder=bench.folder) as instance:
        command = [bench.program("gpu_consumer"), "--socket", instance.socket, "--dataset", "data", "--device", bench.device,
                   "--shuffle", "--batch-size", str(batch), "--ring-bytes", str(ring), "--check", "none",
                   "--seconds", str(bench.seconds), "--warm-up", str(bench.warm_up)]

        def job():
            return [run_json(command, last_line=True) for _ in range(bench.rounds)]
        return bench.beside_limit(batch_bytes, ring, job)


def tokens(bench):
    text = Text(os.path.join(bench.folder, "text"), (32 if bench.simulated else 512) * MIB)
    read(text.content)
    for batch_bytes in BATCH_BYTES:
        batch = batch_bytes // ((WINDOW + 1) * DELIVERED_BYTES)
        ring = max(64 * MIB, 4 * batch_bytes)
        for io in ("uring", "mapped"):
            reports, limit, limits = consume(bench, {"data": text.dataset(io)}, batch, batch_bytes, ring)
            value = median(reports, "samples_per_second") * WINDOW
            allowed = limit * WINDOW * median(reports, "samples_per_second") / median(reports, "bytes_per_second")
            bench.records.add("gpu.tokens", value / 1e9, "G tokens/s", {"io": io, "pack": WINDOW, "batch": mib(batch_bytes)},
                              allowed / 1e9, "5 G/s or 0.9 of copy limit", value >= min(GOAL, 0.9 * allowed),
                              ring_bytes=ring, reports=reports, **limits)


def ragged(bench):
    for least, most in RAGGED:
        total = (32 if bench.simulated else 512) * MIB
        shards = Shards(os.path.join(bench.folder, f"ragged-{most}-{total}"), 2 * total // (least + most), least, most)
        for path in shards.paths:
            read(path)
        batch = min(4096, 4 * MIB // shards.mean)
        for io in ("uring", "mapped"):
            dataset = {"format": "tar", "path": shards.pattern(), "field.x": "bytes @ bin", "io": io}
            reports, limit, limits = consume(bench, {"data": dataset}, batch, batch * shards.mean, 64 * MIB)
            value = median(reports, "bytes_per_second")
            bench.records.add("gpu.ragged", value / 1e9, "GB/s", {"io": io, "bytes": f"{least}..{most}", "batch": batch},
                              limit / 1e9, ring_bytes=64 * MIB, reports=reports, **limits)


def read(path):
    buffer = bytearray(8 * MIB)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
