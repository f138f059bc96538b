"""image.gpu: photographs in a folder, decoded by the GPU's engine and finished by the kernel, against the engine by itself and
other libraries."""

import statistics

from images import TRANSFORM, photographs
from measure import median, run_json
from peers_on_gpu import Peers
from setting import Watcher, cpu_by_role
from training import burn_alone

BATCH = 256
GOAL = 0.9
CORES = 1.0
SLOWER = 1.03
LINGER = 300 # seconds: the feed outlives a round of the peers
LOADERS = 4 # enough for the engine of an H200; 14 take more CPU time per image (../README.md)


def batch_of(bench):
    """A simulated GPU decodes and finishes images on the CPU, one at a time."""
    return 16 if bench.simulated else BATCH


def engine_loop(bench, folder):
    """The engine alone, and how long the kernel takes for a batch by itself."""
    command = [bench.program("image_engine"), folder, f"decode gpu, {TRANSFORM}", str(batch_of(bench)),
               str(bench.seconds), bench.device]
    return run_json(command)


def consume(bench, instance, *options):
    """The consumer's report, with the cores that each kind of process took."""
    command = [bench.program("gpu_consumer"), "--socket", instance.socket, "--dataset", "data", "--device", bench.device,
               "--shuffle", "--batch-size", str(batch_of(bench)), "--check", "none", "--seconds", str(bench.seconds),
               "--warm-up", str(2 + bench.warm_up), *(str(option) for option in options)]
    watcher = Watcher(command, lambda: cpu_by_role(instance))
    report = watcher.result()
    before, after = watcher.snapshots["begin"], watcher.snapshots["end"]
    report["cores"] = {role: (after[role] - before[role]) / report["seconds"] for role in after}
    report["cores"]["consumer"] = report["cpu_seconds"] / report["seconds"]
    return report


def mean_cores(reports):
    return {role: round(statistics.mean(report["cores"][role] for report in reports), 3) for role in reports[0]["cores"]}


def image_gpu(bench):
    folder = photographs(bench, "imagenet")
    dataset = {"format": "folder", "path": folder, "field.image": "bytes @ file", "transform.image": f"decode gpu, {TRANSFORM}"}
    loaders = min(LOADERS, bench.loaders)
    limits, free, alone, fed = [], [], [], []
    peers = Peers(bench, folder)
    with bench.instance(loaders, {"data": dataset}, linger=LINGER) as instance:
        waves = burn_alone(bench, 0)["waves"]
        for _ in range(bench.rounds):
            limits.append(engine_loop(bench, folder))
            free.append(consume(bench, instance))
            alone.append(burn_alone(bench, waves))
            fed.append(consume(bench, instance, "--busy", "--waves", waves))
            peers.measure()
    value, limit = median(free, "samples_per_second"), median(limits, "images_per_second")
    cores = mean_cores(free)
    params = {"batch": batch_of(bench), "steps": "train 224", "loaders": loaders}
    bench.records.add("image.gpu", value, "images/s", params, limit, f"{GOAL} of the engine", value / limit >= GOAL,
                      rounds=free, limit_rounds=limits)
    peers.record(value, params)
    total = sum(share for role, share in cores.items() if role != "consumer")
    bench.records.add("image.gpu.cores", total, "cores", params, CORES, f"{CORES} core", total <= CORES, by_role=cores)
    print(f"{'':18} of which {', '.join(f'{role} {share}' for role, share in cores.items())}", flush=True)
    bench.records.add("image.gpu.kernel", median(limits, "finish_ms"), "ms per batch", params)
    slowed, unfed = median(fed, "kernel_us"), median(alone, "kernel_us")
    bench.records.add("image.gpu.busy", slowed, "us", params, unfed, f"{SLOWER} of unfed", slowed / unfed <= SLOWER,
                      images_per_second=median(fed, "samples_per_second"), rounds=fed, unfed_rounds=alone)
