"""Figures of samples that differ in size, from tar shards."""

import os

from figures import records_dataset
from measure import alternate, median
from shards import Shards

# least and most bytes of a sample, batch size, the goal as a part of the limit
SIZES = ((1000, 220000, 64, 0.85), (100, 3000, 256, 0.8))
DATA_BYTES = 2**30
# As many bytes, in samples of one size: what is left to the difference in size.
FIXED_BYTES = 27 * 4096
FIXED_BATCH = 64


def loaders(bench):
    """On many cores, one is left to the supervisor and the consumer (README.md: 15 loaders on 16 cores deliver more)."""
    return bench.cores - 1 if bench.cores > 4 else bench.cores


def cpu_ns(result):
    return (result["feedd_cpu_seconds"] + result["all_cpu_seconds"]) / result["all_samples"] * 1e9


def limit_cpu_ns(result):
    return result["cpu_seconds"] / result["samples"] * 1e9


def ragged(bench):
    """Delivery of samples that differ in size, compared with bare loops that read the same extents."""
    data_bytes = DATA_BYTES // 4 if bench.rounds < 5 else DATA_BYTES
    for least, most, batch, goal in SIZES:
        mean = (least + most) // 2
        prefix = os.path.join(bench.folder, f"ragged-{mean}-{data_bytes}")
        shards = Shards(prefix, data_bytes // mean, least, most)
        for path in shards.paths:
            bench.warm(path)
        dataset = {"format": "tar", "path": shards.pattern(), "field.x": "bytes @ bin"}
        for io in ("uring", "mapped"):
            with bench.instance({"data": {**dataset, "io": io}}, index_folder=bench.folder, loaders=loaders(bench)) as instance:
                # What batches fill of the ring: it has room for larger ones.
                ring = bench.consume(instance, "data", batch=batch, seconds=0.2)["slots"] * batch * shards.mean
                options = ["--ring", ring] + (["--mapped"] if io == "mapped" else [])
                results, limits, turns_limits = alternate(
                    bench.rounds,
                    lambda: bench.consume(instance, "data", batch=batch),
                    lambda: bench.limit("extent", prefix, shards.mean, *options, batch=batch),
                    lambda: bench.limit("extent", prefix, shards.mean, *options, "--turns", batch=batch))
            value, limit = median(results, "samples_per_second"), median(limits, "samples_per_second")
            turns_limit = median(turns_limits, "samples_per_second")
            bench.records.add(
                "host.ragged", value, "samples/s", {"io": io, "bytes": f"{least}..{most}", "batch": batch}, limit,
                f"{goal} of limit", value / limit >= goal, gigabytes_per_second=value * shards.mean / 1e9,
                turns_limit=turns_limit,
                rounds=[round(result["samples_per_second"]) for result in results],
                limit_rounds=[round(result["samples_per_second"]) for result in limits],
                cpu_ns_per_sample=sorted(map(cpu_ns, results))[len(results) // 2],
                limit_cpu_ns_per_sample=sorted(map(limit_cpu_ns, limits))[len(limits) // 2],
                limit_cpu_seconds=median(limits, "cpu_seconds"), ring_bytes=ring,
                limit_plain_buffers=limits[0]["plain_buffers"])
            print(f"{'':18} of loops whose batches take turns in the whole ring: {value / turns_limit:.3f}", flush=True)
    fixed(bench, data_bytes)


def fixed(bench, data_bytes):
    """The same without raggedness: batches of as many bytes, of records, compared with the limits of host.delivered."""
    path = bench.data("fixed", data_bytes // FIXED_BYTES * FIXED_BYTES)
    bench.warm(path)
    for io, limit_name in (("uring", "uring"), ("mapped", "copy")):
        with bench.instance({"data": records_dataset(path, FIXED_BYTES, io=io)}, loaders=loaders(bench)) as instance:
            ring = bench.consume(instance, "data", batch=FIXED_BATCH, seconds=0.2)["ring_bytes"]
            results, limits = alternate(
                bench.rounds,
                lambda: bench.consume(instance, "data", batch=FIXED_BATCH),
                lambda: bench.limit(limit_name, path, FIXED_BYTES, "--ring", ring, batch=FIXED_BATCH))
        value, limit = median(results, "samples_per_second"), median(limits, "samples_per_second")
        bench.records.add(
            "host.ragged", value, "samples/s", {"io": io, "bytes": f"{FIXED_BYTES} each", "batch": FIXED_BATCH}, limit,
            gigabytes_per_second=value * FIXED_BYTES / 1e9,
            rounds=[round(result["samples_per_second"]) for result in results],
            limit_rounds=[round(result["samples_per_second"]) for result in limits],
            cpu_ns_per_sample=sorted(map(cpu_ns, results))[len(results) // 2],
            limit_cpu_ns_per_sample=sorted(map(limit_cpu_ns, limits))[len(limits) // 2], ring_bytes=ring)


FIGURES = {"host.ragged": ragged}
