"""Figures of encoded images: what loaders make of photographs in a folder, for each second of a core."""

import os
import subprocess
import sys

from instance import BenchError
from measure import alternate, median, run_json

COUNT = 2048
BATCH = 64
GOAL = 0.9
TRANSFORM = (
    "random_resized_crop 224, flip 0.5, scale 1/255, mean 0.485 0.456 0.406, std 0.229 0.224 0.225, layout chw, cast f16"
)
HERE = os.path.dirname(os.path.abspath(__file__))


def python_that_can(bench, code):
    """$BENCH_PYTHON, or that of make python-torch; None if it cannot run the code."""
    python = os.environ.get("BENCH_PYTHON") or os.path.join(bench.build, "venv", "bin", "python")
    found = os.path.exists(python) and subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0
    return python if found else None


def photographs(bench):
    folder = os.path.join(bench.folder, "photographs")
    if not os.path.isdir(os.path.join(folder, "imagenet")):
        python = python_that_can(bench, "import PIL, numpy")
        if not python:
            raise BenchError("there are no photographs, and no Pillow to make them: make python-torch")
        os.makedirs(folder, exist_ok=True)
        done = subprocess.run([python, os.path.join(HERE, "photographs.py"), folder, "--count", str(COUNT), "--large", "0"],
                              stdout=sys.stderr, check=False)  # fmt: skip
        if done.returncode:
            raise BenchError("the photographs could not be made")
    for name in os.listdir(os.path.join(folder, "imagenet")):
        bench.warm(os.path.join(folder, "imagenet", name))
    return os.path.join(folder, "imagenet")


def per_core(result):
    """Images for each CPU second of all processes, the warm-up included: it hardly depends on what else runs."""
    if "images" in result:
        return result["images"] / result["cpu_seconds"]
    return result["all_samples"] / (result["feedd_cpu_seconds"] + result["all_cpu_seconds"])


def decode(bench):
    """RandomResizedCrop, flip, normalise and f16, beside a bare loop of the same calls, and torchvision on Pillow."""
    folder = photographs(bench)
    seconds = 4 * bench.seconds
    torchvision = python_that_can(bench, "import torch, PIL, importlib.metadata as found; found.version('torchvision')")
    dataset = {"format": "folder", "path": folder, "field.image": "bytes @ file", "transform.image": TRANSFORM}
    with bench.instance({"data": dataset}) as instance:
        runs = [
            lambda: bench.consume(instance, "data", batch=BATCH, seconds=seconds),
            lambda: run_json([bench.program("image_limit"), folder, TRANSFORM, str(seconds)]),
        ]
        if torchvision:
            runs.append(lambda: run_json([torchvision, os.path.join(HERE, "images_torchvision.py"), folder, str(seconds)]))
        results, limits, *others = alternate(bench.rounds, *runs)
    for result in (*results, *limits, *(other for rounds in others for other in rounds)):
        result["per_core"] = per_core(result)
    value, limit = median(results, "per_core"), median(limits, "per_core")
    more = {"torchvision_rounds": [round(result["per_core"]) for result in others[0]]} if others else {}
    bench.records.add(
        "image.decode", value, "images/core s", {"batch": BATCH, "steps": "train 224"}, limit, f"{GOAL} of limit",
        value / limit >= GOAL, images_per_second=median(results, "samples_per_second"), loaders=bench.cores,
        rounds=[round(result["per_core"]) for result in results],
        limit_rounds=[round(result["per_core"]) for result in limits], **more)  # fmt: skip


def cached(bench):
    """Photographs that are decoded already, at 256 pixels: a random crop and a flip, beside a bare loop that copies as many."""
    folder = photographs(bench)
    dataset = {"format": "folder", "path": folder, "field.image": "bytes @ file", "transform.image": "random_crop 224, flip",
               "cache": "2G"}  # fmt: skip
    with bench.instance({"data": dataset}) as instance:
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


FIGURES = {"image.decode": decode, "image.cached": cached}
