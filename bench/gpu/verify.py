"""Every sample of whole epochs on a GPU, by a hash that is computed there, against the files, hashed with NumPy."""

import os

from instance import BenchError
from measure import run_json
from setting import MIB, WHOLE

FIRST = 0x9E3779B97F4A7C15
STEP = 0xD1342543DE82EF95
FACTOR = 0xBF58476D1CE4E5B9
ROWS_AT_ONCE = 4096
EPOCHS = 2
# Name: bytes of a record, fields as (offset, bytes), bytes of a batch.
CASES = {
    "4096": (4096, [(0, 4096)], 4 * MIB),
    "784": (784, [(0, 784)], MIB),
    "3074": (3074, [(1, 1), (2, 3072)], MIB),
    "odd": (1003, [(0, 3), (3, 1000)], 100000),
}


def field_hashes(numpy, records, offset, size):
    """One hash a row: the sum over its words, the last one filled up with zeros, of a mix of word and place."""
    words = -(-size // 8)
    places = (numpy.arange(1, words + 1, dtype=numpy.uint64) * numpy.uint64(STEP))
    hashes = numpy.empty(len(records), dtype=numpy.uint64)
    for first in range(0, len(records), ROWS_AT_ONCE):
        rows = records[first:first + ROWS_AT_ONCE, offset:offset + size]
        padded = numpy.zeros((len(rows), words * 8), dtype=numpy.uint8)
        padded[:, :size] = rows
        mixed = (padded.view("<u8") ^ places) * numpy.uint64(FACTOR)
        mixed = (mixed ^ (mixed >> numpy.uint64(31))) * numpy.uint64(FIRST)
        hashes[first:first + ROWS_AT_ONCE] = mixed.sum(axis=1, dtype=numpy.uint64)
    return hashes


def compare(numpy, rows, wanted, what):
    """`rows`: epoch, sample, a hash a field. `wanted`: an array of hashes a field."""
    samples = len(wanted[0])
    if len(rows) != EPOCHS * samples:
        raise BenchError(f"{what}: {len(rows)} samples came, wanted {EPOCHS} epochs of {samples}")
    for epoch in range(EPOCHS):
        of_epoch = rows[rows[:, 0] == epoch]
        times = numpy.bincount(of_epoch[:, 1].astype(numpy.int64), minlength=samples)
        if len(times) != samples or (times != 1).any():
            raise BenchError(f"{what}: epoch {epoch} has not every sample once")
    for field, hashes in enumerate(wanted):
        wrong = (rows[:, 2 + field] != hashes[rows[:, 1].astype(numpy.int64)]).sum()
        if wrong:
            raise BenchError(f"{what}: field {field} of {wrong} of {len(rows)} samples is not what the file holds")


def verify(bench):
    """Prints a line per case; raises BenchError at the first that is wrong."""
    import numpy # nothing else here needs it

    size = WHOLE * (20 if bench.quick else 300)
    for name, (record, fields, batch_bytes) in CASES.items():
        path = bench.data(size // record * record)
        records = numpy.memmap(path, dtype=numpy.uint8, mode="r").reshape(-1, record)
        wanted = [field_hashes(numpy, records, *field) for field in fields]
        layout = {f"field.f{i}": f"u8[{length}] @ {offset}" for i, (offset, length) in enumerate(fields)}
        dataset = {"format": "records", "path": path, "record_bytes": record, **layout}
        for io in ("uring", "mapped"):
            with bench.instance(datasets={f"{io}-{record}": {**dataset, "io": io}}) as instance:
                output = os.path.join(instance.directory, "hashes")
                options = bench.feed_options(instance, io, record, batch_bytes)
                run_json([bench.program("gpu_verify"), *options, "--epochs", str(EPOCHS), "--output", output])
                rows = numpy.fromfile(output, dtype="<u8").reshape(-1, 2 + len(fields))
            compare(numpy, rows, wanted, f"{name} {io}")
            print(f"verified: {name} io={io}: {len(rows)} samples, {len(fields)} fields, {EPOCHS} epochs", flush=True)
