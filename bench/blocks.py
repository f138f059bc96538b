"""Figures of compressed Arrow and Parquet files, which loaders decode, beside PyArrow's own scan in as many threads."""

import os
import statistics
import subprocess

from figures import cpu_ns, rounded
from instance import BenchError
from measure import alternate, median, run_json

FILES = 4
BATCH = 256
# As loaders and PyArrow decode the same; the data stays in the page cache, but not in loaders.
KINDS = (("arrow", "none"), ("arrow", "lz4"), ("arrow", "zstd"), ("parquet", "snappy"), ("parquet", "zstd"))
BLOCK_MEMORY = "16M"
WINDOW = 4  # row groups, for the order that shuffles within a window of them
GOAL = 0.85


def pyarrow(bench, *arguments):
    python = os.path.join(bench.build, "venv", "bin", "python")
    return [python, os.path.join(os.path.dirname(os.path.abspath(__file__)), "scan_pyarrow.py"), *map(str, arguments)]


def make(bench, kind, codec):
    """The paths of files that hold the same rows in every format."""
    paths = [os.path.join(bench.folder, f"blocks-{kind}-{codec}-{number}.{kind}") for number in range(FILES)]
    if not all(map(os.path.exists, paths)):
        os.makedirs(bench.folder, exist_ok=True)
        subprocess.run(pyarrow(bench, "write", kind, codec, 1, *paths), check=True)
    for path in paths:
        bench.warm(path)
    return paths


def consume(bench, instance, dataset, shuffle, seconds=None):
    command = bench.consumer_command(instance, dataset, "--seconds", seconds or bench.seconds, "--warm-up", 0.3, batch=BATCH)
    before = instance.cpu_seconds()
    report = run_json([argument for argument in command if shuffle or argument != "--shuffle"])
    return {**report, "feedd_cpu_seconds": instance.cpu_seconds() - before}


def blocks(bench):
    """Rows of 100 to 1,000 tokens: in the order of the files, in windows of row groups, and in random order."""
    if not os.path.exists(pyarrow(bench)[0]):
        raise BenchError("PyArrow is not installed: make python-torch")
    for kind, codec in KINDS:
        paths = make(bench, kind, codec)
        dataset = {"format": kind, "path": os.path.join(bench.folder, f"blocks-{kind}-{codec}-*.{kind}"),
                   "field.tokens": "i32[]"}
        if codec != "none":
            dataset["block_memory"] = BLOCK_MEMORY
        datasets = {"data": dataset, "windows": {**dataset, "shuffle_window": WINDOW}}
        with bench.instance(datasets, index_folder=bench.folder) as instance:
            for name in datasets:  # so that no index is being made while something is measured
                consume(bench, instance, name, False, seconds=0.1)
            *orders, scans = alternate(
                bench.rounds,
                lambda: consume(bench, instance, "data", False),
                lambda: consume(bench, instance, "windows", True),
                lambda: consume(bench, instance, "data", True),
                lambda: run_json(pyarrow(bench, "scan", kind, codec, bench.cores, *paths)))
        limit = median(scans, "samples_per_second")
        for order, results in zip(("files", f"window of {WINDOW}", "random"), orders):
            value = median(results, "samples_per_second")
            goal = order == "files"
            bench.records.add("host.blocks", value, "samples/s", {"format": kind, "codec": codec, "order": order}, limit,
                              f"{GOAL} of PyArrow" if goal else None, value / limit >= GOAL if goal else None,
                              rounds=rounded(results, "samples_per_second"),
                              limit_rounds=rounded(scans, "samples_per_second"),
                              cpu_ns_per_sample=statistics.median(map(cpu_ns, results)),
                              limit_cpu_ns_per_sample=statistics.median(map(cpu_ns, scans)))


FIGURES = {"host.blocks": blocks}
