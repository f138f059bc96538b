"""gpu.busy and gpu.overlap: feeding while the GPU computes."""

from delivered import BATCHES
from measure import median, run_json
from setting import MIB, Watcher, mib

WAY_TEXTS = {
    "places": "without feedd: the batch is there, in another of 16 places each step",
    "words": "without feedd: a wait and a write of a word as libfeed queues them",
    "feed_nowait": "feedd, but the stream does not wait",
    "feed_on_stream": "feedd, released on the stream",
    "sequential": "without feedd: copy, then compute",
    "streams": "without feedd: two streams",
}
BUSY_STREAMS = 4


def burn_alone(bench, waves):
    command = [bench.program("gpu_consumer"), "--device", bench.device, "--busy", "--no-feed", "--seconds",
               str(bench.seconds / 2), "--warm-up", str(bench.warm_up), *(["--waves", str(waves)] if waves else [])]
    return Watcher(command, lambda: None).result()


def busy(bench):
    """Delivery and arithmetic at once, each against itself alone, in turn."""
    batch_bytes = 4 * MIB
    loaders, ring = bench.setting_of("mapped", 4096, batch_bytes)
    idle, alone, fed, unchecked = [], [], [], []
    with bench.instance(loaders, linger=60) as instance:
        waves = burn_alone(bench, 0)["waves"]

        def consume(check, *options):
            return bench.consume(instance, "mapped", 4096, batch_bytes, "--streams", BUSY_STREAMS, "--check", check,
                                 *options, ring=ring)

        for _ in range(bench.rounds):
            idle.append(consume("sums"))
            alone.append(burn_alone(bench, waves))
            fed.append(consume("sums", "--busy", "--waves", waves))
            unchecked.append(consume("none", "--busy", "--waves", waves))
    limit = median(idle, "bytes_per_second")
    for check, results in (("sums", fed), ("none", unchecked)):
        params = {"batch": mib(batch_bytes), "by": f"{loaders}x{mib(ring)}", "check": check}
        has_goal = check == "sums" # the other one shows what the check costs
        value = median(results, "bytes_per_second")
        bench.records.add("gpu.busy", value / 1e9, "GB/s", params, limit / 1e9, "0.97 of idle" if has_goal else None,
                          value / limit >= 0.97 if has_goal else None, streams=BUSY_STREAMS, rounds=results,
                          idle_rounds=idle)
        for of, key in (("median", "kernel_us"), ("mean", "kernel_mean_us")):
            slowed, alone_us = median(results, key), median(alone, key)
            bench.records.add("gpu.busy.kernels", slowed, "us", {**params, "of": of}, alone_us,
                              "1.03 of unfed" if has_goal else None, slowed / alone_us <= 1.03 if has_goal else None,
                              waves=waves, gb_per_second=value / 1e9, unfed_rounds=alone)


def overlap(bench):
    """A loop shaped like training: what a step costs beyond its arithmetic."""
    for batch_bytes in BATCHES[1:]:
        loaders, ring = bench.setting_of("mapped", 4096, batch_bytes)
        with bench.instance(loaders) as instance:
            options = bench.feed_options(instance, "mapped", 4096, batch_bytes, ring)
            seconds, rounds = ("0.2", "1") if bench.quick else ("0.5", "5")
            report = run_json([bench.program("gpu_step"), *options, "--seconds", seconds, "--rounds", rounds,
                               "--matrix", "32" if bench.simulated else "512"])
        params = {"batch": mib(batch_bytes), "compute_per_copy": round(report["compute_us"] / report["copy_us"], 2)}
        compute = report["compute_us"]
        bench.records.add("gpu.overlap", report["feed_us"], "us a step", {**params, "by": "feedd"}, compute,
                          "1.02 of compute alone", report["feed_us"] / compute <= 1.02, report=report,
                          loaders=loaders, ring_mib=ring // MIB)
        for way, text in WAY_TEXTS.items():
            by = way.replace("feed_", "feedd-")
            bench.records.add("gpu.overlap", report[f"{way}_us"], "us a step", {**params, "by": by}, compute,
                              what=text)
