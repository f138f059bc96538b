"""The same with work for the GPU: a matrix product on each batch."""

import torch

import transfer
from harness import rate

QUESTION = "and with batch @ (batch.T)**8 on each batch of 256 x 1024 floats?"


def work(batch):
    return batch @ batch.T ** 8


def resident_job(setting):
    """The product alone, on a batch that is already there: no loader can be faster."""
    batch = torch.ones(transfer.BATCH, transfer.COLUMNS, device=setting.torch_device)

    def batches():
        while True:
            yield batch
    return lambda: (rate(setting, batches(), work, setting.seconds, warm=64), None)


def measure(setting, report):
    plain, batched, ours = transfer.side_by_side(setting, report, work, {("no loader", None): resident_job(setting)})
    report.note(f"feedd against DataLoader's best: {ours / plain:.1f} times with samples taken one by one,"
                f" {ours / batched:.1f} times with whole batches by __getitems__; no loader: the product alone, repeated"
                " on one batch that is already where it is needed")
