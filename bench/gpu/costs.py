"""gpu.next_us, gpu.attach_ms and gpu.memory: the other costs of a feed on a GPU."""

import time

from instance import BenchError, own_memory
from measure import median, run_json
from setting import MIB, mib, role_of

RINGS = (256 * MIB, 512 * MIB, 1024 * MIB)
GROWTH = 0.05 # beyond the ring, relative to it: page tables alone are 0.002 per process that maps it


def next_us(bench):
    """The calls of a consumer that pauses between batches, so that one is ready."""
    pause = 500
    loaders, _ = bench.setting_of("mapped", 4096, MIB)
    with bench.instance(loaders) as instance:
        report = bench.consume(instance, "mapped", 4096, MIB, "--pause-us", pause)
    for call in ("next", "wait", "release", "launch"):
        name = "kernel_launch" if call == "launch" else f"feed_{'' if call == 'next' else 'batch_'}{call}"
        times = report[f"{call}_us"]
        params = {"call": name, "pause_us": pause}
        bench.records.add("gpu.next_us", times["p50"], "us (median)", params, p99=times["p99"], max=times["max"])
        bench.records.add("gpu.next_us", times["p99"], "us (p99)", params)


def attach(bench, instance, *options):
    return run_json([bench.program("gpu_attach"), *bench.feed_options(instance, "mapped", 4096, MIB), *options])


def attach_ms(bench):
    """feed_open by processes that use CUDA already: of a feed with a warm pool, and the one that has the transfer
    process started."""
    with bench.instance(linger=60) as instance:
        holder = bench.watch(instance, "mapped", 4096, MIB, "--share", "warm", "--pause-us", 2000, seconds=100)
        try:
            attach(bench, instance, "--share", "warm")
            warm = [attach(bench, instance, "--share", "warm") for _ in range(bench.repeats)]
        finally:
            holder.stop()
    cold = []
    for _ in range(bench.repeats):
        with bench.instance() as instance:
            cold.append(attach(bench, instance))
    for pool, results, goal in (("warm", warm, 5), ("none: starts a transfer process", cold, None)):
        value = median(results, "open_ms")
        bench.records.add("gpu.attach_ms", value, "ms (median)", {"pool": pool}, None, goal and f"{goal} ms",
                          value <= goal if goal else None, rounds=[result["open_ms"] for result in results],
                          first_batch_ms=median(results, "first_batch_ms"))


def shared_memory():
    """Bytes of shared memory in use on the whole machine."""
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("Shmem:"):
                return int(line.split()[1]) * 1024
    raise BenchError("/proc/meminfo has no Shmem")


def page_tables(pid):
    """Bytes of a process's page tables, which own_memory has among the rest."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("VmPTE:"))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def peak_memory(bench, instance, io, ring):
    """Peaks, while one consumer runs, of shared memory, and of what feedd's processes have for themselves: together,
    by role, and their page tables."""
    before = shared_memory()
    foreign = ("/dev/shm/", "/memfd:", "/SYSV", instance.directory, *instance.data_files)
    consumer = bench.watch(instance, io, 4096, 4 * MIB, ring=ring)
    peaks = {}
    while consumer.is_alive():
        now = {"shared": shared_memory() - before, "own": 0, "page_tables": 0}
        for pid in instance.pids():
            role, own = role_of(pid), own_memory(pid, foreign)
            now[role] = now.get(role, 0) + own
            now["own"] += own
            now["page_tables"] += page_tables(pid)
        peaks = {key: max(size, peaks.get(key, 0)) for key, size in {**peaks, **now}.items()}
        time.sleep(0.1)
    consumer.result()
    return peaks


def host_memory(bench):
    """Peaks with rings of several sizes: what exceeds the ring should be the same for each."""
    beyond = []
    for ring in RINGS:
        with bench.instance() as instance:
            peaks = peak_memory(bench, instance, "mapped", ring)
        peak = peaks["shared"] + peaks["own"]
        beyond.append((peak - ring) / MIB)
        parts = {name: size / MIB for name, size in peaks.items()}
        params = {"io": "mapped", "ring": mib(ring), "beyond": f"{beyond[-1]:.1f}M"}
        bench.records.add("gpu.memory", peak / MIB, "MiB (host)", params, ring / MIB, beyond_mib=beyond[-1],
                          peaks_mib=parts, loaders=bench.loaders)
        split = ", ".join(f"{name} {part:.1f}" for name, part in parts.items())
        print(f"{'':18} peaks: {split}", flush=True)
    grown, ring = max(beyond) - min(beyond), (RINGS[-1] - RINGS[0]) / MIB
    params = {"io": "mapped", "beyond_grows": f"{mib(RINGS[0])}..{mib(RINGS[-1])}"}
    bench.records.add("gpu.memory", grown, "MiB (host)", params, ring, f"{GROWTH} of ring", grown <= GROWTH * ring,
                      loaders=bench.loaders)


def memory(bench):
    """Host memory of a feed compared with its ring, and GPU memory of a transfer process besides its pools."""
    host_memory(bench)
    with bench.instance(linger=60) as instance:
        report = attach(bench, instance)
        gpu, = bench.stats(instance)["gpus"]
    params = {"of": "transfer process without pools"}
    bench.records.add("gpu.memory", report["taken_bytes"] / MIB, "MiB (GPU)", params,
                      pool_mib=report["pool_bytes"] / MIB, context_bytes_in_statistics=gpu.get("context_bytes"))
