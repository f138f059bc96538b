"""gpu.copy_limit, gpu.delivered and, from the same runs, gpu.cpu."""

from setting import BenchError, LOADERS_MOST, MIB, RING_CHOICES, WHOLE, mib

BATCHES = (MIB, 4 * MIB, 16 * MIB)
LOADER_CHOICES = (8, 10, 12, LOADERS_MOST)
SMALL_DATA = 234 * WHOLE # 47 MB: as many bytes as the 60,000 images of Fashion-MNIST
CPU_GOALS = {"uring": 0.35, "mapped": 0.2} # core-seconds per GB


def ring_choices(batch_bytes):
    """A ring has room for four batches at least."""
    return sorted({max(ring, 4 * batch_bytes) for ring in RING_CHOICES})


def copy_limit(bench):
    for batch_bytes in BATCHES:
        ring = max(32 * MIB, 4 * batch_bytes)
        for streams in (1, 2):
            value = bench.copy_limit(batch_bytes, ring, streams)
            params = {"batch": mib(batch_bytes), "streams": streams, "ring": mib(ring)}
            bench.records.add("gpu.copy_limit", value / 1e9, "GB/s", params, batch_bytes=batch_bytes, ring_bytes=ring)


class Search:
    """Short runs, to choose the number of loaders and the size of the ring by."""

    def __init__(self, bench, record, batch_bytes):
        self.bench = bench
        self.record = record
        self.batch_bytes = batch_bytes
        self.tried = []

    def look(self, instance, io, loaders, ring):
        report = self.bench.consume(instance, io, self.record, self.batch_bytes, ring=ring,
                                    seconds=self.bench.look_seconds)
        rate = report["bytes_per_second"]
        self.tried.append({"io": io, "loaders": loaders, "ring_bytes": ring, "bytes_per_second": rate})
        return rate, loaders, ring

    def choose(self, *ios):
        """The best ring of each io with all loaders, then the best number of loaders for mapped."""
        most = self.bench.loaders
        with self.bench.instance() as instance:
            best = {io: max(self.look(instance, io, most, ring) for ring in ring_choices(self.batch_bytes))
                    for io in ios}
        for loaders in LOADER_CHOICES:
            if "mapped" in ios and loaders < most:
                with self.bench.instance(loaders) as instance:
                    found = self.look(instance, "mapped", loaders, best["mapped"][2])
                best["mapped"] = max(best["mapped"], found)
        for io, (_, loaders, ring) in best.items():
            self.bench.best[io, self.record, self.batch_bytes] = (loaders, ring)


def add_cpu(bench, params, report, **more):
    gigabytes = report["bytes"] / 1e9
    by_role = {role: seconds / gigabytes for role, seconds in report["feedd_cpu"].items()}
    value = sum(by_role.values())
    goal = CPU_GOALS[params["io"]] if params["bytes"] == 4096 else None
    bench.records.add("gpu.cpu", value, "core-s/GB", params, None, goal and str(goal), value <= goal if goal else None,
                      by_role=by_role, consumer=report["cpu_seconds"] / gigabytes, **more)
    split = ", ".join(f"{role} {share:.3f}" for role, share in by_role.items())
    print(f"{'':18} of which {split}", flush=True)


def measure(search, io, goal):
    """The run that counts, between two measurements of its limit."""
    bench, record, batch_bytes = search.bench, search.record, search.batch_bytes
    loaders, ring = bench.setting_of(io, record, batch_bytes)
    size = batch_bytes // record * record
    with bench.instance(loaders) as instance:
        report, limit, limits = bench.beside_limit(
            size, ring, lambda: bench.consume(instance, io, record, batch_bytes, ring=ring))
        value = report["bytes_per_second"]
        params = {"io": io, "bytes": record, "batch": mib(batch_bytes), "by": f"{loaders}x{mib(ring)}"}
        if bench.data_bytes == SMALL_DATA:
            params["data"] = mib(SMALL_DATA)
        chosen = {"loaders": loaders, "ring_bytes": ring, "batch_bytes": size}
        bench.records.add("gpu.delivered", value / 1e9, "GB/s", params, limit / 1e9, f"{goal} of copy limit",
                          value / limit >= goal, samples_per_second=report["samples_per_second"], report=report,
                          tried=[row for row in search.tried if row["io"] == io], **chosen, **limits)
        add_cpu(bench, params, report, **chosen)


def delivered(bench):
    failures = []
    whole = bench.data_bytes
    cases = [(4096, batch_bytes, ("uring", "mapped"), 0.95, whole) for batch_bytes in BATCHES]
    cases += [(784, 4 * MIB, ("mapped",), 0.9, data_bytes) for data_bytes in (SMALL_DATA, whole)]
    for record, batch_bytes, ios, goal, bench.data_bytes in cases:
        try:
            search = Search(bench, record, batch_bytes)
            search.choose(*ios)
            for io in ios:
                measure(search, io, goal)
        except BenchError as error: # what can be measured is
            failures.append(f"{record} bytes, batch {mib(batch_bytes)}: {error}")
    bench.data_bytes = whole
    if failures:
        raise BenchError("; ".join(failures))
