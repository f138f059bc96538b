"""One sample in 100 takes 100 times as long: how much of what the mean allows is left, in order."""

import os
import time

import feedd
import torch
from torch.utils.data import DataLoader, Dataset

from data import floats, floats_dataset
from harness import in_turn, median, rate
from loaders import running

QUESTION = "one sample in 100 takes 100 times as long: how much of what the mean allows is left, in order?"
COLUMNS, BATCH, DEPTH = 1024, 64, 32
USUAL, ONE_IN, TIMES = 0.001, 100, 100  # of ../slow_reads.c, too
MEAN = USUAL * (ONE_IN - 1 + TIMES) / ONE_IN
WORKERS = (8, 16)
GOAL = 0.9


class SlowRows(Dataset):
    def __len__(self):
        return 2**17

    def __getitem__(self, index):
        # A hash as random as that of slow_reads.c.
        word = (index * 0x9E3779B97F4A7C15) % 2**64
        word = (word ^ (word >> 29)) * 0xBF58476D1CE4E5B9 % 2**64
        time.sleep(USUAL * (TIMES if (word ^ (word >> 32)) % ONE_IN == 0 else 1))
        return torch.zeros(COLUMNS)


def speed(setting, loader, warm):
    with running(loader) as batches:
        return rate(setting, batches, lambda batch: None, 4 * setting.seconds, warm=warm) * BATCH


def torch_job(setting, workers):
    return lambda: speed(setting, DataLoader(SlowRows(), BATCH, shuffle=True, num_workers=workers,
                                             persistent_workers=True), 2 * workers)


def feedd_job(setting, path):
    dataset = floats_dataset(path, COLUMNS, io="uring", io_delay_us=round(USUAL * 1e6))

    def measure():
        os.environ["LD_PRELOAD"] = os.path.join(setting.build, "bench", "slow_reads.so")
        try:
            daemon = setting.feedd({"slow": dataset}, loaders=setting.cores, queue_depth=DEPTH)
        finally:
            del os.environ["LD_PRELOAD"]
        with daemon:
            return speed(setting, feedd.DataLoader("slow", BATCH, shuffle=True), 128)
    return measure


def measure(setting, report):
    path = floats(setting)
    torch.set_num_threads(1)
    at_once = {("torch", f"{count} workers"): count for count in setting.counts(WORKERS)}
    jobs = {(side, text): torch_job(setting, count) for (side, text), count in at_once.items()}
    ours = "feedd", f"{setting.cores} loaders, {DEPTH} reads each"
    at_once[ours] = setting.cores * DEPTH
    jobs[ours] = feedd_job(setting, path)
    results = in_turn(setting.rounds, jobs)
    rows = [{"side": side, "setting": text, "rate": median(found), "allowed": at_once[side, text] / MEAN,
             "share": median(found) * MEAN / at_once[side, text], "rounds": found}
            for (side, text), found in results.items()]
    report.table(f"batches of {BATCH}; 1 ms per sample, 100 ms for one in 100: medians of {setting.rounds} rounds in turn",
                 {"side": "side", "setting": "setting", "rate": "samples/s", "allowed": "the mean allows",
                  "share": "of it"}, rows, draw={"kind": "bars", "x": ["side", "setting"], "y": "share"})
    share = rows[-1]["share"]
    report.goal(f"feedd keeps {GOAL} of what the mean allows", f"{share:.2f}", share >= GOAL, gpu_alone=False)
