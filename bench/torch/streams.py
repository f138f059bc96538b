"""Copies to the GPU, products and copies back: one after the other, over several streams, and fed by feedd."""

import contextlib
import time

import feedd
import numpy
import torch

from data import floats, floats_dataset
from harness import endless, in_turn, median
from loaders import described

QUESTION = "copy to the GPU, multiply, copy back: what do several streams bring, and feedd?"
SIDE = 2048
CHUNKS = 32
PASSES = 4  # in one measurement, so that what a ring holds before it begins is little
AHEAD = 6  # batches: as many as streams hold, and some to come
STREAMS = (2, 3, 4)


class Work:
    """What both sides need: the numbers, a matrix on the device, and where results go."""

    def __init__(self, setting, path, side, chunks):
        self.setting, self.side, self.chunks = setting, side, chunks
        self.device = setting.torch_device
        self.order = list(range(chunks)) * PASSES
        rows = torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32)).view(chunks, side, side)
        self.source = rows.pin_memory() if setting.gpu else rows
        self.pageable = rows
        self.results = torch.empty_like(rows, pin_memory=setting.gpu)
        self.pageable_results = torch.empty_like(rows)
        self.matrix = torch.eye(side, device=self.device).roll(1, 0) * 0.5
        self.streams = [torch.cuda.Stream(self.device) for _ in range(max(STREAMS))] if setting.gpu else []

    def stream(self, number):
        return torch.cuda.stream(self.streams[number]) if self.streams else contextlib.nullcontext()

    def sequential(self, pinned):
        """What one writes first."""
        source, results = (self.source, self.results) if pinned else (self.pageable, self.pageable_results)
        for i in self.order:
            results[i].copy_(source[i].to(self.device) @ self.matrix)
        return results

    def overlapped(self, count):
        """Chunks on streams in turn; nothing waits but the end."""
        for i in self.order:
            with self.stream(i % count):
                chunk = self.source[i].to(self.device, non_blocking=True)
                self.results[i].copy_(chunk @ self.matrix, non_blocking=True)
        return self.results

    def fed(self, loader, count):
        """The same loop, but the chunks come from feedd, which reads them from the file meanwhile."""
        batches = endless(loader)
        for i in self.order:
            with self.stream(i % count):
                (chunk,) = next(batches)
                self.results[i].copy_(chunk @ self.matrix, non_blocking=True)
                del chunk
        return self.results

    def timed(self, run, *arguments):
        """Seconds of a pass, of several at once; the results are right or it is an error."""
        self.results.zero_()
        self.pageable_results.zero_()
        self.setting.wait()
        began = time.perf_counter()
        results = run(*arguments)
        self.setting.wait()
        seconds = time.perf_counter() - began
        last = self.pageable[-1].roll(-1, 1) * 0.5
        if not torch.equal(results[-1], last) or not torch.equal(results[0], self.pageable[0].roll(-1, 1) * 0.5):
            raise ValueError("the results are wrong")
        return seconds / PASSES


def measure(setting, report):
    side, chunks = (SIDE, CHUNKS) if setting.gpu else (512, 8)
    path = floats(setting, side * side * chunks)
    work = Work(setting, path, side, chunks)
    mib = side * side * 4 / 2**20
    chosen = {"loaders": max(2, min(12, setting.cores - 4)), "ring": int(4 * mib) * 2**20}
    jobs = {("torch, one after the other", "pageable"): lambda: work.timed(work.sequential, False),
            ("torch, one after the other", "pinned"): lambda: work.timed(work.sequential, True)}
    for count in STREAMS:
        jobs["torch, streams", f"{count} streams, pinned"] = lambda count=count: work.timed(work.overlapped, count)
    with setting.feedd({"rows": floats_dataset(path, side)}, **chosen):
        with feedd.DataLoader("rows", side, device=setting.feedd_device, prefetch_factor=AHEAD) as loader:
            for count in (1, *STREAMS):
                jobs["feedd", f"{count} streams, prefetch_factor {AHEAD}, {described(chosen)}"] = (
                    lambda count=count: work.timed(work.fed, loader, count))
            in_turn(1, jobs)  # to warm up
            results = in_turn(setting.rounds + 2, jobs)
    write(setting, report, results, mib, chunks)


def write(setting, report, results, mib, chunks):
    first = median(results["torch, one after the other", "pageable"])
    rows = [{"side": side, "setting": what, "ms": median(found) * 1e3, "gb": chunks * mib * 2**20 / median(found) / 1e9,
             "times": first / median(found), "rounds": found} for (side, what), found in results.items()]
    report.table(f"{chunks} chunks of {mib:.0f} MiB, {PASSES} times: medians of {setting.rounds + 2} rounds in turn",
                 {"side": "side", "setting": "setting", "ms": "ms a pass", "gb": "GB/s in, and out",
                  "times": "x first row"},
                 rows, draw={"kind": "bars", "x": ["side", "setting"], "y": "ms"})
    best = {}
    for row in rows:
        best[row["side"]] = min(best.get(row["side"], row["ms"]), row["ms"])
    report.note(f"best of each: one after the other {best['torch, one after the other']:.1f} ms, streams"
                f" {best['torch, streams']:.1f} ms, feedd {best['feedd']:.1f} ms")
    report.note("torch has all chunks in memory, pinned but for the first row, before the clock starts; feedd reads the"
                f" file from the page cache, and has up to 12 of {PASSES * chunks} chunks in its ring and on the GPU"
                " when the clock starts. Results go to pinned memory (pageable in the first row) and are checked")
    if not setting.gpu:
        report.note("without a GPU there are no streams: the loops are the same but for that")
