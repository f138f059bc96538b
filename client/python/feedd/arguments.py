"""The arguments of DataLoader and Dataset: torch's that have no meaning here, and checks of the others."""

import difflib
import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from .place import collated
from .waiting import warn

# torch's arguments: the values that ask for nothing, and a sentence on what feedd does instead.
_WITHOUT_MEANING: dict[str, tuple[tuple[Any, ...], str]] = {
    "sampler": ((None,), "The daemon makes the order of samples from shuffle= and seed=, the same on every machine. indices="
                         " takes a list of samples, split= a part of them, and weights= draws like a WeightedRandomSampler."
                         " torch's own samplers are accepted where they say no more than that"),
    "batch_sampler": ((None,), "The daemon makes the batches from batch_size=, shuffle= and drop_last=; a BatchSampler of torch"
                               " is accepted. indices=, split= and weights= choose samples"),
    "num_workers": ((0,), "The daemon's loaders read for all its clients, as many as they need: leave this at 0. loaders= in"
                          " feedd.conf sets a number"),
    "collate_fn": ((None, collated), "A batch comes as one tensor per field; process it further in the loop, or with"
                            " transform.FIELD= in feedd.conf"),
    "pin_memory": ((False, True), ""),
    "pin_memory_device": (("",), "Ask for device=\"cuda:N\""),
    "worker_init_fn": ((None,), "This program has no worker processes"),
    "multiprocessing_context": ((None,), "This program has no worker processes"),
    "persistent_workers": ((False, True), ""),
    "in_order": ((True,), "Batches always come in order"),
}
# Those that ask for something that feedd does anyway, or that does no harm to leave out.
_HARMLESS = {
    "pin_memory": "the ring is pinned already where a GPU uses it; device=\"cuda\" gives batches on the GPU",
    "persistent_workers": "there are no worker processes, and the daemon's loaders run on between epochs",
}
_TRANSFORM = "the daemon applies the transforms: set transform.FIELD= in the dataset's section of feedd.conf"
_FILES = "the dataset's section of feedd.conf says where the files are: set path= there, or use feedd.serve()"
_SPLIT = "use split=(0.0, 0.9) and split=(0.9, 1.0), both with the same split_seed="
_WEIGHTS = "use weights=, with epoch_samples= for the number of draws in an epoch; draws are with replacement"
# Arguments of torchvision, the datasets library and others, for which people look here.
_ELSEWHERE = {
    "transform": _TRANSFORM,
    "transforms": _TRANSFORM,
    "target_transform": _TRANSFORM,
    "augment": _TRANSFORM,
    "root": _FILES,
    "path": _FILES,
    "data_dir": _FILES,
    "data_files": _FILES,
    "download": "feedd serves files that are there already; " + _FILES,
    "train": _SPLIT,
    "subset": "use indices=",
    "loader": "the dataset's format= in feedd.conf says how its files are read",
    "num_samples": _WEIGHTS,
    "replacement": _WEIGHTS,
    "dtype": "the dataset's field.NAME= and transform.NAME= in feedd.conf set the type of a field",
    "num_replicas": "this is called world_size here",
    "distributed": "ranks are detected automatically; rank= and world_size= set them",
    "to_device": "this is called device here",
    "prefetch": "this is called prefetch_factor here",
}

Init = TypeVar("Init", bound=Callable[..., None])


def _explain(owner: str, name: str, known: list[str]) -> str:
    said = f"{owner}() has no argument {name!r}"
    if name in _ELSEWHERE:
        return f"{said}: {_ELSEWHERE[name]}"
    near = difflib.get_close_matches(name, known, 1)
    return f"{said}: did you mean {near[0]!r}?" if near else said


def explains(init: Init) -> Init:
    """For an ``__init__``: an argument that it does not know raises an error that says what to do."""
    known = [name for name in inspect.signature(init).parameters if name != "self"]

    @functools.wraps(init)
    def checked(self: Any, *arguments: Any, **options: Any) -> None:
        for name in options:
            if name not in known:
                raise TypeError(_explain(type(self).__name__, name, known))
        init(self, *arguments, **options)

    return checked  # type: ignore[return-value]


def refuse_meaningless(arguments: dict[str, Any]) -> None:
    """Raises for an argument of torch's that asks for something feedd does not do. Warns once of those without effect."""
    for name, (neutral, instead) in _WITHOUT_MEANING.items():
        value = arguments[name]
        if not any(value is one or (type(value) is type(one) and value == one) for one in neutral):
            raise ValueError(f"{name}={value!r} has no meaning with feedd{'. ' if instead else ''}{instead}")
    if arguments["batch_size"] is None:
        raise ValueError("batch_size=None has no meaning with feedd. Single samples are feedd.Dataset(name)[i]")
    without_effect = [name for name in _HARMLESS if arguments[name]]
    if without_effect:
        warn("; ".join(f"{name}=True has no effect with feedd: {_HARMLESS[name]}" for name in without_effect))


def whole_number(name: str, value: Any, least: int, most: int) -> int:
    """`value` as an int within bounds; a bool is refused."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}={value!r} is not a whole number")
    number = int(value.__index__())
    if not least <= number <= most:
        wanted = f"between {least} and {most}" if least < most else f"{least}"
        raise ValueError(f"{name}={number}: must be {wanted}")
    return number


def optional_number(name: str, value: Any, least: int, most: int) -> int:
    """The same, but 0 for None, which leaves the choice to libfeed and the daemon."""
    return 0 if value is None else whole_number(name, value, least, most)


def milliseconds(timeout: Any) -> int:
    """torch's timeout, in seconds, as libfeed's: 0 is unlimited."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout={timeout!r} is not a number of seconds")
    if not timeout >= 0:
        raise ValueError(f"timeout={timeout} is negative; 0 waits indefinitely")
    return max(1, min(round(timeout * 1000), 2**31 - 1)) if timeout else -1


def seed_of(seed: int | None, generator: Any) -> int:
    """The seed of the order. By default, torch takes a new one in each run; ours is 0, as for DistributedSampler."""
    if generator is None:
        return whole_number("seed", 0 if seed is None else seed, 0, 2**64 - 1)
    if seed is not None:
        raise ValueError("give seed= or generator=, not both")
    if not hasattr(generator, "initial_seed"):
        raise TypeError(f"generator={generator!r} is not a torch.Generator")
    return int(generator.initial_seed()) % 2**64


def script_name() -> str | None:
    """The name that feedctl shows for this program; None leaves it to libfeed."""
    arguments = getattr(sys, "argv", None)
    name = os.path.basename(arguments[0]) if arguments else ""
    return None if name in ("", "-c") else name.encode(errors="replace").decode()
