"""Places in epochs. torch's batch samplers give lists of sample numbers to a dataset; a loader's gives places, each of which
stands for the batch that lies there. So what is built from a loader's parts has its batches."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loader import DataLoader


@dataclass(frozen=True)
class Fetched:
    """A batch that is whole: nothing is left to collate."""

    tensors: Any


@dataclass(frozen=True)
class Place:
    """Where a batch lies: its epoch, and how many samples all ranks have consumed of that before it."""

    loader: "DataLoader"
    epoch: int
    consumed: int

    def fetch(self) -> Fetched:
        return Fetched(self.loader._fetch(self.epoch, self.consumed))


def collated(samples: Any) -> Any:
    """The ``collate_fn`` of a loader: its own batches stay as they are; single samples are put together as torch does it."""
    if isinstance(samples, Fetched):
        return samples.tensors
    from torch.utils.data import default_collate

    return default_collate(samples)
