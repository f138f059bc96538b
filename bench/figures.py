"""The figures: each measures feedd and its limit alternately and adds records. README.md explains them."""

import json
import os
import statistics
import subprocess
import time

from instance import BenchError, Instance
from measure import alternate, finish, median, run_json, start

GIB = 2**30
MIB = 2**20
FASHION_SAMPLES = 60000
LATENCY_US = 2000


class Bench:
    """What all figures need: the programs, the data, durations and rounds."""

    def __init__(self, build, folder, records, quick):
        self.build = os.path.abspath(build)
        self.folder = os.path.abspath(folder)
        self.records = records
        self.cores = len(os.sched_getaffinity(0))
        self.seconds = 0.6 if quick else 1.5
        self.rounds = 2 if quick else 5
        self.cached_bytes = GIB // 2 if quick else 2 * GIB
        self.direct_bytes = GIB if quick else 4 * GIB

    def program(self, name):
        return os.path.join(self.build, "bench", f"bench_{name}")

    def data(self, name, size):
        """A file of pseudo-random bytes, generated once."""
        path = os.path.join(self.folder, f"{name}-{size}.bin")
        if not os.path.exists(path):
            os.makedirs(self.folder, exist_ok=True)
            subprocess.run([self.program("gen"), path, str(size)], check=True)
        return path

    def warm(self, path):
        """Reads a file once, so that the page cache holds it."""
        buffer = bytearray(8 * MIB)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass

    def cached(self, record):
        path = self.data("cached", FASHION_SAMPLES * record if record == 784 else self.cached_bytes)
        self.warm(path)
        return path

    def direct(self):
        """A file that the page cache does not hold."""
        path = self.data("direct", self.direct_bytes)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return path

    def instance(self, datasets, **settings):
        return Instance(self.build, datasets, **{"loaders": self.cores, **settings})

    def consumer_command(self, instance, dataset, *options, batch=256):
        return [self.program("consumer"), "--socket", instance.socket, "--dataset", dataset, "--batch-size",
                str(batch), "--shuffle", *(str(option) for option in options)]

    def consume(self, instance, dataset, *options, batch=256, seconds=None):
        """One consumer; its report with the CPU seconds of feedd added."""
        command = self.consumer_command(instance, dataset, *options, "--seconds", seconds or self.seconds,
                                        "--warm-up", 0.3, batch=batch)
        before = instance.cpu_seconds()
        report = run_json(command)
        report["feedd_cpu_seconds"] = instance.cpu_seconds() - before
        return report

    def limit(self, name, path, record, *options, batch=256, processes=None):
        return run_json([self.program(f"{name}_limit"), "--file", path, "--record", str(record), "--batch",
                         str(batch), "--processes", str(processes or self.cores), "--seconds", str(self.seconds),
                         *(str(option) for option in options)])


def records_dataset(path, record, field="u8", **options):
    width = {"u8": 1, "f32": 4}[field]
    return {"format": "records", "path": path, "record_bytes": record,
            "field.x": f"{field}[{record // width}] @ 0", **options}


def rounded(results, key):
    return [round(result[key]) for result in results]


def delivered(bench):
    """Delivery to another process, compared with as many bare loops that do the same reads."""
    for record in (4096, 784, 131072):
        path = bench.cached(record)
        for io, limit_name in (("uring", "uring"), ("mapped", "copy")):
            with bench.instance({"data": records_dataset(path, record, io=io)}) as instance:
                ring = bench.consume(instance, "data", seconds=0.2)["ring_bytes"]
                runs = [
                    lambda: bench.consume(instance, "data"),
                    lambda: bench.consume(instance, "data", "--touch"),
                    lambda: bench.limit(limit_name, path, record, "--ring", ring),
                ]
                if io == "mapped":
                    runs.append(lambda: bench.limit(limit_name, path, record, "--ring", ring, "--ahead"))
                plain, touching, *limits = alternate(bench.rounds, *runs)
            params = {"io": io, "bytes": record}
            add_delivered(bench, params, plain, limits[0], record == 4096)
            add_delivered(bench, {**params, "touch": True}, touching, limits[0], False)
            if io == "mapped":
                add_delivered(bench, {**params, "limit": "ahead"}, plain, limits[1], False)


def cpu_ns(result):
    """CPU time of all processes for one sample, the warm-up included: it hardly depends on what else runs."""
    if "all_samples" not in result:
        return result["cpu_seconds"] / result["samples"] * 1e9
    return (result["feedd_cpu_seconds"] + result["all_cpu_seconds"]) / result["all_samples"] * 1e9


def add_delivered(bench, params, results, limits, has_goal):
    value = median(results, "samples_per_second")
    limit = median(limits, "samples_per_second")
    bench.records.add(
        "host.delivered", value, "samples/s", params, limit, "0.85 of limit" if has_goal else None,
        value / limit >= 0.85 if has_goal else None, gigabytes_per_second=value * params["bytes"] / 1e9,
        rounds=rounded(results, "samples_per_second"), limit_rounds=rounded(limits, "samples_per_second"),
        cpu_ns_per_sample=statistics.median(map(cpu_ns, results)),
        limit_cpu_ns_per_sample=statistics.median(map(cpu_ns, limits)),
        limit_cpu_seconds=median(limits, "cpu_seconds"), ring_bytes=results[0]["ring_bytes"],
        limit_plain_buffers=limits[0].get("plain_buffers"))


def fio(path, block, depth, processes, seconds):
    report = run_json([
        "fio", "--output-format=json", "--eta=never", "--name=direct", f"--filename={path}", "--readonly",
        "--rw=randread", f"--bs={block}", "--direct=1", "--ioengine=io_uring", f"--iodepth={depth}",
        "--iodepth_batch_submit=32", "--iodepth_batch_complete_min=1", "--iodepth_batch_complete_max=256",
        f"--numjobs={processes}", "--group_reporting", "--time_based", f"--runtime={seconds}", "--ramp_time=0.3",
        "--norandommap", "--randrepeat=0", "--registerfiles", "--fixedbufs", "--gtod_reduce=1"])
    read = report["jobs"][0]["read"]
    return {"samples_per_second": read["iops"], "bytes_per_second": read["bw_bytes"]}


def direct(bench):
    """O_DIRECT from a file larger than the ring, compared with fio, and with the bare loop, which reads into shared
    memory as feedd does."""
    path = bench.direct()
    depth = 256
    for record, batch in ((4096, 256), (131072, 32)):
        dataset = records_dataset(path, record, io="uring", io_direct="yes")
        with bench.instance({"data": dataset}, queue_depth=depth) as instance:
            ring = bench.consume(instance, "data", batch=batch, seconds=0.2)["ring_bytes"]
            results, by_fio, by_loop = alternate(
                bench.rounds,
                lambda: bench.consume(instance, "data", batch=batch),
                lambda: fio(path, record, depth, bench.cores, bench.seconds),
                lambda: bench.limit("uring", path, record, "--direct", "--depth", depth, "--ring", ring, batch=batch))
        value = median(results, "bytes_per_second") / 1e6
        for against, limits in (("fio", by_fio), ("loop", by_loop)):
            limit = median(limits, "bytes_per_second") / 1e6
            goal = "0.9 of fio" if against == "fio" else None
            bench.records.add("host.direct", value, "MB/s", {"bytes": record, "batch": batch, "limit": against}, limit,
                              goal, value / limit >= 0.9 if goal else None, depth=depth, ring_bytes=ring,
                              rounds=rounded(results, "bytes_per_second"),
                              limit_rounds=rounded(limits, "bytes_per_second"))


def grants(bench):
    """Batches of one sample: how many handovers per second."""
    path = bench.cached(1024)
    with bench.instance({"data": records_dataset(path, 1024, io="mapped")}) as instance:
        results, = alternate(bench.rounds, lambda: bench.consume(instance, "data", batch=1))
    value = median(results, "batches_per_second")
    params = {"bytes": 1024, "batch": 1, "prefetch": results[0]["prefetch"]}
    bench.records.add("host.grants", value, "batches/s", params, None, "150,000", value >= 150000,
                      rounds=rounded(results, "batches_per_second"),
                      feedd_cpu_seconds=median(results, "feedd_cpu_seconds"),
                      consumer_cpu_seconds=median(results, "cpu_seconds"), slots=results[0]["slots"])


def next_us(bench):
    """From asking for a batch to having it, with a warm ring: a consumer that works 500 us between batches."""
    path = bench.cached(4096)
    pause = 500
    with bench.instance({"data": records_dataset(path, 4096, io="mapped")}) as instance:
        for prefetch in (0, 1):
            results, limits = alternate(
                max(1, bench.rounds // 2),
                lambda: bench.consume(instance, "data", "--pause-us", pause, "--prefetch", prefetch)["next_us"],
                lambda: run_json([bench.program("socket_limit"), str(bench.seconds), str(pause)])["us"])
            value = median(results, "p50")
            params = {"prefetch": prefetch or "default", "pause_us": pause}
            goal = "10 us" if prefetch == 0 else None
            bench.records.add("host.next_us", value, "us (median)", params, median(limits, "p50"), goal,
                              value <= 10 if goal else None)
            bench.records.add("host.next_us", median(results, "p99"), "us (p99)", params, median(limits, "p99"))


def attach_ms(bench):
    """From connecting to the first batch in hand."""
    path = bench.cached(4096)
    rounds = 20 if bench.rounds < 5 else 50
    with bench.instance({"data": records_dataset(path, 4096)}) as instance:
        command = [bench.program("attach"), "--socket", instance.socket, "--dataset", "data", "--shuffle",
                   "--rounds", str(rounds)]
        holder = start(bench.consumer_command(instance, "data", "--share", "running", "--pause-us", 1000,
                                              "--seconds", 60))
        try:
            time.sleep(0.5)
            running = run_json([*command, "--share", "running"])
        finally:
            holder.terminate()
            holder.communicate()
        new = run_json([*command, "--pause-us", "500000"]) # until other loaders wait for the next one
    for feed, result, goal in (("running", running, 2), ("new", new, 50)):
        first = result["first_batch_ms"]
        bench.records.add("host.attach_ms", first["p50"], "ms (median)", {"feed": feed}, None, f"{goal} ms",
                          first["p50"] <= goal, first_batch_ms=first, open_ms=result["open_ms"])


def feed_counters(bench, instance):
    """What `feedctl stats --json` says of each feed."""
    environment = {**os.environ, "FEEDD_SOCKET": instance.socket}
    done = subprocess.run([os.path.join(bench.build, "feedctl"), "stats", "--once", "--json"], capture_output=True,
                          text=True, env=environment, check=True, timeout=10)
    return json.loads(done.stdout)["feeds"]


def sharing(bench):
    """1 to 8 consumers of one shared feed: the storage is read once."""
    path = bench.cached(4096)
    batches = 1000 if bench.rounds < 5 else 4000
    alone = None
    for count in (1, 2, 4, 8):
        with bench.instance({"data": records_dataset(path, 4096, io="mapped")}, linger=60) as instance:
            options = ("--share", "many", "--wait-for", count, "--batches", batches)
            processes = [start(bench.consumer_command(instance, "data", *options)) for _ in range(count)]
            results = [finish(process) for process in processes]
            feed, = feed_counters(bench, instance)
            cpu = instance.cpu_seconds()
        rate = sum(result["bytes_per_second"] for result in results)
        alone = alone or rate
        params = {"consumers": count, "batches": batches}
        bench.records.add("host.sharing", rate / 1e6, "MB/s", params, alone / 1e6, feedd_cpu_seconds=cpu,
                          consumer_cpu_seconds=sum(result["cpu_seconds"] for result in results))
        read = feed["loader_counters"]["bytes"]
        bench.records.add("host.sharing.read", read, "bytes", params, results[0]["bytes"], "read once (1.1)",
                          read <= 1.1 * results[0]["bytes"])


def peak_memory(bench, instance, *options, dataset="data"):
    """Peaks of the supervisor and of the largest loader, and of all together, while one consumer runs."""
    consumer = start(bench.consumer_command(instance, dataset, *options, "--seconds", 2))
    supervisor = loader = together = 0
    try:
        while consumer.poll() is None:
            first, others = instance.memory()
            supervisor = max(supervisor, first)
            loader = max(loader, *others, 0) if others else loader
            together = max(together, first + sum(others))
            time.sleep(0.05)
    finally:
        if consumer.poll() is None:
            consumer.kill()
        finish(consumer)
    if not loader:
        raise BenchError("no loader was seen while memory was measured")
    return supervisor, loader, together


def memory(bench):
    """What feedd's processes need beyond the ring, for a small dataset and for one of 2^30 samples."""
    huge = os.path.join(bench.folder, "sparse.bin")
    os.makedirs(bench.folder, exist_ok=True)
    with open(huge, "wb") as file:
        file.truncate(2**40) # a hole: no blocks
    try:
        for io in ("uring", "mapped"):
            for path, record, options in ((bench.cached(784), 784, ()), (huge, 1024, ("--pause-us", 5000))):
                with bench.instance({"data": records_dataset(path, record, io=io)}) as instance:
                    supervisor, loader, together = peak_memory(bench, instance, *options)
                samples = os.path.getsize(path) // record
                bench.records.add(
                    "host.memory", together / MIB, "MiB", {"io": io, "samples": samples}, None,
                    "loader 8, supervisor 16", loader < 8 * MIB and supervisor < 16 * MIB,
                    loader_mib=loader / MIB, supervisor_mib=supervisor / MIB, loaders=bench.cores)
    finally:
        os.unlink(huge)


def delay(bench):
    """The classic experiment: 2 ms of latency per sample, batches of 256 of 1024 floats."""
    path = bench.cached(4096)
    dataset = records_dataset(path, 4096, field="f32", io_delay_us=LATENCY_US)
    depth = 256
    for loaders in (1, 2, 4, 8):
        with bench.instance({"data": dataset}, loaders=loaders, queue_depth=depth) as instance:
            results, limits = alternate(
                max(1, bench.rounds // 2),
                lambda: bench.consume(instance, "data"),
                lambda: bench.limit("uring", path, 4096, "--delay-us", LATENCY_US, "--depth", depth,
                                    processes=loaders))
        bench.records.add("host.delay", median(results, "samples_per_second"), "samples/s",
                          {"loaders": loaders, "io_delay_us": LATENCY_US, "depth": depth},
                          median(limits, "samples_per_second"), ring_bytes=results[0]["ring_bytes"],
                          rounds=rounded(results, "samples_per_second"),
                          limit_rounds=rounded(limits, "samples_per_second"))


def made_folder(bench, name, files, size):
    """A folder of equal files, created once."""
    path = os.path.join(bench.folder, f"{name}-{files}-{size}")
    if not os.path.exists(path):
        os.makedirs(bench.folder, exist_ok=True)
        subprocess.run([bench.program("folder_gen"), path, str(files), str(size)], check=True)
    return path


def folder(bench):
    """Files of 100 KB in a folder, opened one by one, compared with bare chains of openat, read and close."""
    size = 100000
    path = made_folder(bench, "pictures", bench.cached_bytes // 2**20, size)
    for root, _, names in os.walk(path):
        for name in names:
            with open(os.path.join(root, name), "rb") as file:
                file.read()
    dataset = {"format": "folder", "path": path, "field.image": "bytes @ file", "pad.image": size, "io": "uring"}
    with bench.instance({"data": dataset}) as instance:
        ring = bench.consume(instance, "data", batch=32, seconds=0.2)["ring_bytes"]
        results, limits = alternate(
            bench.rounds, lambda: bench.consume(instance, "data", batch=32),
            lambda: bench.limit("folder", path, size, "--ring", ring, "--depth", 64, batch=32))
    value, limit = (median(runs, "samples_per_second") for runs in (results, limits))
    bench.records.add("host.folder", value, "samples/s", {"io": "uring", "bytes": size}, limit, "0.8 of limit",
                      value / limit >= 0.8, gigabytes_per_second=value * size / 1e9,
                      rounds=rounded(results, "samples_per_second"), limit_rounds=rounded(limits, "samples_per_second"),
                      cpu_ns_per_sample=statistics.median(map(cpu_ns, results)),
                      limit_cpu_ns_per_sample=statistics.median(map(cpu_ns, limits)), ring_bytes=ring)


FIGURES = {
    "host.delivered": delivered,
    "host.direct": direct,
    "host.grants": grants,
    "host.next_us": next_us,
    "host.attach_ms": attach_ms,
    "host.sharing": sharing,
    "host.memory": memory,
    "host.delay": delay,
    "host.folder": folder,
}
