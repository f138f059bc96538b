"""Dataset: single samples, for looking at data."""

import errno
import operator
import os
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from . import frameworks
from ._feed import Array, Feed
from .arguments import explains, script_name
from .errors import from_code
from .place import Place
from .view import view_of
from .waiting import next_batch

if TYPE_CHECKING:
    from ._feed import Description


class Dataset:
    """The samples of a dataset by number, in the order of the files: each a tuple of tensors in field order (or a dict with
    ``as_dict=True``) with their own host memory.

    This is for looking at data: each sample costs a round trip to the daemon, though consecutive ones cost less. Train with
    ``DataLoader``, which accepts a Dataset in place of a name and whose ``dataset`` is one. The transforms in feedd.conf have
    been applied. The daemon is not contacted before something is asked for. Use it from one thread at a time. With ``split``,
    ``indices`` or ``weights``, as for a DataLoader, it has those samples, numbered from 0.
    """

    @explains
    def __init__(
        self, name: str, *, split: tuple[float, float] | None = None, split_seed: int | None = None, indices: Any = None,
        weights: Any = None, epoch_samples: int | None = None, framework: str | None = None, as_dict: bool = False,
        socket: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is not a dataset's name: declare its files in feedd.conf, or with feedd.serve(), and"
                            " give the name that they have there")
        self.name = name
        self.view = view_of(split, split_seed, indices, weights, epoch_samples)
        self.socket = None if socket is None else os.fspath(socket)
        self._as_dict = bool(as_dict)
        self.framework = frameworks.choose(framework, "cpu")
        self._feed: Feed | None = None
        self._next = 0  # the sample that the feed gives next
        self._owner = os.getpid()

    def _open(self, token: str | None) -> Feed:
        # Read ahead as little as possible: a sample that cannot be read must not fail those before it.
        view = None if self.view is None else self.view.packed()
        return Feed(
            self.name, 1, socket=self.socket, resume=token, prefetch=2, ring_bytes=1, client_name=script_name(), view=view
        )

    def _opened(self) -> Feed:
        if self._owner != os.getpid():  # in a fork, as a worker of torch's DataLoader: the feed is the parent's
            self.close()
            self._owner = os.getpid()
        if self._feed is None:
            self._feed = self._open(None)
        return self._feed

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_feed": None, "_next": 0}

    @cached_property
    def _about(self) -> "Description":
        return self._opened().describe()

    def _convert(self, array: Array) -> Any:
        if self.framework == "dlpack":
            raise ValueError("feedd.Dataset needs PyTorch, NumPy or JAX for its samples")
        values = frameworks.converter(self.framework, -1, True)(array)
        return values[0] if array.offsets is None else values

    @property
    def fields(self) -> tuple[tuple[str, str, tuple[int | None, ...]], ...]:
        """Name, dtype and shape of each field of a sample; a size that differs from sample to sample is None."""
        return tuple((field, dtype, shape[1:]) for field, dtype, shape in self._about["fields"])

    def __len__(self) -> int:
        return self._about["samples"]

    def __repr__(self) -> str:
        return f"feedd.Dataset({self.name!r})" if self.view is None else f"feedd.Dataset({self.name!r}, {self.view!r})"

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Sample ``index``, which may be negative; a slice gives a list. Raises ``IndexError``, or ``feedd.Error`` if the
        sample cannot be read."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = operator.index(index)
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(f"sample {index} of a dataset of {len(self)}")
        return self._read(number)

    def __getitems__(self, numbers: Any) -> Any:
        """For torch's DataLoader: several samples, or the batch at a place of a ``batch_sampler`` of ours."""
        return numbers.fetch() if isinstance(numbers, Place) else [self[number] for number in numbers]

    def close(self) -> None:
        """Disconnects from the daemon until the next sample is asked for."""
        if self._feed is not None:
            self._feed.close()
            self._feed = None
            self._next = 0

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def _read(self, number: int) -> Any:
        feed = self._opened()
        if number != self._next:
            token = feed.token_at(0, number)
            self.close()  # first, so that the daemon reuses its ring
            self._feed = self._open(token)
        self._next = -1
        batch = next_batch(self._opened(), -1, self.socket, "the storage may be slow, or the daemon may hang")
        if batch is None or batch.first_position != number:
            raise from_code(errno.EPROTO, f"the daemon gave another sample than {number}: is the dataset used by several"
                                          " threads?")
        self._next = number + 1 if number + 1 < len(self) else -1
        if batch.count == 0:
            raise from_code(errno.EIO, f"sample {number} of dataset {self.name} cannot be read: see the daemon's log")
        sample = tuple(self._convert(array) for array in batch.arrays())
        return dict(zip((name for name, _, _ in self.fields), sample)) if self._as_dict else sample


def dataset_of(given: dict[str, Any]) -> Dataset:
    """The Dataset that the arguments of a DataLoader name."""
    dataset, framework = given["dataset"], given["framework"]
    chosen = {name: given[name] for name in ("split", "split_seed", "indices", "weights", "epoch_samples")}
    if isinstance(dataset, Dataset) and all(value is None for value in chosen.values()):
        return dataset
    if isinstance(dataset, Dataset) and dataset.view is not None:
        raise ValueError(f"{dataset!r} is a part of a dataset already, and views cannot be nested: take samples of"
                         f" feedd.Dataset({dataset.name!r})")
    single = None if framework in ("cupy", "dlpack") else framework  # these have no samples in host memory
    name, socket = (dataset.name, dataset.socket) if isinstance(dataset, Dataset) else (dataset, given["socket"])
    return Dataset(name, framework=single, socket=socket, **chosen)
