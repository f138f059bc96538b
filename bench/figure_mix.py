"""Mixes: what a feed over many sources takes until its first batch, and how much memory."""

import os
import random
import struct

from figures import MIB, peak_memory, records_dataset
from measure import run_json

SOURCES = 100
DOCUMENTS = 20000


def documents(bench):
    """Documents of 0 to 4,095 bytes in a file of records, whose offsets say where each begins."""
    dice, at = random.Random(1), [0]
    for _ in range(DOCUMENTS):
        at.append(at[-1] + dice.randrange(4096))
    path = bench.data("documents", at[-1])
    bench.warm(path)
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(at)},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    offsets = os.path.join(bench.folder, "documents.npy")
    with open(offsets, "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(at)}q", *at))
    return {"format": "records", "path": path, "offsets": offsets, "field.x": "u8"}


def mix(bench):
    """A mix of 100 sources: from connecting to the first batch of a new feed, and the memory that all processes need."""
    views = {f"view v{number}": {"of": "data", "samples": f"{number}%..{number + 1}%"} for number in range(SOURCES)}
    fixed, ragged = records_dataset(bench.cached(4096), 4096), documents(bench)
    for digits, samples in ((2, "fixed"), (6, "fixed"), (6, "ragged")):
        weights = [10 ** (digits - 1) + number * 7919 % (9 * 10 ** (digits - 1)) for number in range(SOURCES)]
        sources = {f"source.v{number}": weight for number, weight in enumerate(weights)}
        mixed = {"data": fixed if samples == "fixed" else ragged, **views, "mix both": {**sources, "epoch_samples": 1000000}}
        with bench.instance(mixed) as instance:
            command = [bench.program("attach"), "--socket", instance.socket, "--dataset", "both", "--shuffle"]
            first = run_json([*command, "--rounds", "20", "--pause-us", "100000"])["first_batch_ms"]
            _, _, together = peak_memory(bench, instance, dataset="both")
            rate = bench.consume(instance, "both")["samples_per_second"]
        params = {"sources": SOURCES, "digits": digits, "samples": samples}
        bench.records.add("host.mix.attach_ms", first["p50"], "ms (median)", params, None, "50 ms", first["p50"] <= 50,
                          p99=first["p99"], max=first["max"], samples_per_second=rate)
        bench.records.add("host.mix.memory", together / MIB, "MiB", params, None, "64 MiB", together <= 64 * MIB,
                          loaders=bench.cores)
