"""What ``iter(DataLoader)`` gives."""

from typing import TYPE_CHECKING, Any

from .errors import Error

if TYPE_CHECKING:
    from .loader import DataLoader


class Iteration:
    """One epoch, or the rest of one."""

    def __init__(self, loader: "DataLoader") -> None:
        self._loader = loader
        self.superseded = False  # by another iteration
        self._begun = self._exhausted = False
        self.place = (0, 0)  # of the batch that was handed out last: its epoch, and the position of its first sample there

    def __iter__(self) -> "Iteration":
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def _begin(self) -> None:
        if self._loader._wanted_epoch is not None:  # set since iter(): torch's samplers begin with the first batch, too
            self._loader._move()
            self.superseded = False
        self._loader._iterated.begin()
        self._begun = True

    def __next__(self) -> Any:
        loader = self._loader
        if self._exhausted:
            loader._settle()
            loader._iterated.end()
            raise StopIteration
        if self.superseded:
            raise Error("another iteration over this loader has begun, and a loader has one position: make a second loader")
        if not self._begun:
            self._begin()
        batch = loader._take()
        self.place = batch.epoch, batch.first_position
        loader._iterated.end_of_dataloader = self._exhausted = batch.last_of_epoch
        return loader._tensors(batch)
