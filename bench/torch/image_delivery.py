"""Photographs to batches on the GPU: torchvision in torch's DataLoader, libraries that decode on the GPU, and feedd."""

import os
import pathlib

import feedd
import torch

import photos
from harness import first_of, in_turn, median, rate
from image_peers_on_gpu import WAYS, as_it_is, why_not
from loaders import best_of, running
from procs import cpu_seconds, tree

QUESTION = ("photographs of ImageNet's sizes, RandomResizedCrop 224, flip, normalise, float16: how many per second reach the"
            " GPU, and what does one cost?")
SIDE, AREA = 224, 0.08
WANTED, TIMES = 18000, 3
BY_ENGINE = "feedd, decoded by the GPU's engine"
ON_GPU = {"nvimagecodec": "nvImageCodec, torchvision on the GPU", "torchvision": "torchvision, all on the GPU",
          "dali": "DALI, mixed", "spdl": "SPDL's nvJPEG, torchvision on the GPU"}


def sides_of(setting, folder, batch):
    """{name: make(workers)} of torch's sides."""
    def make(native):
        def with_workers(workers):
            dataset = photos.Photographs(folder, photos.torch_steps(SIDE, AREA, native), native)
            return photos.torch_loader(dataset, batch, workers, pin=setting.gpu)
        return with_workers
    sides = {"torch: torchvision on PIL": make(False)}
    if photos.native_works():
        sides["torch: torchvision decodes to tensors"] = make(True)
    return sides


def sides_on_gpu(setting, folder, batch, report, speed):
    """{name: make()} of libraries that decode and finish images on the GPU, in the training process; reports which cannot."""
    sides, paths = {}, sorted(pathlib.Path(folder).iterdir())
    for way in WAYS if setting.gpu else ():
        name = ON_GPU[way.__name__]
        reason = why_not(way, setting.device)
        if not reason:
            try:
                speed(lambda way=way: way(paths, batch, setting.device, True), seconds=setting.look_seconds, step=as_it_is)
            except Exception as error:  # of any library
                reason = (str(error).splitlines() or ["no reason given"])[0][:200]
        if reason:
            report.note(f"{name}: left out: {reason}")
        else:
            sides[name] = lambda way=way: way(paths, batch, setting.device, True)
    return sides


def measure(setting, report):
    folder, batch = str(photos.plain(setting)), 256 if setting.gpu else 64
    files = len(os.listdir(folder))
    torch.set_num_threads(1)
    loaders = max(2, min(14, setting.cores - 2))
    length = {"look": 4 * setting.look_seconds, "round": 6 * setting.seconds}

    def bring(parts):
        """Both sides end with [N,C,H,W] of halves on the device."""
        return [part.to(setting.torch_device, non_blocking=True) for part in parts]

    def speed(make, seconds=length["look"], step=bring, **chosen):
        with running(make(**chosen)) as batches:
            warm = 2 * chosen.get("workers", 0) + 4
            began, steps = [], []

            def counted(parts):
                if len(steps) == warm:
                    began.append(cpu_seconds(tree(os.getpid())))
                steps.append(1)
                step(parts)
            # Workers end batches in bursts, so a round has several of each.
            least = 4 * chosen.get("workers", 0) + 4 if seconds == length["round"] else 2
            found = rate(setting, batches, counted, seconds, warm=warm, least=least)
            cpu = cpu_seconds(tree(os.getpid())) - began[0]
            return found * batch, 1e3 * cpu / ((len(steps) - warm) * batch)

    jobs, chosen = {}, {}
    for side, make in sides_of(setting, folder, batch).items():
        counts = [{"workers": count} for count in sorted({setting.cores // 2, setting.cores - 2, setting.cores} - {0})]
        chosen[side], _ = best_of(side, counts, lambda make=make, **settings: speed(make, **settings)[0])
        jobs[side] = lambda make=make, settings=chosen[side]: speed(make, seconds=length["round"], **settings)
    for side, make in sides_on_gpu(setting, folder, batch, report, speed).items():
        chosen[side] = {"workers": None}  # threads of its own
        jobs[side] = lambda make=make: speed(make, seconds=length["round"], step=as_it_is)
    steps = photos.training_steps(SIDE, AREA)
    ways = {"feedd": steps, **({BY_ENGINE: f"decode gpu, {steps}"} if setting.gpu else {})}
    datasets = {f"photographs-{number}": photos.feedd_dataset(folder, way) for number, way in enumerate(ways.values())}
    with setting.feedd(datasets, loaders=loaders, index_folder=setting.data):
        def load(name):
            return feedd.DataLoader(name, batch, shuffle=True, drop_last=True, device=setting.feedd_device)
        for side, name in zip(ways, datasets):
            jobs[side] = lambda name=name: speed(lambda: load(name), seconds=length["round"],
                                                 step=lambda parts: photos.channels_first(first_of(parts)))
        results = in_turn(setting.rounds, jobs)
    rows = [{"side": side, "workers": chosen.get(side, {"workers": loaders})["workers"],
             "rate": median(rate for rate, _ in found), "cpu": median(cpu for _, cpu in found), "rounds": found}
            for side, found in results.items()]
    ours = rows[list(results).index("feedd")]
    for row in rows:
        row["times"] = ours["rate"] / row["rate"]
    report.table(f"batches of {batch} from {files:,} files in the page cache: medians of {setting.rounds} rounds in turn",
                 {"side": "side", "workers": "workers or loaders", "rate": "images/s", "cpu": "CPU ms per image",
                  "times": "feedd is faster by"}, rows, draw={"kind": "bars", "x": ["side"], "y": "rate"})
    report.goal(f"{WANTED:,} images/s with 14 loaders", f"{ours['rate']:,.0f} with {loaders}", ours["rate"] >= WANTED)
    report.goal(f"{TIMES} times torchvision on PIL", f"{rows[0]['times']:.2f} times", rows[0]["times"] >= TIMES)
    report.note("CPU is that of all processes: the training process, torch's workers, and the daemon with its loaders")
    if not photos.native_works():
        report.note("this torchvision cannot decode JPEG by itself, so there is no row for that")
