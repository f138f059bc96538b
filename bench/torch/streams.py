"""Copies to the GPU, products and copies back: one after the other, over several streams, and fed by feedd."""

import contextlib
import time

import feedd
import numpy
import torch

from copiers import copiers
from data import floats, floats_dataset
from harness import BenchError, endless, in_turn, median
from loaders import described

QUESTION = "copy to the GPU, multiply, copy back: what do several streams gain, and what does feedd?"
SIDE = 2048
CHUNKS = 32
PASSES = 4  # in one measurement, so that what a ring holds before it begins is little
AHEAD = 6  # batches: as many as streams hold, and some to come
STREAMS = (2, 3, 4)
SEVERAL = 3  # streams, where the reasons are looked for
SEQUENTIAL, STREAMED, FED = "torch, one after the other", "torch, streams", "feedd"
NOT_BACK = ", without the copy back"


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
        self.products = {}  # the first and the last, where none is copied back
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

    def keep(self, i, product, back):
        """Copies the product back; or else keeps it where it is, if it will be looked at."""
        if back:
            self.results[i].copy_(product, non_blocking=True)
        elif i in (0, self.chunks - 1):
            self.products[i] = product

    def overlapped(self, count, back=True):
        """Chunks on streams in turn; nothing waits but the end."""
        for i in self.order:
            with self.stream(i % count):
                chunk = self.source[i].to(self.device, non_blocking=True)
                self.keep(i, chunk @ self.matrix, back)
        return self.results if back else self.products

    def fed(self, loader, count, back=True):
        """The same loop, but the chunks come from feedd, which reads them from the file at the same time."""
        batches = endless(loader)
        for i in self.order:
            with self.stream(i % count):
                (chunk,) = next(batches)
                self.keep(i, chunk @ self.matrix, back)
                del chunk
        return self.results if back else self.products

    def overlapped_beside(self, others, count):
        """overlapped(), while what others copy is counted."""
        with others.counted():
            results = self.overlapped(count)
            self.setting.wait()
        return results

    def timed(self, run, *arguments):
        """Seconds per pass, over several passes; wrong results are an error."""
        self.results.zero_()
        self.pageable_results.zero_()
        self.products.clear()
        self.setting.wait()
        began = time.perf_counter()
        results = run(*arguments)
        self.setting.wait()
        seconds = time.perf_counter() - began
        for i in (0, self.chunks - 1):
            if not torch.equal(results[i].cpu(), self.pageable[i].roll(-1, 1) * 0.5):
                raise BenchError("the results are wrong")
        return seconds / PASSES


def streams(count):
    return f"{count} stream{'s' if count > 1 else ''}"


def disturbed(others):
    return f"{STREAMED}, beside {len(others.helpers)} processes that copy as much"


def plan(work, loader, others, fed_by):
    """The rows, {(side, setting): what measures it once}."""
    def beside():
        with others.at_work():
            return work.timed(work.overlapped_beside, others, SEVERAL)

    def streamed(count, back=True):
        return lambda: work.timed(work.overlapped, count, back)

    def fed(count, back=True):
        return lambda: work.timed(work.fed, loader, count, back)
    return {(SEQUENTIAL, "pageable"): lambda: work.timed(work.sequential, False),
            (SEQUENTIAL, "pinned"): lambda: work.timed(work.sequential, True),
            **{(STREAMED, f"{streams(count)}, pinned"): streamed(count) for count in STREAMS},
            (disturbed(others), f"{streams(SEVERAL)}, pinned"): beside,
            **{(FED, f"{streams(count)}, {fed_by}"): fed(count) for count in (1, *STREAMS)},
            (STREAMED + NOT_BACK, f"{streams(SEVERAL)}, pinned"): streamed(SEVERAL, False),
            (FED + NOT_BACK, f"{streams(SEVERAL)}, {fed_by}"): fed(SEVERAL, False)}


def measure(setting, report):
    side, chunks = (SIDE, CHUNKS) if setting.gpu else (512, 8)
    path = floats(setting, side * side * chunks)
    work = Work(setting, path, side, chunks)
    mib = side * side * 4 / 2**20
    chosen = {"loaders": max(2, min(12, setting.cores - 4)), "ring": int(4 * mib) * 2**20}
    with setting.feedd({"rows": floats_dataset(path, side)}, **chosen), \
            feedd.DataLoader("rows", side, device=setting.feedd_device, prefetch_factor=AHEAD) as loader, \
            copiers(setting, path, chosen["loaders"], chosen["ring"]) as others:
        jobs = plan(work, loader, others, f"prefetch_factor {AHEAD}, {described(chosen)}")
        warm = in_turn(1, jobs)
        others.rate = chunks * mib * 2**20 / min(found[0] for (who, _), found in warm.items() if who == FED)
        others.rates.clear()
        results = in_turn(setting.rounds + 2, jobs)
    write(setting, report, results, mib, chunks, others)


def write(setting, report, results, mib, chunks, others):
    first = median(results[SEQUENTIAL, "pageable"])
    rows = []
    for (side, what), found in results.items():
        ms = median(found) * 1e3
        rows.append({"side": side, "setting": what, "ms": ms, "gb": chunks * mib * 2**20 / ms / 1e6,
                     "times": None if side.endswith(NOT_BACK) else first * 1e3 / ms, "rounds": found})
    copied = median(others.rates) / 1e9
    beside = next(row for row in rows if row["side"] == disturbed(others))
    beside.update(setting=f"{beside['setting']}; they copied {copied:.1f} GB/s", copied=others.rates)
    report.table(f"{chunks} chunks of {mib:.0f} MiB, {PASSES} times: medians of {setting.rounds + 2} rounds in turn",
                 {"side": "side", "setting": "setting", "ms": "ms a pass", "gb": "GB/s in", "times": "x first row"},
                 rows, draw={"kind": "bars", "x": ["side", "setting"], "y": "ms", "log": setting.gpu})
    notes(setting, report, rows, beside, chunks)


def notes(setting, report, rows, beside, chunks):
    best = {}
    for row in rows:
        best[row["side"]] = min(best.get(row["side"], row["ms"]), row["ms"])
    report.note(f"best of each: one after the other {best[SEQUENTIAL]:.1f} ms, streams {best[STREAMED]:.1f} ms, feedd"
                f" {best[FED]:.1f} ms; without the copy back streams {best[STREAMED + NOT_BACK]:.1f} ms, feedd"
                f" {best[FED + NOT_BACK]:.1f} ms; streams while others copy {beside['ms']:.1f} ms")
    report.note("torch has all chunks in memory, pinned but for the first row, before the clock starts; feedd reads the"
                f" file from the page cache, and has up to 12 of {PASSES * chunks} chunks in its ring and on the GPU"
                " when the clock starts. Results go to pinned memory (pageable in the first row) and are checked;"
                " without the copy back two products are, after the clock has stopped")
    report.note("the processes that copy as much are as many as feedd's loaders; each copies from a map of the same file"
                " into a ring of the same size that they share, paced so that all together copy what feedd's best row"
                " brought in the round to warm up; what they did copy was counted while the clock ran. They stand still"
                " otherwise")
    if not setting.gpu:
        report.note("without a GPU there are no streams; apart from that, the loops are the same")
