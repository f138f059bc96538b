"""Photographs for the experiments with images: made by ../photographs.py, or cut into 200 classes; torch's side of both."""

import concurrent.futures
import os
import pathlib

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

from harness import read_to_cache  # which makes the next two importable

import photographs
from image_peers import MEAN, STD, import_torchvision

CLASSES = 200
NORMALISE = "scale 1/255, mean 0.485 0.456 0.406, std 0.229 0.224 0.225"
WINDOW = 0.3  # of a photograph's shorter side: what a class shows, more or less


# ---- Files -------------------------------------------------------------------------------------------------


def warm(folder):
    for path in pathlib.Path(folder).rglob("*.jpg"):
        read_to_cache(path)
    return folder


def plain(setting):
    """The folder of 2,048 photographs of ImageNet's sizes, in the page cache."""
    folder = pathlib.Path(setting.data, "photographs", "imagenet")
    if not folder.is_dir():
        photographs.write(folder, 256 if setting.quick else 2048, photographs.small)
    return warm(folder)


def sample_of(path, number, part):
    """A view of what the class shows, larger or smaller, shifted, darker or brighter, with grain; written to the path."""
    label, name = int(path.parent.name), int(path.stem)
    dice = numpy.random.default_rng([label, name, part])
    every = photographs.find_photographs()
    photograph, cell = every[label % len(every)], label // len(every)
    side = WINDOW * min(photograph.size) * dice.uniform(0.8, 1.25)
    wide, high = side * 4 / 3, side
    # Classes of a photograph are about windows on a grid of 6 x 5.
    left = (photograph.width - wide) * (cell % 6) / 5 + dice.normal(0, 0.08) * side
    top = (photograph.height - high) * (cell // 6) / 4 + dice.normal(0, 0.08) * side
    left, top = max(0, min(left, photograph.width - wide)), max(0, min(top, photograph.height - high))
    image = photograph.resize((500, 375), box=(left, top, left + wide, top + high))
    pixels = numpy.asarray(image) * dice.uniform(0.7, 1.3) + dice.normal(0, 8, (375, 500, 1))
    image = photographs.Image.fromarray(numpy.clip(pixels, 0, 255).astype(numpy.uint8))
    path.write_bytes(photographs.encode(image, 90))


def classes(setting, train, test):
    """The folders `train` and `test`, with so many images of each of 200 classes, in the page cache."""
    root = pathlib.Path(setting.data, f"photograph-classes-{train}-{test}")
    paths = [[root / part / f"{label:03}" / f"{name:04}.jpg" for label in range(CLASSES) for name in range(count)]
             for part, count in (("train", train), ("test", test))]
    if not (root / "whole").exists():
        photographs.find_photographs()
        for path in (path for part in paths for path in part):
            path.parent.mkdir(parents=True, exist_ok=True)
        with concurrent.futures.ProcessPoolExecutor(setting.cores) as pool:
            for part, some in enumerate(paths):
                list(pool.map(sample_of, some, range(len(some)), [part] * len(some), chunksize=32))
        (root / "whole").touch()
    warm(root)
    return str(root / "train"), str(root / "test")


# ---- feedd and torch -----------------------------------------------------------------------------------------


def training_steps(side, area):
    """For feedd. Channels last in memory is what convolutions on a GPU want."""
    return f"random_resized_crop {side} area {area} 1, flip 0.5, {NORMALISE}, layout hwc, cast f16"


def feedd_dataset(folder, steps):
    return {"format": "folder", "path": folder, "field.image": "bytes @ file", "transform.image": steps}


def feedd_classes(folder, steps):
    return {**feedd_dataset(folder, steps), "field.label": "i64 @ class"}


def channels_first(images):
    """[N,H,W,C] as the [N,C,H,W] that it also is."""
    return images.permute(0, 3, 1, 2)


class Photographs(Dataset):
    """As torchvision's ImageFolder: files, their classes, and a transform of Pillow's image or, if `native`, of the tensor that
    torchvision decodes."""

    def __init__(self, folder, transform, native=False):
        self.paths = sorted(str(path) for path in pathlib.Path(folder).rglob("*.jpg"))
        names = sorted({os.path.dirname(path) for path in self.paths})
        self.labels = [names.index(os.path.dirname(path)) for path in self.paths]
        self.transform, self.native = transform, native

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        if self.native:
            from torchvision import io
            image = io.decode_jpeg(io.read_file(self.paths[index]), mode=io.ImageReadMode.RGB)
            return self.transform(image), self.labels[index]
        from PIL import Image
        with Image.open(self.paths[index]) as image:
            return self.transform(image.convert("RGB")), self.labels[index]


def torch_steps(side, area, native=False):
    """The same as training_steps() by torchvision."""
    _, v2, _ = import_torchvision()
    return v2.Compose([
        v2.RandomResizedCrop(side, scale=(area, 1), antialias=True), v2.RandomHorizontalFlip(),
        *([] if native else [v2.PILToTensor()]),
        v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), v2.ToDtype(torch.float16)])  # fmt: skip


def torch_test_steps(side):
    _, v2, _ = import_torchvision()
    return v2.Compose([v2.Resize(side * 8 // 7), v2.CenterCrop(side), v2.PILToTensor(),
                       v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), v2.ToDtype(torch.float16)])  # fmt: skip


def native_works():
    """Whether torchvision can decode JPEG here: beside a PyTorch for CPUs, a build for CUDA cannot."""
    import_torchvision()
    from torchvision import io
    try:
        io.decode_jpeg(io.encode_jpeg(torch.zeros(3, 8, 8, dtype=torch.uint8)))
    except RuntimeError:
        return False
    return True


def one_thread(_):
    torch.set_num_threads(1)


def torch_loader(dataset, batch_size, workers, *, pin, seed=0, shuffle=True):
    return DataLoader(dataset, batch_size, shuffle=shuffle, drop_last=shuffle, num_workers=workers, pin_memory=pin,
                      persistent_workers=workers > 0, worker_init_fn=one_thread, generator=torch.Generator().manual_seed(seed))
