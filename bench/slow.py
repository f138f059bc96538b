"""A figure of storage that is slow for a few samples."""

import os

from figures import records_dataset, rounded
from measure import alternate, median

USUAL_US = 1000
ONE_IN, TIMES = 100, 100  # of slow_reads.c
MEAN_US = (USUAL_US * (ONE_IN - 1) + USUAL_US * TIMES) // ONE_IN


def slow(bench):
    """One sample in 100 takes 100 times as long, in order, compared with loops in which each takes the mean."""
    path = bench.cached(4096)
    depth, batch = 32, 64
    dataset = records_dataset(path, 4096, field="f32", io="uring", io_delay_us=USUAL_US)
    preload = os.path.join(bench.build, "bench", "slow_reads.so")
    with bench.instance({"data": dataset}, preload=preload, queue_depth=depth) as instance:
        results, limits = alternate(
            bench.rounds,
            lambda: bench.consume(instance, "data", batch=batch),
            lambda: bench.limit("uring", path, 4096, "--delay-us", MEAN_US, "--depth", depth, batch=batch))
    value, limit = (median(runs, "samples_per_second") for runs in (results, limits))
    allowed = bench.cores * depth * 1e6 / MEAN_US
    bench.records.add("host.slow", value, "samples/s", {"io_delay_us": USUAL_US, "depth": depth, "batch": batch}, limit,
                      "0.9 of limit", value / limit >= 0.9, mean_allows=allowed, ring_bytes=results[0]["ring_bytes"],
                      rounds=rounded(results, "samples_per_second"), limit_rounds=rounded(limits, "samples_per_second"))


FIGURES = {"host.slow": slow}
