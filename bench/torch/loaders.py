"""torch's side as its documentation says to write it, and the search for the best setting of either side."""

import contextlib
import functools
import gc

import numpy
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from data import floats_dataset
from harness import MIB, endless

PLAIN, BATCHED = "torch", "torch, __getitems__"  # samples taken one by one, whole batches


def loaded_rows(path, columns):
    """The whole file as a tensor in memory, which is as fast as torch can have it: workers share it."""
    return torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32)).view(-1, columns)


class Rows(Dataset):
    """Rows in memory; subclasses say how they are taken."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)


class BatchedRows(Rows):
    """The rows as they are, but a whole batch is taken at once: what __getitems__ is for."""

    def __getitems__(self, indices):
        return self.rows[torch.tensor(indices)]


def as_is(batch):
    return batch


def torch_loader(rows, batch_size, workers, *, pin=False, batched=False, shuffle=True, drop_last=True):
    dataset = BatchedRows(rows) if batched else TensorDataset(rows)
    return DataLoader(dataset, batch_size, shuffle=shuffle, drop_last=drop_last, num_workers=workers, pin_memory=pin,
                      persistent_workers=workers > 0, collate_fn=as_is if batched else None)


@contextlib.contextmanager
def running(loader):
    """Its batches without end, for a block at whose end its workers are gone."""
    batches = endless(loader)
    try:
        yield batches
    finally:
        batches.close()
        if hasattr(loader, "close"):
            loader.close()
        elif isinstance(loader, DataLoader):
            loader._iterator = None  # which ends persistent workers
        gc.collect()


FEEDD_LOOK = ((4, None, None), (8, None, None), (8, 64 * MIB, 256 * MIB), (12, 64 * MIB, 256 * MIB))


def feedd_settings(setting):
    """Settings of [feedd] to try: loaders, ring and pool."""
    most = max(2, setting.cores - 2)
    found = []
    for loaders, ring, pool in FEEDD_LOOK[1:3] if setting.quick else FEEDD_LOOK:
        chosen = {"loaders": min(loaders, most)}
        if ring:
            chosen["ring"] = ring
        if pool and setting.gpu:
            chosen["device_pool"] = pool
        if chosen not in found:
            found.append(chosen)
    return found


def best_of(side, choices, measure):
    """The search: measure(**settings) gives a rate for each of the choices. Returns the best of them, and all as rows."""
    tried = [(measure(**chosen), chosen) for chosen in choices]
    rows = [{"side": side, "setting": described(chosen), "rate": found} for found, chosen in tried]
    return max(tried, key=lambda pair: pair[0])[1], rows


def best_workers(setting, measure, counts=(0, 2, 4, 8)):
    """For either way of torch: measure(side, workers=count) gives a rate. Returns {side: the best count}, and all as
    rows."""
    best, rows = {}, []
    for side in (PLAIN, BATCHED):
        choices = [{"workers": count} for count in setting.counts(counts)]
        chosen, tried = best_of(side, choices, functools.partial(measure, side))
        best[side] = chosen["workers"]
        rows += tried
    return best, rows


def best_feedd(setting, path, columns, measure):
    """Loaders, ring and pool: measure() gives a rate of the dataset `rows`. Returns the best settings, and all as
    rows."""
    def with_daemon(**chosen):
        with setting.feedd({"rows": floats_dataset(path, columns)}, **chosen):
            return measure()
    return best_of("feedd", feedd_settings(setting), with_daemon)


def described(chosen):
    """Settings in a few letters, sizes in MiB."""
    return ", ".join(f"{key} {value // MIB}M" if value >= MIB else f"{key} {value}" for key, value in chosen.items())
