"""Figures of encoded images: what loaders make of photographs in a folder, per second of a core, beside other libraries."""

import os
import shutil
import subprocess
import sys

from instance import BenchError
from measure import alternate, finish, median, run_json, start

COUNT, LARGE = 2048, 256
BATCH = 64
GOAL = 0.9
TRANSFORM = (
    "random_resized_crop 224, flip 0.5, scale 1/255, mean 0.485 0.456 0.406, std 0.229 0.224 0.225, layout chw, cast f16"
)
CROP = "random_resized_crop 224, flip 0.5"
HERE = os.path.dirname(os.path.abspath(__file__))
# The goals relative to what image_peers.py measures; None: shown without a goal.
PEERS = {"torchvision_pil": 2, "torchvision_native": None, "webdataset": None, "ffcv_area": 1.3, "ffcv_linear": 1.3,
         "spdl": None, "dali": None}  # fmt: skip
PEERS_LARGE = {"torchvision_pil": 4, "ffcv_area": None}
CROPS = 10000


def the_python(bench):
    """$BENCH_PYTHON, or that of make python-peers or python-torch."""
    return os.environ.get("BENCH_PYTHON") or os.path.join(bench.build, "venv", "bin", "python")


def photographs(bench, kind):
    """The folder with the photographs of one kind, in the page cache."""
    folder = os.path.join(bench.folder, "photographs")
    if not os.path.isdir(os.path.join(folder, "large")):
        python = the_python(bench)
        if not shutil.which(python):
            raise BenchError(f"there are no photographs, and no {python} to make them: make python-peers, or set BENCH_PYTHON")
        os.makedirs(folder, exist_ok=True)
        script = os.path.join(HERE, "photographs.py")
        command = [python, script, folder, "--count", str(COUNT), "--large", str(LARGE)]
        done = subprocess.run(command, stdout=sys.stderr, check=False)
        if done.returncode:
            raise BenchError("the photographs could not be made")
    for name in os.listdir(os.path.join(folder, kind)):
        bench.warm(os.path.join(folder, kind, name))
    return os.path.join(folder, kind)


def dataset(folder, transform):
    return {"format": "folder", "path": folder, "field.image": "bytes @ file", "transform.image": transform}


def on_every_core(bench, *command):
    """As many copies of a program as cores, each beginning with another image, and their results together."""
    copies = [start([*command, str(number * COUNT // bench.cores)]) for number in range(bench.cores)]
    results = [finish(copy) for copy in copies]
    return {key: sum(result[key] for result in results) for key in ("images", "images_per_second", "cpu_seconds")}


def peers_there(bench, wanted):
    """Those that can be measured here; says which cannot, and why."""
    python, there = the_python(bench), []
    for peer in wanted:
        command = [python, os.path.join(HERE, "image_peers.py"), peer]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        except OSError as error:
            print(f"image.decode: peers are left out: {error}", flush=True)
            return []
        if done.returncode:
            print(f"image.decode: left out: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}", flush=True)
        else:
            there.append(peer)
    return there


def per_core(result):
    """Images for each CPU second of all processes, the warm-up included: it hardly depends on what else runs."""
    if "images" in result:
        return result["images"] / result["cpu_seconds"]
    return result["all_samples"] / (result["feedd_cpu_seconds"] + result["all_cpu_seconds"])


def decode(bench):
    """RandomResizedCrop, flip, normalise and f16, beside a bare loop of the same calls and other libraries."""
    beside_peers(bench, "imagenet", TRANSFORM, PEERS)


def decode_large(bench):
    """The same of photographs of 2000 x 1500: exactly, and decoded at a smaller scale."""
    beside_peers(bench, "large", TRANSFORM, PEERS_LARGE)
    beside_peers(bench, "large", f"decode fast, {TRANSFORM}", PEERS_LARGE, decode="fast")


def beside_peers(bench, kind, transform, wanted_of, **params):
    folder = photographs(bench, kind)
    seconds = str(2 * bench.seconds)
    peers = peers_there(bench, wanted_of)

    def peer_run(peer):
        return lambda: on_every_core(bench, the_python(bench), os.path.join(HERE, "image_peers.py"), peer, folder, seconds)
    with bench.instance({"data": dataset(folder, transform)}) as instance:
        results, limits, *others = alternate(
            bench.rounds,
            lambda: bench.consume(instance, "data", batch=BATCH, seconds=2 * bench.seconds),
            lambda: on_every_core(bench, bench.program("image_limit"), folder, transform, seconds),
            *map(peer_run, peers))  # fmt: skip
    for result in (*results, *limits, *(other for rounds in others for other in rounds)):
        result["per_core"] = per_core(result)
    for result in results:
        result["images_per_second"] = result["samples_per_second"]
    value = median(results, "per_core")
    goals = [GOAL, *(wanted_of[peer] for peer in peers)]
    for against, rounds, wanted in zip(("bare loop", *peers), (limits, *others), goals):
        limit = median(rounds, "per_core")
        bench.records.add(
            "image.decode", value, "images/core s", {"of": kind, **params, "limit": against}, limit,
            wanted and f"{wanted} times as many", wanted and value / limit >= wanted, loaders=bench.cores, batch=BATCH,
            rounds=[round(result["per_core"]) for result in results],
            limit_rounds=[round(result["per_core"]) for result in rounds],
            images_per_second=median(results, "images_per_second"),
            limit_images_per_second=median(rounds, "images_per_second"))  # fmt: skip


def beside_pillow(bench, kind, transform, crops):
    """What images_exact.py says of so many random crops, or a tenth of them with --quick."""
    folder = photographs(bench, kind)
    with bench.instance({"data": dataset(folder, transform)}) as instance:
        script = os.path.join(HERE, "images_exact.py")
        crops = crops if bench.rounds > 2 else crops // 10
        # The package as make python has unpacked it, or as it lies in a bundle.
        package = os.pathsep.join((os.path.join(bench.build, "python"), os.path.join(bench.build, os.pardir, "python")))
        command = ["env", f"PYTHONPATH={package}", the_python(bench), script, instance.socket, folder, str(crops)]
        return run_json(command, timeout=1200)


def exact(bench):
    """Random crops of photographs that differ from what Pillow makes of the same files."""
    result = beside_pillow(bench, "imagenet", CROP, CROPS)
    bench.records.add("image.exact", result["differ"], "crops", {"of": result["crops"]}, None, "0", result["differ"] == 0,
                      pillow=result["pillow"], which=result["which"])


def fast(bench):
    """How far crops with `decode fast` are from the exact ones, in levels of 255."""
    for kind, crops in (("imagenet", CROPS), ("large", CROPS // 4)):  # Pillow needs long for the large ones
        result = beside_pillow(bench, kind, f"decode fast, {CROP}", crops)
        bench.records.add("image.fast", result["mean"], "levels", {"of": kind, "crops": result["crops"]}, None, None, None,
                          maximum=result["maximum"], differ=result["differ"], pillow=result["pillow"])


def cached(bench):
    """Photographs that are decoded already, at 256 pixels: a random crop and a flip, beside a bare loop that copies as many."""
    folder = photographs(bench, "imagenet")
    with bench.instance({"data": {**dataset(folder, "random_crop 224, flip"), "cache": "2G"}}) as instance:
        while bench.consume(instance, "data", batch=BATCH, seconds=1)["all_samples"] < 2 * COUNT:
            pass  # until a run reads more than an epoch, which the cache then has
        results, limits = alternate(
            bench.rounds,
            lambda: bench.consume(instance, "data", batch=BATCH, seconds=2 * bench.seconds),
            lambda: run_json([bench.program("cache_limit"), "--images", str(COUNT), "--seconds", str(bench.seconds)]))
    for result in (*results, *limits):
        result["per_core"] = per_core(result)
    value, limit = median(results, "per_core"), median(limits, "per_core")
    bench.records.add(
        "image.cached", value, "images/core s", {"batch": BATCH, "steps": "random_crop 224, flip"}, limit, None, None,
        images_per_second=median(results, "samples_per_second"), loaders=bench.cores,
        rounds=[round(result["per_core"]) for result in results],
        limit_rounds=[round(result["per_core"]) for result in limits])  # fmt: skip


FIGURES = {"image.decode": decode, "image.decode_large": decode_large, "image.exact": exact, "image.fast": fast,
           "image.cached": cached}
