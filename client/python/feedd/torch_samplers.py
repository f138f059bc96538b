"""The ``sampler`` and ``batch_sampler`` of a loader: torch's classes, in which programs and frameworks find how it orders, cuts
and shares out its samples. Needs PyTorch."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from .place import Place

if TYPE_CHECKING:
    from .loader import DataLoader


class LoaderSampler(DistributedSampler[Any]):
    """Says what the daemon does for this rank. It is a DistributedSampler, also with one rank, so that frameworks do not share
    out once more what is shared out already."""

    def __init__(self, loader: "DataLoader") -> None:
        self.loader = loader
        self.dataset = self.data_source = loader.dataset  # type: ignore[assignment]
        self.shuffle, self.drop_last, self.seed = loader.shuffle, loader.drop_last, loader.seed

    @property
    def rank(self) -> int:  # type: ignore[override]
        return self.loader._ranks.rank

    @property
    def num_replicas(self) -> int:  # type: ignore[override]
        return self.loader._ranks.world_size

    @property
    def epoch(self) -> int:  # type: ignore[override]
        return self.loader.epoch

    @property
    def total_size(self) -> int:  # type: ignore[override]
        """Samples of an epoch, for all ranks together."""
        samples, step = self.loader.samples, self.loader.batch_size * self.num_replicas
        return samples - samples % step if self.drop_last else samples

    @property
    def num_samples(self) -> int:  # type: ignore[override]
        """Samples of an epoch, for this rank: what does not fill a batch of each is shared out as evenly as possible."""
        batch = self.loader.batch_size
        whole, rest = divmod(self.total_size, batch * self.num_replicas)
        each, more = divmod(rest, self.num_replicas)
        return whole * batch + each + (self.rank < more)

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("the daemon makes the order of samples: iterate over the feedd.DataLoader, or take its batch_sampler"
                        " along with its dataset and collate_fn")

    def set_epoch(self, epoch: int) -> None:
        """As torch's, it leaves an iteration alone that is in that epoch already."""
        if epoch != self.loader._epoch:
            self.loader.set_epoch(epoch)


class ShuffledSampler(LoaderSampler, RandomSampler):  # type: ignore[misc]
    """With ``shuffle=True``."""

    replacement = False
    generator = None


class InOrderSampler(LoaderSampler, SequentialSampler):  # type: ignore[misc]
    """With ``shuffle=False``."""


class LoaderBatchSampler(BatchSampler):
    """The places of a whole epoch's batches. With the loader's ``dataset`` and ``collate_fn``, torch's DataLoader makes of them
    what the loader itself would have delivered, and batches that are skipped are not read."""

    even_batches = False  # for Accelerate: no sample is repeated to make the ranks' parts equal

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:  # frameworks make it anew with these arguments
        self.sampler: Any = sampler
        self.batch_size, self.drop_last = batch_size, drop_last

    def __len__(self) -> int:
        return len(self.sampler.loader)

    def set_epoch(self, epoch: int) -> None:
        self.sampler.loader.set_epoch(epoch)

    def __iter__(self) -> Iterator[Any]:
        loader: DataLoader = self.sampler.loader
        loader._iterated.begin()
        try:
            epoch, step = loader._next_epoch(), loader.batch_size * self.sampler.num_replicas
            for number in range(len(loader)):
                yield Place(loader, epoch, number * step)
        finally:
            loader._iterated.end()


def sampler_of(loader: "DataLoader") -> LoaderSampler:
    return (ShuffledSampler if loader.shuffle else InOrderSampler)(loader)


def loaders_own(batches: Any) -> LoaderBatchSampler | None:
    """The ``batch_sampler`` of a loader that this is, or that it wraps, as those of frameworks do."""
    for _ in range(5):
        if batches is None or isinstance(batches, LoaderBatchSampler):
            return batches
        inner = getattr(batches, "batch_sampler", None)
        batches = getattr(batches, "_batch_sampler", None) if inner is None else inner
    return None
