"""2 ms of latency a sample, as from storage far away, and preprocessing: workers against as many feedd loaders."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import feedd
import torch
from torch.utils.data import DataLoader

from data import floats, floats_dataset
from harness import BenchError, in_turn, median
from loaders import Rows, as_is, loaded_rows, running

QUESTION = "2 ms of latency per sample, and preprocessing: how much do workers, and feedd's loaders, help?"
COLUMNS, BATCH = 1024, 64
LATENCY = 0.002
SCALE, SHIFT = 0.5, 0.25
COUNTS = (0, 2, 4, 8, 16)
THREADS = 64
AT, GOAL = 8, 10.0


def prepare(sample):
    """standardise, scale, shift."""
    std, mean = torch.std_mean(sample, dim=-1, correction=0, keepdim=True)
    return (sample - mean) / std * SCALE + SHIFT


class FarRows(Rows):
    """Each sample comes after 2 ms."""

    def __getitem__(self, index):
        time.sleep(LATENCY)
        return prepare(self.rows[index])


class FarRowsThreads(FarRows):
    """The same, but the samples of a batch are asked for together, by threads; prepared at once."""

    threads = None

    def far(self, index):
        time.sleep(LATENCY)
        return self.rows[index]

    def __getitems__(self, indices):
        if self.threads is None or self.threads[0] != os.getpid():
            self.threads = os.getpid(), ThreadPoolExecutor(THREADS)
        return prepare(torch.stack(list(self.threads[1].map(self.far, indices))))


def batches_rate(batches, warm, count, seconds=None):
    """Samples per second over whole bursts: workers that began together finish together."""
    for _ in range(warm):
        next(batches)
    began = time.perf_counter()
    done = 0
    while done < count or (seconds and time.perf_counter() - began < seconds):
        next(batches)
        done += 1
    return done * BATCH / (time.perf_counter() - began)


def torch_job(setting, rows, workers, threads):
    dataset = (FarRowsThreads if threads else FarRows)(rows)

    def measure():
        loader = DataLoader(dataset, BATCH, shuffle=True, drop_last=True, num_workers=workers,
                            persistent_workers=workers > 0, collate_fn=as_is if threads else None)
        with running(loader) as batches:
            bursts = (1 if setting.quick else 2) * (4 if threads else 1)
            return batches_rate(batches, 3 * workers or 1, bursts * workers or 4)
    return measure


def feedd_job(setting, path, loaders):
    dataset = floats_dataset(path, COLUMNS, io="uring", io_delay_us=round(LATENCY * 1e6),
                             **{"transform.x": f"standardise, scale {SCALE}, shift {SHIFT}"})

    def measure():
        with setting.feedd({"far": dataset}, loaders=loaders):
            with running(feedd.DataLoader("far", BATCH, shuffle=True, drop_last=True)) as batches:
                return batches_rate(batches, 512, 256, setting.seconds)
    return measure


def same_numbers(setting, path, rows):
    """Largest difference between the two sides' results for some samples."""
    dataset = floats_dataset(path, COLUMNS, **{"transform.x": f"standardise, scale {SCALE}, shift {SHIFT}"})
    with setting.feedd({"rows": dataset}):
        with feedd.DataLoader("rows", BATCH) as loader:
            (found,) = next(iter(loader))
            return (found - prepare(rows[:BATCH])).abs().max().item()


def measure(setting, report):
    path = floats(setting)
    rows = loaded_rows(path, COLUMNS)
    torch.set_num_threads(1)
    apart = same_numbers(setting, path, rows)
    if not apart <= 1e-5:  # also catches NaN
        raise BenchError(f"the two sides' results for a sample differ by {apart:g}")
    counts = [count for count in COUNTS if count <= max(8, 4 * setting.cores)]
    jobs = {}
    for count in counts:
        jobs["torch", count] = torch_job(setting, rows, count, False)
        jobs[f"torch, __getitems__ with {THREADS} threads", count] = torch_job(setting, rows, count, True)
        if count:
            jobs["feedd", count] = feedd_job(setting, path, count)
    results = in_turn(setting.rounds, jobs)
    table = [{"side": side, "count": count, "rate": median(found), "each": median(found) / max(1, count),
              "rounds": found} for (side, count), found in results.items()]
    table.sort(key=lambda row: (row["side"] == "feedd", row["side"], row["count"]))
    plain = next(row["rate"] for row in table if (row["side"], row["count"]) == ("torch", AT))
    threads = next(row["rate"] for row in table if "threads" in row["side"] and row["count"] == AT)
    ours = next(row["rate"] for row in table if (row["side"], row["count"]) == ("feedd", AT))
    for row in table:
        row["times"] = row["rate"] / plain
    report.table(f"batches of {BATCH} x {COLUMNS} floats in host memory: medians of {setting.rounds} rounds in turn",
                 {"side": "side", "count": "workers or loaders", "rate": "samples/s", "each": "samples/s each",
                  "times": f"x torch with {AT}"},
                 table, draw={"kind": "lines", "x": "count", "y": "rate", "series": "side", "log": True})
    report.goal(f"feedd with {AT} loaders {GOAL:.0f} times torch with {AT} workers", f"{ours / plain:.1f} times",
                ours >= GOAL * plain)
    report.note(f"against torch whose workers wait for the samples of a batch with {THREADS} threads:"
                f" {ours / threads:.1f} times with {AT}")
    report.note("torch sleeps 2 ms in __getitem__; feedd delays each read by 2 ms (io_delay_us). Both standardise,"
                f" scale and shift each sample; results differ by at most {apart:.2g}")
