"""How fast batches of 1 MiB reach the GPU: pin_memory and non_blocking, with and without workers, and feedd."""

import time
from typing import NamedTuple

import feedd
import torch

from data import floats, floats_dataset
from harness import BenchError, first_of, in_turn, median, rate
from loaders import BATCHED, PLAIN, best_feedd, best_workers, described, loaded_rows, running, torch_loader

QUESTION = "how much do pin_memory, non_blocking and workers help with batches of 256 x 1024 floats?"
COLUMNS, BATCH = 1024, 256
BATCH_BYTES = BATCH * COLUMNS * 4
TRANSFERS = 64
GOAL = 30.0


class Way(NamedTuple):
    """How torch is told to deliver batches; without a GPU, pin and non_blocking do nothing."""

    workers: int
    pin: bool
    non_blocking: bool


def bring(setting, non_blocking):
    """What the training loop does with torch's batch."""
    def to_device(batch):
        return first_of(batch).to(setting.torch_device, non_blocking=non_blocking)
    return to_device


def ways_of_torch(setting):
    flags = (False, True) if setting.gpu else (False,)
    return [Way(workers, pin, non_blocking) for workers in (0, 2) for pin in flags for non_blocking in flags]


def transfer_ms(setting, batches, to_device):
    """Median time that the GPU's stream spends between having what comes before and having the batch. For torch that is
    .to(); for feedd, which has copied before it is asked, all of next()."""
    pairs = []
    for _ in range(TRANSFERS):
        batch = next(batches) if to_device else None
        if setting.gpu:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            batch = to_device(batch) if to_device else next(batches)
            end.record()
        else:
            begin = time.perf_counter()
            batch = to_device(batch) if to_device else next(batches)
            end = time.perf_counter()
        pairs.append((begin, end))
    setting.wait()
    return median((end - begin) * 1e3 if not setting.gpu else begin.elapsed_time(end) for begin, end in pairs)


def torch_job(setting, rows, work, way, *, batched=False, seconds=None):
    to_device = bring(setting, way.non_blocking)

    def measure():
        with running(torch_loader(rows, BATCH, way.workers, pin=way.pin, batched=batched)) as batches:
            found = rate(setting, batches, lambda batch: work(to_device(batch)), seconds or setting.seconds,
                         warm=8 + 4 * way.workers)
            return found, None if seconds else transfer_ms(setting, batches, to_device)
    return measure


def feedd_job(setting, work, *, seconds=None):
    def measure():
        loader = feedd.DataLoader("rows", BATCH, shuffle=True, drop_last=True, device=setting.feedd_device)
        with running(loader) as batches:
            found = rate(setting, batches, lambda batch: work(batch[0]), seconds or setting.seconds, warm=128)
            return found, None if seconds else transfer_ms(setting, batches, None)
    return measure


def look(setting, rows, path, work):
    """The search: torch's number of workers, per sample and by whole batches; feedd's loaders and ring."""
    seconds = setting.look_seconds

    def of_torch(side, workers):
        way = Way(workers, setting.gpu, setting.gpu)
        return torch_job(setting, rows, work, way, batched=side == BATCHED, seconds=seconds)()[0]
    best, tried = best_workers(setting, of_torch)
    chosen, tried_feedd = best_feedd(setting, path, COLUMNS, lambda: feedd_job(setting, work, seconds=seconds)()[0])
    ways = {side: Way(workers, setting.gpu, setting.gpu) for side, workers in best.items()}
    return ways, chosen, tried + tried_feedd


def same_bytes(setting, rows):
    """Both sides give each sample of an epoch once: sums of columns, which are exact, are equal."""
    sums = []
    wanted = rows.sum(0, dtype=torch.float64)
    for loader in (torch_loader(rows, BATCH, 0, batched=True),
                   feedd.DataLoader("rows", BATCH, shuffle=True, device=setting.feedd_device)):
        total = torch.zeros(COLUMNS, dtype=torch.float64, device=setting.torch_device)
        for batch in loader:
            total += first_of(batch).to(setting.torch_device).sum(0, dtype=torch.float64)
        sums.append(total.cpu())
        del batch
        if hasattr(loader, "close"):
            loader.close()
    return all(torch.equal(total, wanted) for total in sums)


def side_by_side(setting, report, work, more=None):
    """The whole comparison, with `work` on each batch. Returns (GB/s of torch's best with samples taken one
    by one, of its best with whole batches, of feedd)."""
    path = floats(setting)
    rows = loaded_rows(path, COLUMNS)
    best, chosen, tried = look(setting, rows, path, work)
    jobs = {(PLAIN, way): torch_job(setting, rows, work, way) for way in ways_of_torch(setting)}
    jobs["torch, more workers", best[PLAIN]] = torch_job(setting, rows, work, best[PLAIN])
    jobs[BATCHED, best[BATCHED]] = torch_job(setting, rows, work, best[BATCHED], batched=True)
    jobs.update(more or {})
    with setting.feedd({"rows": floats_dataset(path, COLUMNS)}, **chosen):
        if not same_bytes(setting, rows):
            raise BenchError("the two sides did not give the same samples")
        jobs["feedd", None] = feedd_job(setting, work)
        results = in_turn(setting.rounds, jobs)
    table = [row_of(side, way, chosen, found) for (side, way), found in results.items()]
    by_side = {}
    for row in table:
        by_side[row["side"]] = max(by_side.get(row["side"], 0), row["gb"])
    for row in table:
        row["times"] = row["gb"] / by_side[PLAIN]
    report.table(f"batches of 1 MiB to {setting.device}: medians of {setting.rounds} rounds in turn",
                 {"side": "side", "setting": "setting", "gb": "GB/s", "rate": "batches/s", "ms": "transfer ms",
                  "times": "x torch's best"},
                 table, draw={"kind": "bars", "x": ["side", "setting"], "y": "gb", "log": True})
    report.table("the search for settings (short runs)",
                 {"side": "side", "setting": "setting", "rate": "batches/s"}, tried)
    torch_best = max(by_side[PLAIN], by_side["torch, more workers"])
    return torch_best, by_side[BATCHED], by_side["feedd"]


def row_of(side, way, chosen, found):
    rates = [value for value, _ in found]
    times = [value for _, value in found if value is not None]
    text = described(chosen) if side == "feedd" else "resident" if way is None else (
        f"workers {way.workers}, pin {'on' if way.pin else 'off'},"
        f" non_blocking {'on' if way.non_blocking else 'off'}")
    return {"side": side, "setting": text, "gb": median(rates) * BATCH_BYTES / 1e9, "rate": median(rates),
            "ms": median(times) if times else None, "rounds": rates}


def nothing(batch):
    return batch


def measure(setting, report):
    plain, batched, ours = side_by_side(setting, report, nothing)
    report.goal(f"feedd {GOAL:.0f} times DataLoader's best throughput, samples taken one by one",
                f"{ours / plain:.1f} times", ours >= GOAL * plain)
    report.goal(f"feedd {GOAL:.0f} times DataLoader's best throughput, whole batches by __getitems__",
                f"{ours / batched:.1f} times", ours >= GOAL * batched)
    report.note("torch has read the whole file into memory before the clock starts, feedd reads it from the page cache;"
                " both sides shuffle; transfer ms are of CUDA events around .to() for torch, and around next() for"
                " feedd, which has copied before")


