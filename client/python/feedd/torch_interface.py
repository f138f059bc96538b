"""What programs and frameworks look for on a ``torch.utils.data.DataLoader``, with the values that are true of ours."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .errors import OptionError
from .place import collated

if TYPE_CHECKING:
    from .loader import DataLoader


class Iterated:
    """Tells Accelerate, if it is in use, when a loader is being iterated over. From that it knows the last step of an epoch, at
    which it applies accumulated gradients. It learns the same of torch's own loaders by wrapping them."""

    def __init__(self) -> None:
        self.end_of_dataloader = False
        self.remainder = 0  # samples that were repeated to fill the last batch: there are none

    def _state(self) -> Any:
        accelerate = sys.modules.get("accelerate.state")
        kind = getattr(accelerate, "GradientState", None)
        return kind() if kind is not None and kind._shared_state else None  # made by an Accelerator

    def begin(self) -> None:
        self.end_of_dataloader = False
        state = self._state()
        if state is not None:
            state._remove_dataloader(self)  # an iteration that was left
            state._add_dataloader(self)

    def end(self) -> None:
        state = self._state()
        if state is not None:
            state._remove_dataloader(self)


class TorchInterface:
    """Attributes of torch's class. Those that describe its worker processes say that there are none."""

    num_workers = 0
    prefetch_factor = None  # per worker process
    persistent_workers = False
    worker_init_fn = None
    multiprocessing_context = None
    in_order = True
    pin_memory = False  # nothing is to be pinned: the ring is, where a GPU uses it
    pin_memory_device = ""
    # Accelerate takes a prepared loader as it is, and keeps the state of one that says this with its checkpoints.
    _is_accelerate_prepared = True
    use_stateful_dataloader = True

    @property
    def collate_fn(self) -> Callable[[Any], Any]:
        return collated

    @property
    def sampler(self: "DataLoader") -> Any:  # type: ignore[misc]
        """How the daemon orders samples and divides them among ranks, as a torch sampler; None without PyTorch."""
        if self.framework != "torch":
            return None
        from .torch_samplers import sampler_of

        return sampler_of(self)

    @property
    def batch_sampler(self: "DataLoader") -> Any:  # type: ignore[misc]
        """The same for batches. It yields their places, which ``dataset`` and ``collate_fn`` turn into batches."""
        if self.framework != "torch":
            return None
        from .torch_samplers import LoaderBatchSampler

        return LoaderBatchSampler(self.sampler, self.batch_size, self.drop_last)

    def _seeming_class(self) -> Any:
        """For ``isinstance(loader, torch.utils.data.DataLoader)``, by which frameworks recognise loaders. The package does not
        import PyTorch, so it cannot derive the class from torch's."""
        torch = sys.modules.get("torch.utils.data")
        return type(self) if torch is None or self.__dict__.get("framework") != "torch" else torch.DataLoader

    def _refuse_class(self, kind: Any) -> None:
        raise TypeError("the class of a feedd.DataLoader cannot be changed")

    __class__ = property(_seeming_class, _refuse_class)

    # ---- What LoaderBatchSampler needs -----------------------------------------------------------------------------

    def _next_epoch(self: "DataLoader") -> int:  # type: ignore[misc]
        """The epoch of an iteration that begins now."""
        self._fix_ranks()
        self._supersede()
        return self._epoch + self._begun if self._wanted_epoch is None else self._wanted_epoch

    def _fetch(self: "DataLoader", epoch: int, consumed: int) -> Any:  # type: ignore[misc]
        """The batch at a place. All ranks go to other places together, as with load_state_dict()."""
        if (self._epoch, self._consumed) != (epoch, consumed):
            if self._is_joined():
                raise OptionError(f"the feed that is shared as {self._ranks.share!r} cannot go to another place: use a loader"
                                  " without share=")
            self._reopen(self._opened().token_at(epoch, consumed))
        self._wanted_epoch = None
        batch = self._take()
        self._iterated.end_of_dataloader = batch.last_of_epoch
        return self._tensors(batch)
