"""What PyArrow makes of Arrow and Parquet files: writes those of the benchmark, and reads them in threads of its own program.
Prints JSON. `make python-torch` installs PyArrow for it."""

import concurrent.futures
import json
import os
import sys
import time

import numpy
import pyarrow
from pyarrow import ipc, parquet

ROWS = 20000
ROW_GROUP = 1000  # rows of a record batch or row group
TOKENS = (100, 1000)  # of a row


def table(seed):
    """Rows of tokens, small numbers being as frequent as in text, so that codecs have something to do."""
    numbers = numpy.random.default_rng(seed)
    lengths = numbers.integers(*TOKENS, ROWS)
    offsets = numpy.concatenate(([0], numpy.cumsum(lengths))).astype(numpy.int32)
    tokens = (numbers.zipf(1.3, offsets[-1]) % 50000).astype(numpy.int32)
    return pyarrow.table({"tokens": pyarrow.ListArray.from_arrays(pyarrow.array(offsets), pyarrow.array(tokens))})


def write(path, kind, codec, seed):
    if kind == "parquet":
        parquet.write_table(table(seed), path, compression=codec, row_group_size=ROW_GROUP, use_dictionary=False)
        return
    options = ipc.IpcWriteOptions(compression=None if codec == "none" else codec)
    rows = table(seed)
    with ipc.new_file(path, rows.schema, options=options) as writer:
        writer.write_table(rows, max_chunksize=ROW_GROUP)


def scan(path, kind, codec):
    """All rows, batch by batch. What is not compressed is copied, since get_batch only maps it."""
    rows = total = 0
    if kind == "parquet":
        batches = parquet.ParquetFile(path, memory_map=True).iter_batches(ROW_GROUP, use_threads=False)
    else:
        file = ipc.open_file(pyarrow.memory_map(path))
        batches = (file.get_batch(number) for number in range(file.num_record_batches))
    for batch in batches:
        rows += len(batch)
        if codec == "none":
            total += batch.column(0).flatten().to_numpy(zero_copy_only=True).copy().nbytes
    return rows, total


def main():
    do, kind, codec, threads, *paths = sys.argv[1:]
    if do == "write":
        for seed, path in enumerate(paths):
            write(f"{path}.new", kind, codec, seed)
            os.rename(f"{path}.new", path)
        return
    pyarrow.set_cpu_count(1)
    with concurrent.futures.ThreadPoolExecutor(int(threads)) as crew:
        begin, used = time.monotonic(), time.process_time()
        rows = sum(done[0] for done in crew.map(lambda path: scan(path, kind, codec), paths))
        seconds, used = time.monotonic() - begin, time.process_time() - used
    print(json.dumps({"samples": rows, "seconds": seconds, "samples_per_second": rows / seconds, "cpu_seconds": used}))


if __name__ == "__main__":
    main()
