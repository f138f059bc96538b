"""A small convolutional network on Fashion-MNIST: accuracy, time, how long the GPU waits; killed and resumed."""

import os
import statistics
import subprocess
import tempfile
import time

import feedd
import torch
from torch import nn

import fashion
from data import fashion as fashion_files
from harness import BenchError, child_command, median, run_child
from loaders import BATCHED, PLAIN, best_workers, running
from resume import TASKS

QUESTION = "a small convolutional network on Fashion-MNIST: same accuracy, how fast, and how long does the GPU wait?"
BATCH = 256
SEEDS = (1, 2, 3)
RESUME_STEPS = 180
NOISE = 0.005


class Clock:
    """When steps began and ended: on the GPU by CUDA events, else by the clock."""

    def __init__(self, gpu):
        self.gpu = gpu
        self.marks = []

    def mark(self):
        if self.gpu:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def between(self, first, second):
        return first.elapsed_time(second) / 1e3 if self.gpu else second - first

    def idle(self):
        """Share of the time from the first step to the last that lies between steps."""
        busy = sum(self.between(begin, end) for begin, end in zip(self.marks[::2], self.marks[1::2]))
        return 1 - busy / self.between(self.marks[0], self.marks[-1])


def timed_steps(setting, source, arguments, total, step):
    """What so many steps took, from making the loader on. `source` returns it, and what makes images and labels of a batch."""
    clock = Clock(setting.gpu)
    setting.wait()
    began = time.perf_counter()
    loader, bring = source(*arguments)
    with running(loader) as batches:
        for _ in range(total):
            images, labels = bring(next(batches))
            clock.mark()
            step(images, labels)
            clock.mark()
            del images, labels
        setting.wait()
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "idle": clock.idle()}


class Trainer:
    def __init__(self, setting, folder):
        self.setting = setting
        self.device = setting.torch_device
        self.images, self.labels = fashion.load(folder, "train")
        test = fashion.load(folder, "test")
        self.test = [part.to(self.device) if setting.gpu else part[:2000] for part in test]
        self.epochs = (1 if setting.quick else 3) if setting.gpu else 1
        self.steps = len(self.images) // BATCH if setting.gpu else 20 if setting.quick else 60  # of an epoch

    def from_torch(self, seed, workers, batched):
        loader = fashion.torch_loader(self.images, self.labels, BATCH, workers, pin=self.setting.gpu, batched=batched,
                                      seed=seed)
        return loader, lambda batch: [part.to(self.device, non_blocking=True) for part in batch]

    def from_feedd(self, seed):
        loader = feedd.DataLoader("fashion", BATCH, shuffle=True, drop_last=True, seed=seed,
                                  device=self.setting.feedd_device)
        return loader, lambda batch: (batch[0].unsqueeze(1), batch[1].long())

    def resident(self, seed):
        """No loader: everything is already where it is needed. No loader can be faster."""
        images, labels = self.images.to(self.device), self.labels.to(self.device)
        random = torch.Generator().manual_seed(seed)

        class Shuffled:
            def __iter__(self):
                for chosen in torch.randperm(len(images), generator=random).to(images.device).split(BATCH):
                    if len(chosen) == BATCH:
                        yield chosen
        return Shuffled(), lambda chosen: (fashion.normalise(images[chosen]), labels[chosen])

    def train(self, seed, source, *arguments, steps=None):
        """One whole run: what it took, and how good the network is."""
        torch.manual_seed(seed)
        model = fashion.network().to(self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        total = steps or self.epochs * self.steps

        def step(images, labels):
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        took = timed_steps(self.setting, source, (seed, *arguments), total, step)
        return {**took, "rate": total * BATCH / took["seconds"],
                "accuracy": None if steps else fashion.accuracy(model, *self.test)}


def look(trainer, setting):
    """Workers for either way of torch, in runs of less than an epoch."""
    steps = min(trainer.steps, 60 if setting.gpu else 10)
    return best_workers(setting, lambda side, workers: trainer.train(0, trainer.from_torch, workers, side == BATCHED,
                                                                     steps=steps)["rate"])


def compare(setting, report, folder, loaders):
    trainer = Trainer(setting, folder)
    trainer.train(0, trainer.resident, steps=20)  # to warm up
    best, tried = look(trainer, setting)
    ways = {**{side: (f"workers {workers}", trainer.from_torch, workers, side == BATCHED)
               for side, workers in best.items()},
            "feedd": (f"loaders {loaders}", trainer.from_feedd),
            "no loader, all resident": ("", trainer.resident)}
    seeds = SEEDS[:2] if setting.quick else SEEDS
    results = {side: [] for side in ways}
    for seed in seeds:
        for side, (_, *way) in ways.items():
            results[side].append(trainer.train(seed, *way))
    tables(setting, report, f"{trainer.epochs} epochs of {trainer.steps} batches of {BATCH}, {len(seeds)} seeds in turn,"
           " medians", {side: ways[side][0] for side in ways}, results, tried)
    same_accuracy(report, results)


def row_of(side, setting, runs):
    accuracies = [100 * run["accuracy"] for run in runs]
    return {"side": side, "setting": setting, "accuracy": statistics.mean(accuracies),
            "range": f"{min(accuracies):.2f} to {max(accuracies):.2f}", "seconds": median(run["seconds"] for run in runs),
            "idle": 100 * median(run["idle"] for run in runs), "rate": median(run["rate"] for run in runs),
            "rounds": [run["seconds"] for run in runs]}


def tables(setting, report, title, settings, results, tried, learns_nothing=None):
    """`results`: {side: what Trainer.train() returned, for each seed}; `settings`: {side: words}."""
    rows = [row_of(side, settings[side], runs) for side, runs in results.items()]
    for row in rows:
        if row["side"] == learns_nothing:
            row.update(accuracy=None, range=None)
    report.table(title,
                 {"side": "side", "setting": "setting", "accuracy": "accuracy %", "range": "of all seeds",
                  "seconds": "seconds", "idle": "GPU waits %" if setting.gpu else "waits %", "rate": "images/s"},
                 rows, draw={"kind": "bars", "x": ["side", "setting"], "y": "seconds"})
    report.table("the search for settings (short runs)",
                 {"side": "side", "setting": "setting", "rate": "images/s"}, tried)


def same_accuracy(report, results):
    ours, theirs = ([run["accuracy"] for run in results[side]] for side in ("feedd", PLAIN))
    apart = abs(statistics.mean(ours) - statistics.mean(theirs))
    spread = 2 * ((statistics.variance(ours) + statistics.variance(theirs)) / len(ours)) ** 0.5
    report.goal("same accuracy as with DataLoader within noise (two standard errors, or half a percent point)",
                f"{100 * apart:.2f} percent points apart, two standard errors are {100 * spread:.2f}",
                apart <= max(NOISE, spread))


def read_losses(path):
    """Exact losses by step: those of the killed run, then those of the resumed run."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="ascii") as file:
        lines = [line.split() for line in file if line.endswith("\n")]
    return [(int(step), loss) for step, loss in lines]


def killed_at_half(setting, task):
    """Starts the job and kills it when half of its steps are done. Returns how many it had done."""
    process = subprocess.Popen(child_command("resume.py", setting, task), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    end = time.monotonic() + 90
    while len(read_losses(task["losses"])) <= task["steps"] // 2:
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise BenchError(f"the job ended before it was killed: {process.communicate()[1].decode()[-400:]}")
        time.sleep(0.002)
    process.kill()
    process.communicate()
    return len(read_losses(task["losses"]))


def resumed(setting, report, service, kind="fashion", steps=RESUME_STEPS):
    """A job that is not disturbed, and one that is killed and resumed: the same losses, bit for bit. `kind`: of resume.py."""
    with tempfile.TemporaryDirectory() as folder:
        def task(name):
            return {"kind": kind, "socket": service.socket, "seed": 5, "steps": steps,
                    "losses": os.path.join(folder, f"{name}.losses"), "checkpoint": os.path.join(folder, f"{name}.pt")}
        run_child("resume.py", setting, task("whole"))
        done = killed_at_half(setting, task("killed"))
        run_child("resume.py", setting, task("killed"))
        whole = dict(read_losses(task("whole")["losses"]))
        lines = read_losses(task("killed")["losses"])
        after = lines[done:]
        same = sum(whole.get(step) == loss for step, loss in lines)
    report.table(f"killed (SIGKILL) and resumed, on the CPU, {steps} steps of {TASKS[kind].batch}",
                 {"what": "what", "value": "steps"},
                 [{"what": "done when killed", "value": done},
                  {"what": "resumed at step", "value": after[0][0] if after else None},
                  {"what": "losses after that", "value": len(after)},
                  {"what": "equal bit for bit to those of the undisturbed run, before and after", "value": same},
                  {"what": "of", "value": len(lines)}])
    report.goal("after SIGKILL at half, losses continue bit for bit", f"{same} of {len(lines)} are equal",
                bool(after) and same == len(lines) and {step for step, _ in lines} == set(whole), gpu_alone=False)


def measure(setting, report):
    folder, what = fashion_files(setting)
    loaders = max(2, min(8, setting.cores - 4))
    with setting.feedd({"fashion": fashion.feedd_dataset(folder)}, loaders=loaders) as service:
        resumed(setting, report, service)
        compare(setting, report, folder, loaders)
    report.note(f"the data: {what}. Seconds are of whole runs, from making the loader on, workers' start included")
    report.note("waits: share of the time from the first step to the last in which no step was in progress, by "
                + ("CUDA events before the forward pass and after the optimizer of each step" if setting.gpu else
                   "the clock before and after each step") + "; copies to the GPU count as waiting, gaps between the"
                " kernels of a step do not")
    report.note("torch's DataLoader has no state to save: a job that is killed begins its epoch again or skips what it"
                " has seen")
