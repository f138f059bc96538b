"""Figures of samples that differ in size, from tar shards: delivery, and how long indexing takes."""

import os
import subprocess
import tarfile
import time

from figures import records_dataset
from instance import BenchError
from measure import alternate, median
from shards import Shards

# least and most bytes of a sample, batch size, the goal as a part of the limit
SIZES = ((1000, 220000, 64, 0.85), (100, 3000, 256, 0.8))
DATA_BYTES = 2**30
# As many bytes, in samples of one size: what is left to the difference in size.
FIXED_BYTES = 27 * 4096
FIXED_BATCH = 64
INDEX_SHARDS = 1281
INDEX_MEMBERS = 1281167
INDEX_BYTES = 110000


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
            with bench.instance({"data": {**dataset, "io": io}}, index_folder=bench.folder) as instance:
                # What batches fill of the ring: it has room for larger ones.
                ring = bench.consume(instance, "data", batch=batch, seconds=0.2)["slots"] * batch * shards.mean
                options = ["--ring", ring] + (["--mapped"] if io == "mapped" else [])
                results, limits = alternate(
                    bench.rounds,
                    lambda: bench.consume(instance, "data", batch=batch),
                    lambda: bench.limit("extent", prefix, shards.mean, *options, batch=batch))
            value, limit = median(results, "samples_per_second"), median(limits, "samples_per_second")
            bench.records.add(
                "host.ragged", value, "samples/s", {"io": io, "bytes": f"{least}..{most}", "batch": batch}, limit,
                f"{goal} of limit", value / limit >= goal, gigabytes_per_second=value * shards.mean / 1e9,
                rounds=[round(result["samples_per_second"]) for result in results],
                limit_rounds=[round(result["samples_per_second"]) for result in limits],
                cpu_ns_per_sample=sorted(map(cpu_ns, results))[len(results) // 2],
                limit_cpu_ns_per_sample=sorted(map(limit_cpu_ns, limits))[len(limits) // 2],
                limit_cpu_seconds=median(limits, "cpu_seconds"), ring_bytes=ring,
                limit_plain_buffers=limits[0]["plain_buffers"])
    fixed(bench, data_bytes)


def fixed(bench, data_bytes):
    """The same without raggedness: batches of as many bytes, of records, compared with the limits of host.delivered."""
    path = bench.data("fixed", data_bytes // FIXED_BYTES * FIXED_BYTES)
    bench.warm(path)
    for io, limit_name in (("uring", "uring"), ("mapped", "copy")):
        with bench.instance({"data": records_dataset(path, FIXED_BYTES, io=io)}) as instance:
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


def write_headers(folder, shards, members):
    """Archives of which only the headers take room: members of INDEX_BYTES each, all of them holes."""
    done = 0
    os.makedirs(folder, exist_ok=True)
    for shard in range(shards):
        end = members * (shard + 1) // shards
        with open(os.path.join(folder, f"s-{shard:06d}.tar"), "wb") as file:
            for sample in range(done, end):
                member = tarfile.TarInfo(f"{sample:08d}.jpg")
                member.size = INDEX_BYTES
                file.write(member.tobuf(tarfile.USTAR_FORMAT))
                file.seek(-(-INDEX_BYTES // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE, os.SEEK_CUR)
            file.truncate(file.tell() + 2 * tarfile.BLOCKSIZE)
        done = end


def check(bench, config):
    """Seconds that `feedd --check` takes, and what it prints."""
    start = time.monotonic()
    done = subprocess.run([os.path.join(bench.build, "feedd"), "--config", config, "--check"], capture_output=True,
                          text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise BenchError(f"feedd --check: {done.stderr.strip()}")
    return {"seconds": time.monotonic() - start, "text": done.stdout}


def index(bench):
    """Indexing archives whose headers are in the page cache, and opening the index that was kept."""
    quick = bench.rounds < 5
    shards, members = (128, 128000) if quick else (INDEX_SHARDS, INDEX_MEMBERS)
    folder = os.path.join(bench.folder, f"headers-{members}")
    kept = os.path.join(folder, "kept")
    if not os.path.isdir(kept):
        write_headers(folder, shards, members)
        os.makedirs(kept, exist_ok=True)
    config = os.path.join(folder, "feedd.conf")
    with open(config, "w", encoding="utf-8") as file:
        file.write(f"[feedd]\nsocket = {folder}/s\nindex_folder = {kept}\n[dataset data]\nformat = tar\n"
                   f"path = {folder}/s-*.tar\nfield.x = bytes @ jpg\n")

    def make():
        for name in os.listdir(kept):
            os.unlink(os.path.join(kept, name))
        return check(bench, config)

    make()  # reads the headers into the page cache
    made, opened = alternate(bench.rounds, make, lambda: check(bench, config))
    if f"{members} samples" not in opened[0]["text"].replace(",", ""):
        raise BenchError(f"feedd --check found something else than {members} samples: {opened[0]['text']}")
    for what, results, goal in (("make", made, 3), ("open", opened, 0.05)):
        value = median(results, "seconds")
        bench.records.add("host.index", value, "s", {"do": what, "members": members, "shards": shards}, None,
                          None if quick else f"{goal} s", None if quick else value <= goal,
                          rounds=[round(result["seconds"], 3) for result in results])
    value = sum(os.path.getsize(os.path.join(kept, name)) for name in os.listdir(kept)) / members
    bench.records.add("host.index", value, "B", {"do": "size", "of": "sample", "fields": 1}, None, "24 B", value <= 24)


FIGURES = {"host.ragged": ragged, "host.index": index}
