"""CIFAR-100's format: time to the first batch of a cold process, and images per second afterwards."""

import contextlib
import json
import subprocess
import sys
import threading
import time

import feedd
import torch

import cifar
from data import cifar as cifar_file, cifar_dataset
from harness import BenchError, HERE, endless, in_turn, median, rate
from loaders import running

QUESTION = "CIFAR-100's format, to-tensor and normalise: how soon does a batch arrive, and how many images per second?"
COUNTS = (1, 2, 4, 8, 16)
GOAL = 100.0
AGAIN = "feedd, the same job once more"
JOINED = "feedd, joins a shared feed that runs"


def cold(task):
    """One process that starts now."""
    task = {**task, "began": time.clock_gettime(time.CLOCK_MONOTONIC)}
    done = subprocess.run([sys.executable, str(HERE / "cold.py"), json.dumps(task)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=100, check=False)
    if done.returncode != 0 or not done.stdout.strip():
        raise BenchError(f"a cold process ended with status {done.returncode}: {done.stderr.strip()[-600:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def cold_row(side, count, task, rounds):
    """In that many processes, one after the other."""
    found = [cold(task) for _ in range(rounds)]
    first, imported = (median([one[what] for one in found]) for what in ("first", "imported"))
    return {"side": side, "count": count, "first": first, "imported": imported, "whole": imported + first,
            "rounds": [one["first"] for one in found]}


def cold_torch(setting, path, rounds):
    counts = (0, *setting.counts(COUNTS))
    task = {"side": "torch", "path": path}
    rows = [cold_row("torch", count, {**task, "workers": count}, rounds) for count in counts]
    spawned = {**task, "workers": 8, "context": "spawn"}
    if not setting.quick:
        rows.append(cold_row("torch, workers spawned", 8, spawned, 1))
    return rows


@contextlib.contextmanager
def another_job():
    """A job that trains on the shared feed in the background, a batch per millisecond."""
    over = threading.Event()
    loader = feedd.DataLoader("cifar", cifar.BATCH, shuffle=True, drop_last=True, share="jobs")

    def train():
        for _ in endless(loader):
            if over.wait(0.001):
                return
    thread = threading.Thread(target=train)
    thread.start()
    try:
        time.sleep(0.1)
        yield
    finally:
        over.set()
        thread.join()
        loader.close()


def cold_feedd(setting, path, rounds):
    """The daemon runs. One that has served nobody yet; one that has served others, which is how daemons are found."""
    rows = []
    for count in setting.counts(COUNTS):
        with setting.feedd({"cifar": cifar_dataset(path)}, loaders=count):
            task = {"side": "feedd", "framework": "torch"}
            if count == 4:
                rows.append(cold_row("feedd, first job of the daemon", count, task, 1))
            else:
                with feedd.DataLoader("cifar", cifar.BATCH) as loader:
                    next(iter(loader))
            rows.append(cold_row("feedd", count, task, rounds))
            if count == 4:
                rows.append(cold_row("feedd, no torch: NumPy", count, {**task, "framework": "numpy"}, rounds))
                cold({**task, "again": True})
                rows.append(cold_row(AGAIN, count, {**task, "again": True}, rounds))
                with another_job():
                    rows.append(cold_row(JOINED, count, {**task, "share": "jobs"}, rounds))
    return rows


def torch_job(setting, path, workers, batched):
    def measure():
        with running(cifar.loader(path, workers, batched)) as batches:
            return rate(setting, batches, len, setting.seconds, warm=8 * workers) * cifar.BATCH
    return measure


def feedd_job(setting, path, loaders):
    def measure():
        with setting.feedd({"cifar": cifar_dataset(path)}, loaders=loaders):
            with running(feedd.DataLoader("cifar", cifar.BATCH, shuffle=True, drop_last=True)) as batches:
                return rate(setting, batches, len, setting.seconds, warm=256) * cifar.BATCH
    return measure


def same_images(setting, path):
    """Largest difference between what both sides make of the first images; None if the labels differ."""
    with setting.feedd({"cifar": cifar_dataset(path)}):
        with feedd.DataLoader("cifar", cifar.BATCH) as loader:
            labels, images = next(iter(loader))
            wanted, wanted_labels = cifar.ImageBatches(path).__getitems__(list(range(cifar.BATCH)))
            return (images - wanted).abs().max().item() if torch.equal(labels.long(), wanted_labels) else None


def throughput(setting, report, path):
    """Returns the number of workers that is best for torch."""
    jobs = {}
    for count in setting.counts(COUNTS):
        jobs["torch", count] = torch_job(setting, path, count, False)
        jobs["torch, __getitems__", count] = torch_job(setting, path, count, True)
        jobs["feedd", count] = feedd_job(setting, path, count)
    results = in_turn(setting.rounds, jobs)
    rows = [{"side": side, "count": count, "rate": median(found), "rounds": found}
            for (side, count), found in results.items()]
    rows.sort(key=lambda row: (row["side"] == "feedd", row["side"], row["count"]))
    best = {}
    for row in rows:
        best[row["side"]] = max(best.get(row["side"], (0, 0)), (row["rate"], row["count"]))
    for row in rows:
        row["times"] = row["rate"] / best["torch"][0]
    report.table(f"images per second, batches of {cifar.BATCH}: medians of {setting.rounds} rounds in turn",
                 {"side": "side", "count": "workers or loaders", "rate": "images/s", "times": "x torch's best"},
                 rows, draw={"kind": "lines", "x": "count", "y": "rate", "series": "side", "log": True})
    return best["torch"][1]


def measure(setting, report):
    path = cifar_file(setting)
    torch.set_num_threads(1)
    apart = same_images(setting, path)
    if apart is None:
        raise BenchError("the two sides do not give the same labels")
    if not apart <= 1e-5:  # also catches NaN
        raise BenchError(f"what both sides make of an image differs by {apart:g}")
    workers = throughput(setting, report, path)
    rounds = 1 if setting.quick else 3
    rows = cold_torch(setting, path, rounds) + cold_feedd(setting, path, rounds)
    report.table(f"the first batch in a cold process: medians of {rounds}",
                 {"side": "side", "count": "workers or loaders", "first": "ms after imports",
                  "imported": "ms of imports", "whole": "ms from exec"},
                 rows, draw={"kind": "lines", "x": "count", "y": "first", "series": "side", "log": True})
    best = next(row["first"] for row in rows if (row["side"], row["count"]) == ("torch", workers))
    for side, what in (("feedd", "of a new feed"), (AGAIN, "of the same job once more, within linger"),
                       (JOINED, "of a shared feed that runs")):
        ours = min(row["first"] for row in rows if row["side"] == side)
        report.goal(f"first batch {what} {GOAL:.0f} times sooner than DataLoader's, with the {workers} workers that"
                    " give it most images/s",
                    f"{best / ours:.0f} times ({ours:.2f} against {best:.0f} ms after imports)", best >= GOAL * ours)
    ours = min(row["first"] for row in rows if row["side"] == "feedd")
    rest = {row["side"] + f" with {row['count']}": row["first"] for row in rows if row["side"].startswith("torch")}
    report.note("a new feed's first batch, after imports, against "
                + ", ".join(f"{name}: {value / ours:.0f} times" for name, value in rest.items()))
    report.note("the images are made, in CIFAR-100's binary format. torch reads the file into memory first, as"
                " torchvision does; workers are forked unless it says spawned. Both sides give float tensors in host"
                f" memory, equal within {apart:.2g}. From exec on, importing torch is most of it for both sides. The"
                " job that is joined takes a batch per millisecond: the newcomer waits for its next batch")
