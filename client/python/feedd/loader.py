"""DataLoader: iterates over the batches of a dataset that a feedd daemon serves, epoch after epoch."""

import errno
import functools
import gc
import os
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import frameworks
from . import ragged as ragged_fields
from ._feed import Batch, Feed
from .arguments import explains, milliseconds, refuse_meaningless, script_name, seed_of, whole_number
from .dataset import dataset_of
from .errors import OptionError, TooManyBatches, from_code
from .iteration import Iteration
from .ranks import RankFinder, Ranks, reopened_name
from .samplers import adopted
from .torch_interface import Iterated, TorchInterface
from .waiting import explain_too_many, next_batch, what_is_awaited

if TYPE_CHECKING:
    from ._feed import Description

_STATE_VERSION = 1


class DataLoader(TorchInterface):
    """Batches of a dataset, with the interface of ``torch.utils.data.DataLoader``.

    Iterating gives one epoch: tuples of tensors ``[batch, ...]`` in field order, or dicts with ``as_dict=True``, over the
    daemon's memory without a copy. They are read-only, though PyTorch does not know that: use ``copy=True`` or
    ``tensor.clone()`` before changing one in place. Writing to one in host memory ends the process with a segmentation fault,
    after a line on standard error that explains it (``FEEDD_NO_FAULT_HANDLER=1`` in the environment leaves out the handler of
    SIGSEGV that prints it); on a GPU the kernel faults. A tensor and every view of it remain valid for as long as something
    holds them, on whatever stream they are used. The place in the ring is reused when the last holder is gone and the GPU has
    finished what was queued until then. (A consumer of a shared feed that holds a batch for longer than the daemon's max_lag
    while others wait is detached, closed or not, and the memory of its batches is reused.) On a GPU, batches are ready
    on the stream that is current when they are handed out.

    Arguments as in torch:
        dataset: the name of a dataset in feedd.conf, or a ``feedd.Dataset``, whose name, socket and samples are used, or a
            ``Subset`` of one.
        batch_size: samples per batch and rank.
        shuffle: in an order that depends only on the seed and the epoch. A view with weights= in feedd.conf draws its samples
            at random in any case.
        drop_last: leave out the last batch of an epoch if it is not full.
        timeout: seconds to wait for a batch before ``feedd.Timeout``; 0 waits indefinitely. A wait of more than 5 s is
            explained by a ``RuntimeWarning``.
        generator: a ``torch.Generator`` whose initial seed is used; or give ``seed``. By default the seed is 0, and every run
            has the same order.
        prefetch_factor: batches that may be under way or held in addition to the one in use; None leaves it to the daemon.
            Holding more raises ``feedd.TooManyBatches``.
        The others are accepted only with values that ask for nothing; otherwise an error says what feedd does instead.
        ``pin_memory=True`` and ``persistent_workers=True`` have no effect, and a warning says so.

    ``loader.dataset`` is a ``feedd.Dataset``, so that ``len(loader.dataset)`` is the number of samples. With PyTorch, a loader
    has all attributes of torch's class, and ``isinstance(loader, torch.utils.data.DataLoader)`` holds: docs/frameworks.md.

    Which samples, in any combination, in place of a [view NAME] in feedd.conf:
        split, split_seed: the samples between two fractions of the dataset, such as ``(0.0, 0.9)``, in millionths, rounded
            up; with ``split_seed``, of a random permutation of them, which is the same for the same seed.
        indices: these samples, by number: a list, an array or a tensor. With ``split``, that part of the list.
        weights, epoch_samples: draws by weight, with replacement, from the samples that the others choose, or else from all.
            There is one weight for each sample of the dataset; by default, an epoch has a draw for each chosen sample.

    feedd's own:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or 1, a GPU's UUID, a ``torch.device``, or ``"host:0"`` for a simulated GPU.
        rank, world_size: which process this is, and of how many; by default as torch.distributed or torchrun says. If
            neither knows yet, the ranks are those of the first iteration or ``len()``, so a loader may be made before
            ``init_process_group()``. Initialising ranks after that first use is an error.
        local_world_size: ranks on this machine; by default ``$LOCAL_WORLD_SIZE``, else world_size. The first batch waits until
            that many have joined.
        device_world_size: ranks on the same GPU, if they share one.
        share: a name under which independent jobs read one feed: each sees every batch from where the feed stands when it
            joins, and the storage is read once. A job that stops reading holds up the others, but no longer than the daemon's
            max_lag.
        framework: ``"torch"``, ``"numpy"``, ``"jax"``, ``"cupy"``, or ``"dlpack"`` for plain ``feedd.Array`` objects; by
            default torch if it is installed, else NumPy (on a GPU CuPy or JAX), else plain objects.
        copy: give tensors with their own memory.
        ragged: what fields whose samples differ in length become: ``"nested"``, a jagged nested tensor (only torch, and its
            default); ``"pair"``, a tensor of all values and one of offsets, where sample i is ``values[offsets[i]:offsets[i
            + 1]]`` (the default elsewhere); ``"padded"``, a tensor ``[batch, longest]``, padded with zeros, which is a
            copy. JAX needs the last one, or ``pad.FIELD = LENGTH`` in feedd.conf, so that all batches have one shape.
        socket: the daemon's; by default ``$FEEDD_SOCKET``, then ``/run/feedd/feedd.sock``.

    All ranks of a job must make their loaders, and first use them, in the same order. They must also leave an epoch early,
    call ``set_epoch()`` and call ``load_state_dict()`` together: a rank that does so alone waits for the others,
    indefinitely without ``timeout``. A loader for one rank alone, as for validation, is made with ``rank=0, world_size=1``.

    Raises ``feedd.Error`` and its subclasses, ``TypeError`` and ``ValueError``. A loader may be used from any thread, one at
    a time. Once it has been used, it cannot be pickled or used in the child of a fork: make another one there.
    """

    _feed: Feed | None = None

    @explains
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
        ragged: str | None = None,
        socket: str | os.PathLike[str] | None = None,
        split: tuple[float, float] | None = None,
        split_seed: int | None = None,
        indices: Any = None,
        weights: Any = None,
        epoch_samples: int | None = None,
    ) -> None:
        self._made_with = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        given = adopted(self._made_with)
        refuse_meaningless(given)
        self.dataset = dataset_of(given)
        self.batch_size = whole_number("batch_size", given["batch_size"], 1, 2**24 - 1)
        self.drop_last, self.shuffle = bool(given["drop_last"]), bool(given["shuffle"])
        self.timeout, self.generator = timeout, given["generator"]
        self._timeout_ms = milliseconds(timeout)
        self._rank_finder = RankFinder(given["rank"], given["world_size"], local_world_size, device_world_size, share)
        self._device = device
        self.seed = seed_of(given["seed"], given["generator"])
        self.as_dict, self._copy = bool(as_dict), bool(copy)
        where = frameworks.device_name(device)
        self.framework = frameworks.choose(framework, where)
        self._ragged = ragged_fields.choose(ragged, self.framework)
        self._options: dict[str, Any] = {
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
            "seed": self.seed,
            **self._rank_finder.options(),
            "prefetch": 0 if prefetch_factor is None else whole_number("prefetch_factor", prefetch_factor, 1, 4094) + 1,
            "device": where,
            "socket": self.dataset.socket if socket is None else os.fspath(socket),
            "client_name": script_name(),
            "view": None if self.dataset.view is None else self.dataset.view.packed(),
        }
        self._reopened = 0  # how many times the ranks have moved to another place together
        self._iteration: weakref.ref[Iteration] | None = None
        self._wanted_epoch: int | None = None
        self._begun, self._iterated = False, Iterated()  # begun: batches of the epoch were taken, but not its last
        self._begin()

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._left_at: str | None = None  # while it is to be opened again: at this token, or with "" at the beginning
        self._loaded: str | None = None  # the token of the last state that was loaded
        self._has_had_batches = False  # since the feed was opened
        self._tried: tuple[int, str] | None = None  # the epoch that was last tried, and its token
        self._feed = self._open(None, 0)
        about = self._describe()
        self._epoch, self._consumed = about["start_epoch"], about["start_consumed"]
        self._names = tuple(name for name, _, _ in about["fields"])
        try:
            ragged_fields.refuse(self.framework, self._ragged, about["fields"])
            self._convert = frameworks.batch_converter(self.framework, about["device_number"], self._copy, self._ragged)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """Batches of a whole epoch, for this rank."""
        self._fix_ranks()
        return self._describe()["batches_per_epoch"]

    def __bool__(self) -> bool:
        """Whether an epoch has batches. Unlike len(), ``if loader:`` does not fix the ranks."""
        return self._describe()["batches_per_epoch"] > 0

    def __repr__(self) -> str:
        where = "closed" if self._feed is None else f"device={self.device!r}"
        return f"feedd.DataLoader({self.dataset.name!r}, batch_size={self.batch_size}, {where})"

    @property
    def fields(self) -> tuple[tuple[str, str, tuple[int | None, ...]], ...]:
        """Name, dtype and batch shape of each field; a size that differs from sample to sample is None."""
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

    def __iter__(self) -> "Iteration":
        """The rest of the current epoch after ``load_state_dict()``, else the next whole one. Ends an iteration that is under
        way."""
        self._fix_ranks()
        self._supersede()
        self._move()
        iteration = Iteration(self)
        self._iteration = weakref.ref(iteration)
        return iteration

    def _move(self) -> None:
        """Goes to where the next iteration begins."""
        wanted, self._wanted_epoch = self._wanted_epoch, None
        try:
            if wanted is not None or self._begun:
                self._go_to(self._epoch + 1 if wanted is None else wanted)
        except OptionError:  # another try would fail too
            raise
        except BaseException:
            self._wanted_epoch = wanted  # for another try
            raise

    def _supersede(self) -> None:
        iteration = self._iteration() if self._iteration is not None else None
        if iteration is not None:
            iteration.superseded = True

    def set_epoch(self, epoch: int) -> None:
        """Makes that epoch the next one, as torch's DistributedSampler does. This is only needed to change the sequence of
        epochs. The epoch is whole, unless it is the one that ``load_state_dict()`` led into."""
        self._wanted_epoch = whole_number("epoch", epoch, 0, 2**63)

    def _go_to(self, epoch: int) -> None:
        if self._is_joined():
            self._skip_to(epoch)
        elif self._begun or epoch != self._epoch:
            self._reopen(self._token_at(epoch))

    def _token_at(self, epoch: int) -> str:
        # After a failed try the old feed is not opened again for this: there may be room for only one.
        if self._left_at is not None and self._tried is not None and self._tried[0] == epoch:
            return self._tried[1]
        token = self._opened().token_at(epoch, 0)
        self._tried = epoch, token
        return token

    def _is_joined(self) -> bool:
        """Whether consumers that are not our ranks read the same feed, so that we cannot choose its place."""
        return self._ranks.share is not None and self._ranks.world_size == 1

    def _skip_to(self, epoch: int) -> None:
        if epoch < self._epoch or (epoch == self._epoch and self._begun):
            raise from_code(errno.EINVAL, f"the feed that is shared as {self._ranks.share!r} is past the beginning of epoch"
                                          f" {epoch}: choose a later epoch, or a loader without share=")
        while self._epoch < epoch:
            self._take()

    def _take(self) -> Batch:
        """The next batch; records where the loader stands."""
        try:
            batch = self._next()
        except TooManyBatches:
            gc.collect()  # tensors may be held by a cycle, as of a traceback
            try:
                batch = self._next()
            except TooManyBatches as error:
                held = self._describe()["prefetch"]
                raise explain_too_many(error, held, self._options["prefetch"], self._ranks.share) from None
        assert batch is not None, "a run without a number of epochs does not end"
        self._begun = not batch.last_of_epoch
        self._epoch, self._consumed = self._ranks.place_after(batch, self.batch_size)
        return batch

    def _next(self) -> Batch | None:
        expects = what_is_awaited(self._ranks, self._has_had_batches)
        batch = next_batch(self._opened(), self._timeout_ms, self._options["socket"], expects)
        self._has_had_batches = True
        return batch

    def _tensors(self, batch: Batch) -> Any:
        convert = self._convert
        tensors = tuple(convert(array) for array in batch.arrays())
        return dict(zip(self._names, tensors)) if self.as_dict else tensors

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: after the last batch handed out. It is small and made of plain types."""
        feed = self._opened()
        goes_on = self._wanted_epoch is None or (self._wanted_epoch == self._epoch and not self._begun)
        token = feed.token() if goes_on else feed.token_at(self.epoch, 0)
        return {"feedd": _STATE_VERSION, "token": token, "epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iteration continues exactly there, to the end of that epoch, also with another world size."""
        token = state.get("token") if isinstance(state, dict) and state.get("feedd") == _STATE_VERSION else None
        if not isinstance(token, str) or not token or not token.isascii():
            raise ValueError("this is not the state of a feedd.DataLoader")
        if self._is_joined():
            raise from_code(errno.EINVAL, f"the feed that is shared as {self._ranks.share!r} continues where it is, not where a"
                                          " state says: use a loader without share=")
        self._reopen(token)
        self._loaded = token
        self._wanted_epoch = None

    # ---- The feed --------------------------------------------------------------------------------------------------

    @property
    def _ranks(self) -> Ranks:
        return self._rank_finder.found

    def _fix_ranks(self) -> None:
        """Called before anything that depends on the ranks; opens the feed again if they are not those that it has."""
        is_new = not self._rank_finder.fixed and self._owner != os.getpid()  # forked before the first use
        if self._rank_finder.fix():
            self._options.update(self._rank_finder.options(), device=frameworks.device_name(self._device))
            is_new = True
        if is_new and (self._feed is not None or self._left_at is not None):
            self._owner = os.getpid()
            self.close()
            self._left_at = self._loaded or ""
            self._opened()

    def _open(self, token: str | None, reopened: int) -> Feed:
        share = self._ranks.share
        if share is not None:
            share = reopened_name(share, reopened)
        feed = Feed(self.dataset.name, self.batch_size, share=share, resume=token or None, **self._options)
        self._has_had_batches = False
        return feed

    def _reopen(self, token: str) -> None:
        """Opens the feed at another place, or if that fails again where it stood. All ranks of a job do this, so they meet
        again under the next name, however often one of them has to try."""
        self._supersede()
        before = self._left_at if self._left_at is not None else self._opened().token()
        self.close()  # first, so that the daemon reuses its ring
        self._left_at = before
        reopened = self._reopened + (self._ranks.world_size > 1)
        self._feed = self._open(token, reopened)
        self._reopened = reopened
        self._left_at = None
        self._begun = False
        about = self._describe()
        self._epoch, self._consumed = about["start_epoch"], about["start_consumed"]

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
        """Gives batches back after the last one of an epoch: the next call may be a long time off."""
        if self._feed is not None:
            self._feed.settle()

    def close(self) -> None:
        """Leaves the feed. Tensors that are still held remain valid; on a GPU, letting go of the last of them waits for all
        work queued there."""
        self._left_at = None
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()

    def __enter__(self) -> "DataLoader":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """An unused loader may be pickled: it is made again in the other process, as torch's mp.spawn needs it."""
        untouched = not self._rank_finder.fixed and self._loaded is None and self._wanted_epoch is None
        if not untouched or type(self) is not DataLoader:
            raise TypeError("a feedd.DataLoader belongs to its process: make one in each, and pass state_dict() between them")
        return functools.partial(DataLoader, **self._made_with), ()
