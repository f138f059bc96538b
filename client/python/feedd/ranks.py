"""Which rank this process is, of how many: as given, as torch.distributed says, or as torchrun says."""

import errno
import hashlib
import os
import re
import sys
from dataclasses import dataclass
from typing import Any

from ._feed import Batch
from .arguments import optional_number, whole_number
from .errors import from_code


@dataclass(frozen=True)
class Ranks:
    """``share`` is the name under which the ranks of a job on this machine find each other; None for a single process."""

    rank: int
    world_size: int
    local_world_size: int
    share: str | None

    def place_after(self, batch: Batch, batch_size: int) -> tuple[int, int]:
        """Where the ranks stand when each has had its batch: the epoch, and the samples of it that they have consumed."""
        if batch.last_of_epoch:
            return batch.epoch + 1, 0
        # Each rank's batch is a whole one, and they lie one after another.
        return batch.epoch, batch.first_position + batch_size * (self.world_size - self.rank)


def _distributed() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _from_environment(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


def _torchrun() -> tuple[int, int] | None:
    rank, world_size = _from_environment("RANK"), _from_environment("WORLD_SIZE")
    if "TORCHELASTIC_RUN_ID" not in os.environ or rank is None or world_size is None:
        return None
    return rank, world_size


def _world() -> tuple[int, int] | None:
    return _distributed() or _torchrun()


_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")


def _fit(name: str) -> str:
    """A valid name for a feed: the name itself, or a hash of it if it is too long or has other characters."""
    return name if _NAME.fullmatch(name) else "job-" + hashlib.sha256(name.encode()).hexdigest()[:32]


def reopened_name(share: str, times: int) -> str:
    """The name under which the ranks of a job meet again after they have all moved to another place."""
    return _fit(f"{share}._{times}") if times else share


def _job_name() -> str | None:
    """The same name in all processes of a job, and a new one after torchrun has restarted them."""
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    parts = [os.environ[name] for name in names if os.environ.get(name)]
    return "-".join(["job", *parts]) if parts else None


_loaders_made = 0


def find_ranks(
    rank: int | None, world_size: int | None, local_world_size: int | None, share: str | None, late: bool = False
) -> Ranks:
    """The ranks to attach with. ``late``: they were not known when the loader was made, so it may have joined a feed named
    ``share`` alone; the ranks use another feed. The names count loaders, so every rank of a job must make its loaders in the
    same order, and must first use those in the same order that it makes before the ranks are known."""
    global _loaders_made
    if (rank is None) != (world_size is None):
        raise ValueError("give rank= and world_size= together, or neither")
    if rank is not None and world_size is not None:
        world_size = whole_number("world_size", world_size, 1, 2**31)
        found = whole_number("rank", rank, 0, world_size - 1), world_size
    else:
        found = _world() or (0, 1)
    local = min(_from_environment("LOCAL_WORLD_SIZE") or found[1], found[1])
    if local_world_size is not None:
        local = whole_number("local_world_size", local_world_size, 1, found[1])
    if found[1] > 1 and share is None:
        name = _job_name()
        if name is None:
            raise ValueError("several ranks need a name in common, under which they find each other: share=\"my-job\"")
        _loaders_made += 1
        share = _fit(f"{name}.{_loaders_made}")
    elif found[1] > 1 and share is not None and late:
        share = _fit(f"{share}.of{found[1]}")
    return Ranks(found[0], found[1], local, share)


class RankFinder:
    """The ranks of one loader. If they are not given, they are found when the loader is made, and found again when something
    that depends on them is first needed, because many programs make their loaders before they initialise torch.distributed.
    From then on they are fixed."""

    def __init__(
        self, rank: int | None, world_size: int | None, local_world_size: int | None, device_world_size: int | None,
        share: str | None,
    ) -> None:
        self._given = rank is not None
        self._share = rank, world_size, share
        self._sizes = local_world_size, device_world_size
        self.fixed = self._given
        is_alone = not self._given and world_size is None and _world() is None
        self.found = find_ranks(rank, world_size, None if is_alone else local_world_size, share)
        # A process that is alone so far may have been told of ranks that are still to come.
        self.device_world_size = 0 if is_alone else self._checked_device_world_size()
        for name, size in (("local_world_size", local_world_size), ("device_world_size", device_world_size)):
            optional_number(name, size, 1, 2**31)

    def _checked_device_world_size(self) -> int:
        return optional_number("device_world_size", self._sizes[1], 1, max(1, self.found.world_size))

    def options(self) -> dict[str, Any]:
        """For a Feed, but for ``share``, which changes with each reopening."""
        ranks = self.found
        return {
            "rank": ranks.rank, "world_size": ranks.world_size, "local_world_size": ranks.local_world_size,
            "wait_for": ranks.local_world_size if ranks.world_size > 1 else 0, "device_world_size": self.device_world_size,
        }

    def fix(self) -> bool:
        """Fixes the ranks. True when they differ from those that were found before. Raises when they were fixed and the world
        has changed since, because several ranks would read the same samples, or none would."""
        world = None if self._given else _world()
        if world == (self.found.rank, self.found.world_size):
            world = None  # as before
        if self.fixed and world is not None:
            raise from_code(errno.EINVAL, self._explain(*world))
        if self.fixed:
            return False
        rank, world_size, share = self._share
        if world is not None:
            self.found = find_ranks(rank, world_size, self._sizes[0], share, late=True)
        else:  # but the sizes that were given are still to be looked at
            optional_number("local_world_size", self._sizes[0], 1, self.found.world_size)
        self.device_world_size = self._checked_device_world_size()
        self.fixed = True
        return world is not None

    def _explain(self, rank: int, world_size: int) -> str:
        before = "alone" if self.found.world_size == 1 else f"as rank {self.found.rank} of {self.found.world_size}"
        return (f"this loader was first used {before}, and since then torch.distributed has made this process rank {rank} of"
                f" {world_size}: the ranks would not share out the samples. Call init_process_group() before the loader is"
                " first iterated over or asked for its len(), or make another loader after it. A loader that this process is"
                " to read alone is made with rank=0, world_size=1")
