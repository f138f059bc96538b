"""DataLoader: batches of a dataset that a feedd daemon serves, by iteration, epoch after epoch."""

import errno
import gc
import os
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import frameworks
from ._feed import Batch, Feed
from .arguments import milliseconds, optional_number, refuse_meaningless, script_name, seed_of, whole_number
from .dataset import Dataset
from .errors import Error, OptionError, TooManyBatches, from_code
from .ranks import find_ranks, reopened_name

if TYPE_CHECKING:
    from ._feed import Description

_STATE_VERSION = 1


class DataLoader:
    """Batches of a dataset, shaped like ``torch.utils.data.DataLoader``.

    Iterating gives one epoch: tuples of tensors ``[batch, ...]`` in field order, or dicts with ``as_dict=True``, over the
    daemon's memory without a copy. They are read-only, though PyTorch does not know that: writing to one in host memory ends
    the process with a segmentation fault, on a GPU the kernel faults. A tensor, and every view of it, stays valid for as
    long as somebody holds it, on whatever stream it is used; its place in the ring is used again when the last holder is
    gone and the GPU has done what was queued until then. (Of a feed that others share, who holds a batch for longer than the
    daemon's max_lag while they wait is detached, closed or not, and what it holds is filled anew.) On a GPU, batches are
    ready on the stream that is current when they are handed out.

    Arguments as in torch:
        dataset: the name of a dataset in feedd.conf, or a ``feedd.Dataset``, of which name and socket are taken.
        batch_size: samples a batch and rank.
        shuffle: in an order that is a function of the seed and the epoch alone.
        drop_last: leave out the last batch of an epoch where it is not whole.
        timeout: seconds to wait for a batch before ``feedd.Timeout``; 0 waits for ever.
        generator: a ``torch.Generator`` whose initial seed is taken; or give ``seed``. Without either it is 0, and every run
            has the same order.
        prefetch_factor: batches that may be under way or held beside the one in use; None leaves it to the daemon. Who
            keeps more of them gets ``feedd.TooManyBatches``.
        The others are accepted with the values that ask for nothing; else an error says what feedd does instead.

    ``loader.dataset`` is a ``feedd.Dataset``, so that ``len(loader.dataset)`` is the number of samples.

    Of feedd:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or 1, a GPU's UUID, a ``torch.device``, or ``"host:0"`` for a simulated GPU.
        rank, world_size: of how many processes this is which; by default those of torch.distributed or torchrun.
        local_world_size: ranks on this machine; by default ``$LOCAL_WORLD_SIZE``, else world_size. The first batch waits for
            so many.
        device_world_size: ranks on the same GPU, where they share one.
        share: a name under which independent jobs read one feed: each sees every batch from where the feed stands when it
            joins, and the storage is read once. One that stops reading holds the others up, for the daemon's max_lag at most.
        framework: ``"torch"``, ``"numpy"``, ``"jax"``, ``"cupy"``, or ``"dlpack"`` for plain ``feedd.Array`` objects; by
            default torch where it is installed, else NumPy, on a GPU CuPy or JAX, or plain objects.
        copy: give tensors with memory of their own.
        socket: the daemon's; by default ``$FEEDD_SOCKET``, then ``/run/feedd/feedd.sock``.

    All ranks of a job make their loaders in the same order, and leave an epoch before its end, ``set_epoch()`` or
    ``load_state_dict()`` together: one that does so alone waits for the others, for ever without ``timeout``. A loader for
    one of them alone, as for validation, is made with ``rank=0, world_size=1``.

    Raises ``feedd.Error`` and its kinds, ``TypeError`` and ``ValueError``. A loader may be used from any thread, one at a
    time; it does not survive a fork, in whose child another one can be made.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Any = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed: int | None = None,
        device: Any = "cpu",
        rank: int | None = None,
        world_size: int | None = None,
        local_world_size: int | None = None,
        device_world_size: int | None = None,
        share: str | None = None,
        framework: str | None = None,
        as_dict: bool = False,
        copy: bool = False,
        socket: str | os.PathLike[str] | None = None,
    ) -> None:
        refuse_meaningless({
            "sampler": sampler, "batch_sampler": batch_sampler, "num_workers": num_workers, "collate_fn": collate_fn,
            "pin_memory": pin_memory, "worker_init_fn": worker_init_fn, "multiprocessing_context": multiprocessing_context,
            "persistent_workers": persistent_workers, "pin_memory_device": pin_memory_device, "in_order": in_order,
        })
        self.dataset = self._dataset(dataset, framework, socket)
        if batch_size is None:
            raise ValueError("batch_size=None has no meaning with feedd: single samples are feedd.Dataset(name)[i]")
        self.batch_size = whole_number("batch_size", batch_size, 1, 2**24 - 1)
        self.drop_last = bool(drop_last)
        self.timeout = timeout
        self._timeout_ms = milliseconds(timeout)
        self._ranks = find_ranks(rank, world_size, local_world_size, share)
        self._as_dict = bool(as_dict)
        self._copy = bool(copy)
        where = frameworks.device_name(device)
        self.framework = frameworks.choose(framework, where)
        self._options: dict[str, Any] = {
            "shuffle": bool(shuffle),
            "drop_last": self.drop_last,
            "seed": seed_of(seed, generator),
            "rank": self._ranks.rank,
            "world_size": self._ranks.world_size,
            "local_world_size": self._ranks.local_world_size,
            "wait_for": self._ranks.local_world_size if self._ranks.world_size > 1 else 0,
            "device_world_size": optional_number("device_world_size", device_world_size, 1, 2**31),
            "prefetch": 0 if prefetch_factor is None else whole_number("prefetch_factor", prefetch_factor, 1, 4094) + 1,
            "device": where,
            "socket": self.dataset.socket if socket is None else os.fspath(socket),
            "client_name": script_name(),
        }
        self._reopened = 0  # how many times our ranks have met at another place
        self._iteration: weakref.ref[_Iteration] | None = None
        self._wanted_epoch: int | None = None
        self._begun = False  # batches of the epoch at hand were taken, and not its last
        self._begin()

    @staticmethod
    def _dataset(dataset: Any, framework: str | None, socket: str | os.PathLike[str] | None) -> Dataset:
        if isinstance(dataset, Dataset):
            return dataset
        single = None if framework in ("cupy", "dlpack") else framework  # these have no samples in host memory
        return Dataset(dataset, framework=single, socket=socket)

    def _begin(self) -> None:
        self._left_at: str | None = None  # while it could not be opened at another place
        self._tried: tuple[int, str] | None = None  # the epoch last gone to, and its token
        self._feed: Feed | None = self._open(None, 0)
        about = self._describe()
        self._epoch = about["start_epoch"]
        self._names = tuple(name for name, _, _ in about["fields"])
        try:
            self._convert = frameworks.converter(self.framework, about["device_number"], self._copy)
        except BaseException:
            self.close()
            raise

    # ---- What it is ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Batches of a whole epoch, for this rank."""
        return self._describe()["batches_per_epoch"]

    def __repr__(self) -> str:
        where = "closed" if self._feed is None else f"device={self.device!r}"
        return f"feedd.DataLoader({self.dataset.name!r}, batch_size={self.batch_size}, {where})"

    @property
    def fields(self) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
        """Name, dtype and batch shape of each field."""
        return self._describe()["fields"]

    @property
    def samples(self) -> int:
        """Samples of the dataset."""
        return self._describe()["samples"]

    @property
    def device(self) -> str:
        """``"cpu"``, or the UUID of the GPU."""
        return self._describe()["device"]

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to."""
        return self._epoch if self._wanted_epoch is None else self._wanted_epoch

    # ---- Iterating -------------------------------------------------------------------------------------------------

    def __iter__(self) -> "_Iteration":
        """The rest of the epoch at hand after ``load_state_dict()``, else the next whole one. Ends an iteration that is
        under way."""
        self._supersede()
        wanted, self._wanted_epoch = self._wanted_epoch, None
        try:
            if wanted is not None or self._begun:
                self._go_to(self._epoch + 1 if wanted is None else wanted)
        except OptionError:  # it cannot be had at all
            raise
        except BaseException:
            self._wanted_epoch = wanted  # for another try
            raise
        iteration = _Iteration(self)
        self._iteration = weakref.ref(iteration)
        return iteration

    def _supersede(self) -> None:
        iteration = self._iteration() if self._iteration is not None else None
        if iteration is not None:
            iteration.superseded = True

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is of that epoch: as of torch's DistributedSampler, and only needed to leave the order of
        epochs. Whole, but for the epoch that ``load_state_dict()`` led into."""
        self._wanted_epoch = whole_number("epoch", epoch, 0, 2**63)

    def _go_to(self, epoch: int) -> None:
        if self._is_joined():
            self._skip_to(epoch)
        elif self._begun or epoch != self._epoch:
            self._reopen(self._token_at(epoch))

    def _token_at(self, epoch: int) -> str:
        # Where this was tried and failed the old feed is not made again for it: there may be room for one alone.
        if self._left_at is not None and self._tried is not None and self._tried[0] == epoch:
            return self._tried[1]
        token = self._opened().token_at(epoch, 0)
        self._tried = epoch, token
        return token

    def _is_joined(self) -> bool:
        """Whether others who are no ranks of ours read the same feed, which therefore goes where it goes."""
        return self._ranks.share is not None and self._ranks.world_size == 1

    def _skip_to(self, epoch: int) -> None:
        if epoch < self._epoch or (epoch == self._epoch and self._begun):
            raise from_code(errno.EINVAL, f"the feed that is shared as {self._ranks.share!r} is past the beginning of epoch"
                                          f" {epoch}: take a later epoch, or a feed of one's own")
        while self._epoch < epoch:
            self._take()

    def _take(self) -> Batch:
        """The next batch, with the books kept."""
        feed = self._opened()
        try:
            batch = feed.next(self._timeout_ms)
        except TooManyBatches:
            gc.collect()  # tensors may be held by a cycle, as of a traceback
            try:
                batch = feed.next(self._timeout_ms)
            except TooManyBatches as error:
                raise self._explain(error) from None
        assert batch is not None, "a run has no end where no number of epochs is asked for"
        self._begun = not batch.last_of_epoch
        self._epoch = batch.epoch + 1 if batch.last_of_epoch else batch.epoch
        return batch

    def _explain(self, error: TooManyBatches) -> TooManyBatches:
        held, asked = self._describe()["prefetch"], self._options["prefetch"]
        remedy = f"raise prefetch_factor (now {held - 1})"
        if held < max(asked, 2):  # of a ring that others share, and whose size they have set
            remedy = f"let who makes the feed {self._ranks.share!r} ask for a larger prefetch_factor, for the room is shared"
        explained = TooManyBatches(
            f"all {held} batches that this loader may hold at once are held by tensors, or views of them, that are still"
            f" alive: let go of them, use copy=True, or {remedy}")
        explained.code = error.code
        return explained

    def _tensors(self, batch: Batch) -> Any:
        convert = self._convert
        tensors = tuple(convert(array) for array in batch.arrays())
        return dict(zip(self._names, tensors)) if self._as_dict else tensors

    # ---- State -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: after the last batch handed out. Small, and safe to write anywhere."""
        feed = self._opened()
        goes_on = self._wanted_epoch is None or (self._wanted_epoch == self._epoch and not self._begun)
        token = feed.token() if goes_on else feed.token_at(self.epoch, 0)
        return {"feedd": _STATE_VERSION, "token": token, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iteration goes on exactly there, to the end of that epoch, also with another world size."""
        token = state.get("token") if isinstance(state, dict) and state.get("feedd") == _STATE_VERSION else None
        if not isinstance(token, str) or not token or not token.isascii():
            raise ValueError("this is no state of a feedd.DataLoader")
        if self._is_joined():
            raise from_code(errno.EINVAL, f"the feed that is shared as {self._ranks.share!r} goes on where it is, not where a"
                                          " state says: take a feed of one's own")
        self._reopen(token)
        self._wanted_epoch = None

    # ---- The feed --------------------------------------------------------------------------------------------------

    def _open(self, token: str | None, reopened: int) -> Feed:
        share = self._ranks.share
        if share is not None:
            share = reopened_name(share, reopened)
        return Feed(self.dataset.name, self.batch_size, share=share, resume=token, **self._options)

    def _reopen(self, token: str) -> None:
        """At another place, or, if that cannot be, again where it stood. The ranks of a job all do this, so they meet again
        under the next name, however often one of them has to try."""
        self._supersede()
        before = self._left_at if self._left_at is not None else self._opened().token()
        self.close()  # first, so that the daemon goes on with the ring that is there
        self._left_at = before
        reopened = self._reopened + (self._ranks.world_size > 1)
        self._feed = self._open(token, reopened)
        self._reopened = reopened
        self._left_at = None
        self._begun = False
        self._epoch = self._describe()["start_epoch"]

    def _opened(self) -> Feed:
        if self._feed is None and self._left_at is not None:
            self._feed = self._open(self._left_at, self._reopened)
            self._left_at = None
        if self._feed is None:
            raise from_code(errno.ENOTCONN, "the loader is closed: make another one")
        return self._feed

    def _describe(self) -> "Description":
        return self._opened().describe()

    def _settle(self) -> None:
        """After the last batch of an epoch the next one may be long in coming."""
        if self._feed is not None:
            self._feed.settle()

    def close(self) -> None:
        """Leaves the feed. Tensors that are still held stay valid; on a GPU, letting go of the last of them waits for all
        work queued there."""
        self._left_at = None
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()

    def __enter__(self) -> "DataLoader":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a feedd.DataLoader belongs to its process: make one in each, and pass state_dict() between them")


class _Iteration:
    """One epoch, or the rest of one."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self.superseded = False  # by another iteration
        self._exhausted = False

    def __iter__(self) -> "_Iteration":
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        loader = self._loader
        if self._exhausted:
            loader._settle()
            raise StopIteration
        if self.superseded:
            raise Error("another iteration over this loader has begun: a loader stands at one place. Make a second one")
        batch = loader._take()
        if batch.last_of_epoch:
            self._exhausted = True
        return loader._tensors(batch)
