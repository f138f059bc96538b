"""A small residual network on 200 classes of photographs: accuracy, time, how long the GPU waits; killed and resumed."""

import feedd
import torch
from torch import nn

import photos
from loaders import PLAIN, best_of
from resnet import resnet
from training import resumed, same_accuracy, tables, timed_steps

QUESTION = "a small residual network on 200 classes of photographs: same accuracy, how fast, and how long does the GPU wait?"
SEEDS = (1, 2, 3)
AREA = 0.35
RESUME_SIDE = 64
ALONE = "no loader, one batch"
CACHED, BY_ENGINE = "feedd, decoded once", "feedd, decoded by the GPU's engine"
CACHE = {"cache": "4G", "cache_size": 256}


class Trainer:
    def __init__(self, setting, folder, test):
        self.setting = setting
        self.device = setting.torch_device
        self.folder = folder
        self.side, self.width, self.batch = (224, 64, 128) if setting.gpu else (64, 8, 32)
        self.rate = 0.1 if setting.gpu else 0.05
        self.train_set = photos.Photographs(folder, photos.torch_steps(self.side, AREA))
        self.steps = len(self.train_set) // self.batch  # of an epoch
        self.epochs = (3 if setting.quick else 10) if setting.gpu else 1
        self.test = self.whole(photos.Photographs(test, photos.torch_test_steps(self.side)))

    def whole(self, dataset):
        """All of it on the device, whichever side has trained."""
        loader = photos.torch_loader(dataset, self.batch, self.setting.cores, pin=False, shuffle=False)
        images, labels = zip(*loader)
        return [self.bring(part)[0] for part in images], torch.cat(labels).to(self.device)

    def bring(self, *parts):
        parts = [part.to(self.device, non_blocking=True) for part in parts]
        return [part.to(memory_format=torch.channels_last) if part.dim() == 4 else part for part in parts]

    def forward(self, model, images):
        with torch.autocast(self.device.type, torch.bfloat16):
            return model(images)

    def from_torch(self, seed, workers):
        loader = photos.torch_loader(self.train_set, self.batch, workers, pin=self.setting.gpu, seed=seed)
        return loader, lambda batch: self.bring(*batch)

    def from_feedd(self, seed, dataset="classes"):
        loader = feedd.DataLoader(dataset, self.batch, shuffle=True, drop_last=True, seed=seed,
                                  device=self.setting.feedd_device)
        return loader, lambda batch: (photos.channels_first(batch[0]), batch[1])

    def one_batch(self, _):
        """No loader: the same batch again and again, which is all that the GPU can do."""
        images, labels = self.test[0][0], self.test[1][: self.batch]
        return [0] * self.steps, lambda _: (images, labels)

    def train(self, seed, source, *arguments, steps=None):
        """One whole run: what it took, and how good the network is."""
        torch.manual_seed(seed)
        total = steps or self.epochs * self.steps
        model = resnet(self.width, photos.CLASSES).to(self.device, memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(model.parameters(), lr=self.rate, momentum=0.9, weight_decay=5e-4, nesterov=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.rate, total_steps=total + 1)

        def step(images, labels):
            loss = nn.functional.cross_entropy(self.forward(model, images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()

        took = timed_steps(self.setting, source, (seed, *arguments), total, step)
        return {**took, "rate": total * self.batch / took["seconds"],
                "accuracy": None if steps else self.accuracy(model)}

    def accuracy(self, model):
        images, labels = self.test
        model.eval()
        with torch.no_grad():
            found = torch.cat([self.forward(model, some).argmax(1) for some in images])
        return (found == labels).float().mean().item()


def compare(setting, report, trainer, loaders):
    trainer.train(0, trainer.one_batch, steps=20)  # to warm up
    counts = [{"workers": count} for count in sorted({setting.cores // 2, setting.cores - 2, setting.cores} - {0})]
    short = 40 if setting.gpu else 4
    best, tried = best_of(PLAIN, counts, lambda workers: trainer.train(0, trainer.from_torch, workers, steps=short)["rate"])
    ways = {PLAIN: (f"workers {best['workers']}", trainer.from_torch, best["workers"]),
            "feedd": (f"loaders {loaders}", trainer.from_feedd),
            CACHED: (f"cache of {CACHE['cache']}, shorter side {CACHE['cache_size']}", trainer.from_feedd, "cached"),
            **({BY_ENGINE: (f"loaders {loaders}", trainer.from_feedd, "engine")} if setting.gpu else {}),
            ALONE: ("", trainer.one_batch)}
    seeds = SEEDS[:1] if setting.quick else SEEDS
    results = {side: [] for side in ways}
    for seed in seeds:
        for side, (_, *way) in ways.items():
            if seed == seeds[0] or side != ALONE:  # which learns nothing
                results[side].append(trainer.train(seed, *way))
    tables(setting, report, f"{trainer.epochs} epochs of {trainer.steps} batches of {trainer.batch}, {trainer.side} x"
           f" {trainer.side}, {len(seeds)} seeds in turn, medians", {side: ways[side][0] for side in ways}, results, tried,
           learns_nothing=ALONE)
    if not setting.quick:
        same_accuracy(report, results)


def measure(setting, report):
    train, test = (48, 8) if setting.gpu else (4, 1)
    folders = photos.classes(setting, train, test)
    torch.set_num_threads(1 if setting.gpu else setting.cores)
    loaders = max(2, min(14, setting.cores - 2))
    trainer = Trainer(setting, *folders)
    steps = photos.training_steps
    train_steps = steps(trainer.side, AREA)
    datasets = {"classes": photos.feedd_classes(folders[0], train_steps),
                "cached": {**photos.feedd_classes(folders[0], train_steps), **CACHE},
                **({"engine": photos.feedd_classes(folders[0], f"decode gpu, {train_steps}")} if setting.gpu else {}),
                "small": photos.feedd_classes(folders[0], steps(RESUME_SIDE, AREA))}
    with setting.feedd(datasets, loaders=loaders, index_folder=setting.data) as service:
        resumed(setting, report, service, "photographs", 60)
        compare(setting, report, trainer, loaders)
    report.note(f"{photos.CLASSES} classes: windows of photographs of scikit-image and scikit-learn, {train} training images of"
                " 500 x 375 each, shifted, scaled, darker or brighter, with grain (photos.py)")
    report.note("torch's side: torchvision's v2 transforms on Pillow's images, persistent workers, pinned memory; both sides:"
                " bfloat16, channels last, one-cycle learning rate")
    report.note("decoded once: all runs but the first find the photographs in the cache, at 256 pixels on the shorter side")
    if not setting.gpu:
        report.note("on a CPU the network is smaller and hardly learns in that time: accuracies say nothing")
    report.note("waits: share of the time from the first step to the last in which no step was in progress; copies to the GPU"
                " count as waiting, gaps between the kernels of a step do not")
