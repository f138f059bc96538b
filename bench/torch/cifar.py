"""CIFAR-100 as torchvision has it: in memory, to-tensor and normalise for each image; and for whole batches."""

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

from data import CIFAR_MEAN, CIFAR_RECORD, CIFAR_STD
from loaders import as_is

BATCH = 64


class Images(Dataset):
    def __init__(self, path):
        self.records = numpy.fromfile(path, dtype=numpy.uint8).reshape(-1, CIFAR_RECORD)
        self.mean = torch.tensor(CIFAR_MEAN).view(3, 1, 1)
        self.std = torch.tensor(CIFAR_STD).view(3, 1, 1)

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        record = self.records[index]
        image = torch.from_numpy(record[2:]).view(3, 32, 32).to(torch.float32)
        return image.div_(255).sub_(self.mean).div_(self.std), int(record[1])


class ImageBatches(Images):
    def __getitems__(self, indices):
        records = torch.from_numpy(self.records[indices])
        images = records[:, 2:].to(torch.float32).view(-1, 3, 32, 32)
        return images.div_(255).sub_(self.mean).div_(self.std), records[:, 1].long()


def loader(path, workers, batched=False, context=None):
    dataset = (ImageBatches if batched else Images)(path)
    return DataLoader(dataset, BATCH, shuffle=True, drop_last=True, num_workers=workers, persistent_workers=workers > 0,
                      collate_fn=as_is if batched else None, multiprocessing_context=context)
