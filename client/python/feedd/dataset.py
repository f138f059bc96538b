"""Dataset: single samples, for looking at data."""

import errno
import operator
import os
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from . import frameworks
from ._feed import Array, Feed
from .arguments import script_name
from .errors import from_code

if TYPE_CHECKING:
    from ._feed import Description


class Dataset:
    """The samples of a dataset by their number, each a tuple of tensors in field order (or a dict with ``as_dict=True``),
    with memory of their own, in host memory and in the order of the files.

    For looking at data: a sample costs a round trip to the daemon, neighbours in a row less. Training goes through
    ``DataLoader``, which also takes a Dataset for a name, and whose ``dataset`` is one. A transform of the dataset's
    configuration has been applied. The daemon is first asked when something is wanted. For one thread at a time.
    """

    def __init__(
        self, name: str, *, framework: str | None = None, as_dict: bool = False, socket: str | os.PathLike[str] | None = None
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no dataset's name: declare its files in feedd.conf, or with feedd.serve(), and give"
                            " the name that they have there")
        self.name = name
        self.socket = None if socket is None else os.fspath(socket)
        self._as_dict = bool(as_dict)
        self.framework = frameworks.choose(framework, "cpu")
        self._feed: Feed | None = None
        self._next = 0  # the sample that the feed gives next
        self._owner = os.getpid()

    def _open(self, token: str | None) -> Feed:
        # As little as can be is read ahead: a sample that cannot be read is no matter of those before it.
        return Feed(self.name, 1, socket=self.socket, resume=token, prefetch=2, ring_bytes=1, client_name=script_name())

    def _opened(self) -> Feed:
        if self._owner != os.getpid():  # forked, as workers of torch's DataLoader are: the feed is the parent's
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
        return frameworks.converter(self.framework, -1, True)(array)

    @property
    def fields(self) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
        """Name, dtype and shape of each field of a sample."""
        return tuple((field, dtype, shape[1:]) for field, dtype, shape in self._about["fields"])

    def __len__(self) -> int:
        return self._about["samples"]

    def __repr__(self) -> str:
        return f"feedd.Dataset({self.name!r})"

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Sample ``index``, also counted from the end; a slice gives a list. Raises ``IndexError``, and ``feedd.Error`` if it
        cannot be read."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = operator.index(index)
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(f"sample {index} of a dataset of {len(self)}")
        return self._read(number)

    def close(self) -> None:
        """Leaves the daemon, until the next sample is asked for."""
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
            self.close()  # first, so that the daemon goes on with the ring that is there
            self._feed = self._open(token)
        self._next = -1
        batch = self._opened().next()
        if batch is None or batch.first_position != number:
            raise from_code(errno.EPROTO, f"the daemon gave another sample than {number}: is the dataset used by several"
                                          " threads?")
        self._next = number + 1 if number + 1 < len(self) else -1
        if batch.count == 0:
            raise from_code(errno.EIO, f"sample {number} of dataset {self.name} cannot be read: see the daemon's log")
        sample = tuple(self._convert(array)[0] for array in batch.arrays())
        return dict(zip((name for name, _, _ in self.fields), sample)) if self._as_dict else sample
