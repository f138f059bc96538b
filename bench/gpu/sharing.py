"""gpu.sharing and gpu.two: one feed for many, and two GPUs."""

from instance import BenchError
from measure import finish, start
from setting import MIB, mib

BATCH = 4 * MIB


def copied_bytes(bench, instance):
    return sum(gpu["gpu_counters"]["copied_bytes"] for gpu in bench.stats(instance)["gpus"])


def sharing(bench):
    """1, 2 and 4 consumers on one GPU share a feed: they get more together, and the bus carries each byte once."""
    loaders, ring = bench.setting_of("mapped", 4096, BATCH)
    alone = previous = None
    for count in (1, 2, 4):
        with bench.instance(loaders) as instance:
            watchers = [bench.watch(instance, "mapped", 4096, BATCH, "--share", "many", "--wait-for", count, ring=ring,
                                    snapshot=(lambda: None) if i else lambda: copied_bytes(bench, instance))
                        for i in range(count)]
            reports = [watcher.result() for watcher in watchers]
        rate = sum(report["bytes_per_second"] for report in reports)
        alone = alone or rate
        params = {"consumers": count, "by": f"{loaders}x{mib(ring)}"}
        bench.records.add("gpu.sharing", rate / 1e9, "GB/s", params, alone / 1e9,
                          None if previous is None else "grows", None if previous is None else rate > previous,
                          reports=reports)
        previous = rate
        snapshots, report = watchers[0].snapshots, reports[0]
        bus = (snapshots["end"] - snapshots["begin"]) / report["seconds"]
        one = report["bytes"] / report["seconds"]
        bench.records.add("gpu.sharing.bus", bus / 1e9, "GB/s", params, one / 1e9, "one copy (1.1)", bus <= 1.1 * one)


# ---- Two GPUs ------------------------------------------------------------------------------------------------

def other_device(device):
    name, _, ordinal = device.partition(":")
    return f"{name}:{int(ordinal or 0) + 1}"


def has_device(bench, device):
    try:
        bench.copy_limit(MIB, 4 * MIB, 1, seconds=0.05, device=device)
    except BenchError as error:
        if "invalid device ordinal" in str(error):
            return False
        raise
    return True


def on(bench, device, instance, *options, ring):
    """A consumer on that GPU."""
    return bench.watch(instance, "mapped", 4096, BATCH, "--device", device, *options, ring=ring)


def host_limit(bench, devices, ring):
    """What host memory carries when as many threads as loaders copy from the page cache while both GPUs are copied to:
    filled and copied bytes per second."""
    path = bench.data()
    processes = [start([bench.program("gpu_copy"), "--device", device, "--bytes", str(BATCH), "--ring", str(ring),
                        "--streams", "2", "--seconds", str(bench.seconds), "--file", path, "--record", "4096",
                        "--threads", str(bench.loaders)]) for device in devices]
    reports = [finish(process) for process in processes]
    return (sum(report["filled_bytes_per_second"] for report in reports),
            sum(report["bytes_per_second"] for report in reports))


def total(watchers):
    return sum(watcher.result()["bytes_per_second"] for watcher in watchers)


def two(bench):
    """Two GPUs with a feed each, then one feed for both."""
    devices = (bench.device, other_device(bench.device))
    if not has_device(bench, devices[1]):
        print("gpu.two: left out: this machine has one GPU", flush=True)
        return
    _, ring = bench.setting_of("mapped", 4096, BATCH)
    with bench.instance(linger=0) as instance:
        single = total([on(bench, devices[0], instance, ring=ring)])
        own = total([on(bench, device, instance, "--seed", seed, ring=ring) for seed, device in enumerate(devices)])
        together = ("--share", "both", "--wait-for", 2)
        shared = total([on(bench, device, instance, *together, ring=ring) for device in devices])
        filled, copied = host_limit(bench, devices, ring)
    wanted = min(1.8 * single, filled, copied)
    params = {"by": f"{bench.loaders}x{mib(ring)}"}
    more = {"single": single / 1e9, "host_filled": filled / 1e9, "host_copied": copied / 1e9}
    bench.records.add("gpu.two", single / 1e9, "GB/s", {"feeds": "one GPU", **params})
    for feeds, value in (("one each", own), ("one shared", shared)):
        bench.records.add("gpu.two", value / 1e9, "GB/s", {"feeds": feeds, **params}, wanted / 1e9,
                          "1.8 x one GPU or host limit", value >= wanted, **more)
    bench.records.add("gpu.two", filled / 1e9, "GB/s", {"limit": "filled while copied", **params}, None)
    bench.records.add("gpu.two", copied / 1e9, "GB/s", {"limit": "copied while filled", **params}, None)
