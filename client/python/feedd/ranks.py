"""Which rank this process is, among how many: as told, as torch.distributed has it, or as torchrun says."""

import hashlib
import os
import re
import sys
from dataclasses import dataclass

from .arguments import whole_number


@dataclass(frozen=True)
class Ranks:
    """``share`` is the name under which the ranks of one job on this machine find each other; None for one alone."""

    rank: int
    world_size: int
    local_world_size: int
    share: str | None


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


_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")


def _fit(name: str) -> str:
    """A name that feedd takes for a feed: as it is, or if it is too long or has other letters, something made of it."""
    return name if _NAME.fullmatch(name) else "job-" + hashlib.sha256(name.encode()).hexdigest()[:32]


def reopened_name(share: str, times: int) -> str:
    """Under which the ranks of a job meet again after they have all left a feed for another place."""
    return _fit(f"{share}._{times}") if times else share


def _job_name() -> str | None:
    """The same in all processes of one job, another one after torchrun has restarted them."""
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
    parts = [os.environ[name] for name in names if os.environ.get(name)]
    return "-".join(["job", *parts]) if parts else None


_loaders_made = 0


def find_ranks(rank: int | None, world_size: int | None, local_world_size: int | None, share: str | None) -> Ranks:
    """The ranks to attach with. Every rank of a job makes its loaders in the same order: their names count them."""
    global _loaders_made
    if (rank is None) != (world_size is None):
        raise ValueError("give rank= and world_size= together, or neither")
    if rank is not None and world_size is not None:
        world_size = whole_number("world_size", world_size, 1, 2**31)
        found = whole_number("rank", rank, 0, world_size - 1), world_size
    else:
        found = _distributed() or _torchrun() or (0, 1)
    local = min(_from_environment("LOCAL_WORLD_SIZE") or found[1], found[1])
    if local_world_size is not None:
        local = whole_number("local_world_size", local_world_size, 1, found[1])
    if found[1] > 1 and share is None:
        name = _job_name()
        if name is None:
            raise ValueError("several ranks need a name in common, under which they find each other: share=\"my-job\"")
        _loaders_made += 1
        share = _fit(f"{name}.{_loaders_made}")
    return Ranks(found[0], found[1], local, share)
