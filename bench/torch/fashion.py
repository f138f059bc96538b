"""Fashion-MNIST: torch's dataset, feedd's, and the network."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from data import read_idx
from loaders import as_is

MEAN, STD = 0.2860, 0.3530
PARTS = {"train": "train", "test": "t10k"}


def files(folder, part):
    return [os.path.join(folder, f"{PARTS[part]}-{name}-ubyte") for name in ("images-idx3", "labels-idx1")]


def load(folder, part):
    """Bytes of images and labels, in memory."""
    images, labels = (torch.from_numpy(read_idx(path)) for path in files(folder, part))
    return images, labels.long()


def normalise(images):
    """Bytes [n, 28, 28] as the network wants them."""
    return images.to(torch.float32).div_(255).sub_(MEAN).div_(STD).unsqueeze(-3)


class Images(Dataset):
    """As torchvision's, after ToTensor and Normalize."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return normalise(self.images[index]), self.labels[index]


class ImageBatches(Images):
    def __getitems__(self, indices):
        chosen = torch.tensor(indices)
        return normalise(self.images[chosen]), self.labels[chosen]


def torch_loader(images, labels, batch_size, workers, *, pin, batched, seed):
    return DataLoader((ImageBatches if batched else Images)(images, labels), batch_size, shuffle=True, drop_last=True,
                      num_workers=workers, pin_memory=pin, persistent_workers=workers > 0,
                      collate_fn=as_is if batched else None, generator=torch.Generator().manual_seed(seed))


def feedd_dataset(folder):
    images, labels = files(folder, "train")
    return {"format": "idx", "field.image": images, "field.label": labels,
            "transform.image": f"scale {1 / 255!r}, mean {MEAN}, std {STD}"}


def network():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))


def small_network():
    """For a CPU."""
    return nn.Sequential(nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 12 * 12, 10))


def accuracy(model, images, labels, batch_size=1000):
    model.eval()
    right = 0
    with torch.no_grad():
        for some, wanted in zip(images.split(batch_size), labels.split(batch_size)):
            right += (model(normalise(some)).argmax(1) == wanted).sum()
    model.train()
    return int(right) / len(images)
