"""Several training jobs on one machine: a DataLoader each, against one feed that they share."""

import contextlib
import json
import os
import subprocess
import time

import feedd
import torch
from torch.utils.data import DataLoader, Dataset

from data import FLOATS, floats, floats_dataset
from harness import Talk, child_main, in_turn, listen, median, say, told
from loaders import BATCHED, PLAIN, as_is, best_of, best_workers, running
from procs import cpu_seconds, read_bytes, tree

QUESTION = "what do 1, 2 and 4 jobs that train on the same files cost?"
COLUMNS, BATCH = 1024, 256
ROWS = FLOATS // COLUMNS
ROW_BYTES = COLUMNS * 4
COUNTS = (1, 2, 4)
ALONE = "no loader"  # what the jobs themselves, and a GPU that they share, are good for
SIDES = (PLAIN, BATCHED, "feedd", ALONE)
FLAT, SPEED = 1.1, 0.95
BEATS = 0.5  # until loaders have published what they have read


class FileRows(Dataset):
    """Rows read from the file when they are wanted, as from a dataset that does not fit into memory."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDONLY)

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        return torch.frombuffer(bytearray(os.pread(self.file, ROW_BYTES, index * ROW_BYTES)), dtype=torch.float32)


class FileBatches(FileRows):
    """A batch at once, into one buffer."""

    def __getitems__(self, indices):
        batch = torch.empty(len(indices), COLUMNS)
        view = memoryview(batch.numpy()).cast("B")
        for place, index in enumerate(indices):
            os.preadv(self.file, [view[place * ROW_BYTES:(place + 1) * ROW_BYTES]], index * ROW_BYTES)
        return batch


def loader_of(task):
    """What the job iterates over, batches on the device that the task names."""
    device = torch.device(task["device"] if task["device"].startswith("cuda") else "cpu")
    gpu = device.type == "cuda"
    if task["side"] == "feedd":
        return feedd.DataLoader("rows", BATCH, shuffle=True, drop_last=True, share=task["share"], device=task["device"],
                                socket=task["socket"]), lambda batch: batch[0]
    if task["side"] == ALONE:
        return [torch.zeros(BATCH, COLUMNS, device=device)] * 1000, lambda batch: batch
    batched = task["side"] == BATCHED
    loader = DataLoader((FileBatches if batched else FileRows)(task["path"]), BATCH, shuffle=True, drop_last=True,
                        num_workers=task["workers"], persistent_workers=task["workers"] > 0, pin_memory=gpu,
                        collate_fn=as_is if batched else None)
    return loader, lambda batch: batch.to(device, non_blocking=gpu)


def job(setting, task):
    """Trains, in that it reads every number, and reports what it did in the seconds after it was told to. It continues
    until all have finished: jobs that share a feed wait for one that stops."""
    loader, bring = loader_of(task)
    with running(loader) as batches:
        device = torch.device(task["device"] if task["device"].startswith("cuda") else "cpu")
        seen = torch.zeros((), dtype=torch.float64, device=device)

        def train(until):
            count, began = 0, time.perf_counter()
            while not until(began):
                seen.add_(bring(next(batches)).sum())
                count += 1
            setting.wait()
            return count, time.perf_counter() - began

        train(lambda began, left=iter(range(4 * task["workers"] + 8)): next(left, None) is None)
        say(step="ready")
        train(lambda began: told())
        listen()
        count, seconds = train(lambda began: time.perf_counter() - began > task["seconds"])
        say(samples=count * BATCH, seconds=seconds)
        train(lambda began: told())
        listen()
    say(step="over")


def child(setting, _):
    """A job after another, as told. CUDA is there before the first."""
    torch.set_num_threads(1)
    torch.zeros(1, device=setting.torch_device)
    while True:
        job(setting, listen())


def feed_bytes(setting, socket, share):
    """What the loaders of a shared feed that is over have read from files, and what its jobs together were given."""
    done = subprocess.run([os.path.join(setting.build, "feedctl"), "stats", "--once", "--json"], text=True,
                          capture_output=True, env={**os.environ, "FEEDD_SOCKET": socket}, check=True, timeout=20)
    feed = next(feed for feed in json.loads(done.stdout)["feeds"] if feed["name"] == share)
    return feed["loader_counters"]["storage_bytes"], feed["feed_counters"]["bytes"]


class Cell:
    """One side with that many jobs: each call is a round."""

    def __init__(self, setting, helpers, path):
        self.setting, self.helpers, self.path = setting, helpers, path
        self.rounds = 0
        self.service = None

    @contextlib.contextmanager
    def daemon(self, loaders):
        """For a block. Its loaders read with io_uring, which counts what it reads."""
        dataset = floats_dataset(self.path, COLUMNS, io="uring")
        with self.setting.feedd({"rows": dataset}, loaders=loaders, linger=1) as self.service:
            yield

    def spent(self, side, count):
        """The time, CPU seconds and bytes read so far, by the jobs and the processes that read for them."""
        pids = tree(*(helper.pid for helper in self.helpers[:count]))
        if side == "feedd":
            pids += tree(self.service.pid)
        return time.perf_counter(), cpu_seconds(pids), read_bytes(pids)

    def run(self, side, count, workers, device, seconds=None):
        self.rounds += 1
        share = f"jobs-{self.rounds}"
        task = {"side": side, "workers": workers if side in (PLAIN, BATCHED) else 0, "device": device, "path": self.path,
                "share": share, "socket": self.service.socket if self.service else None,
                "seconds": seconds or self.setting.seconds}
        helpers = self.helpers[:count]

        def tell_all(**what):
            for helper in helpers:
                helper.tell(**what)
            return [helper.hear() for helper in helpers]

        tell_all(**task)
        time.sleep(0.05)
        before = self.spent(side, count)
        results = tell_all()
        after = self.spent(side, count)
        tell_all()
        rates = [result["samples"] / result["seconds"] for result in results]
        clock, cpu, read = (second - first for first, second in zip(before, after))
        taken = clock * sum(rates) * ROW_BYTES
        if side == "feedd":
            time.sleep(BEATS)
            read, taken = feed_bytes(self.setting, self.service.socket, share)
        return {"slowest": min(rates), "mean": sum(rates) / count, "cpu": cpu / clock / sum(rates) * 1e6,
                "read": 0.0 if side == ALONE else read * count / taken}


def look(cell, setting):
    """Workers of one job of torch, for either way, and loaders of feedd."""
    def of_torch(side, workers):
        return cell.run(side, 1, workers, "cpu", setting.look_seconds)["mean"]

    def of_feedd(loaders):
        with cell.daemon(loaders):
            return cell.run("feedd", 1, 0, setting.feedd_device, setting.look_seconds)["mean"]
    best, tried = best_workers(setting, of_torch, (1, 2, 4, 8))
    counts = sorted({max(2, min(count, setting.cores - 4)) for count in (4, 8, 12)})
    chosen, tried_feedd = best_of("feedd", [{"loaders": count} for count in counts], of_feedd)
    return {**best, "feedd": chosen["loaders"]}, tried + tried_feedd


def on_device(cell, setting, report, device, best):
    """The table of one device, and the goals."""
    plan = {(side, count): lambda side=side, count=count: cell.run(side, count, best.get(side, 0), device)
            for count in COUNTS for side in SIDES}
    results = in_turn(setting.rounds, plan)
    rows = []
    for (side, count), found in results.items():
        middle = {key: median(result[key] for result in found) for key in found[0]}
        rows.append({"side": side, "setting": described(side, best), "jobs": count, **middle,
                     "rounds": [result["mean"] for result in found]})
    rows.sort(key=lambda row: SIDES.index(row["side"]))
    for row in rows:
        row["speed"] = row["slowest"] / next(one["mean"] for one in rows if one["side"] == row["side"])
    report.table(f"jobs that take batches of 1 MiB on {device}: medians of {setting.rounds} rounds in turn",
                 {"side": "side", "setting": "setting", "jobs": "jobs", "mean": "samples/s a job",
                  "slowest": "slowest job", "speed": "x single job", "cpu": "CPU s a million samples",
                  "read": "bytes read / bytes of one job"},
                 rows, draw={"kind": "lines", "x": "jobs", "y": "mean", "series": "side", "log": True})
    ours = {row["jobs"]: row for row in rows if row["side"] == "feedd"}
    grows = ours[4]["read"] / ours[1]["read"] if ours[1]["read"] else float("inf")
    report.goal(f"on {device}, bytes read for 4 jobs at most {FLAT} times those for one", f"{grows:.2f} times",
                grows <= FLAT)
    report.goal(f"on {device}, each of 4 jobs at least at {SPEED} of the single job's speed", f"{ours[4]['speed']:.2f}",
                ours[4]["speed"] >= SPEED)


def described(side, best):
    if side == ALONE:
        return "one batch, resident"
    return f"loaders {best[side]}" if side == "feedd" else f"workers {best[side]} each"


def measure(setting, report):
    path = floats(setting)
    helpers = []
    try:
        helpers += [Talk("jobs.py", setting, {}) for _ in range(max(COUNTS))]
        cell = Cell(setting, helpers, path)
        best, tried = look(cell, setting)
        with cell.daemon(best["feedd"]):
            for device in dict.fromkeys(("cpu", setting.feedd_device)):
                on_device(cell, setting, report, device, best)
        report.table(f"the search for settings (one job, short runs, torch on cpu, feedd on {setting.feedd_device})",
                     {"side": "side", "setting": "setting", "rate": "samples/s"}, tried)
    finally:
        for helper in helpers:
            helper.__exit__()
    report.note("each job adds up every number it gets and does nothing else. Bytes read: of torch's jobs and workers,"
                " those that read calls brought (rchar of /proc/PID/io); of feedd's loaders, feedctl stats, of the"
                " whole time; both find them in the page cache. CPU: of jobs, workers and all of feedd")


if __name__ == "__main__":
    child_main(child)
