"""torch's DataLoader arguments that have no meaning here: accepted with the values that ask for nothing, else explained."""

import os
import sys
from typing import Any

# Argument: the values that ask for nothing, and what feedd does instead.
_WITHOUT_MEANING: dict[str, tuple[tuple[Any, ...], str]] = {
    "sampler": ((None,), "the order of samples is made by the daemon from shuffle= and seed=, the same on every machine"),
    "batch_sampler": ((None,), "the daemon makes the batches, from batch_size=, shuffle= and drop_last="),
    "num_workers": ((0,), "the daemon's loaders read for all its clients: set loaders= in feedd.conf, and leave this at 0"),
    "collate_fn": ((None,), "batches come as one tensor a field; what else is to be done to them is done in the loop, or by"
                            " transform.FIELD= in feedd.conf"),
    "pin_memory": ((False,), "the ring is pinned already where a GPU uses it: ask for device=\"cuda\" and leave this False"),
    "pin_memory_device": (("",), "ask for device=\"cuda:N\""),
    "worker_init_fn": ((None,), "there are no worker processes of this program"),
    "multiprocessing_context": ((None,), "there are no worker processes of this program"),
    "persistent_workers": ((False, True), ""),
    "in_order": ((True,), "batches always come in order"),
}


def refuse_meaningless(arguments: dict[str, Any]) -> None:
    """Raises for an argument of torch's that asks for what feedd does otherwise, and for one that nobody knows."""
    for name, value in arguments.items():
        if name not in _WITHOUT_MEANING:
            raise TypeError(f"DataLoader() has no argument {name!r}")
        neutral, instead = _WITHOUT_MEANING[name]
        if not any(value is one or (type(value) is type(one) and value == one) for one in neutral):
            raise ValueError(f"{name}={value!r} has no meaning with feedd: {instead}")


def whole_number(name: str, value: Any, least: int, most: int) -> int:
    """`value` as an int within bounds; True is not 1."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}={value!r} is not a whole number")
    number = int(value.__index__())
    if not least <= number <= most:
        raise ValueError(f"{name}={number} is not within {least} and {most}")
    return number


def optional_number(name: str, value: Any, least: int, most: int) -> int:
    """The same, and 0 for None, by which libfeed and the daemon know that they are to choose."""
    return 0 if value is None else whole_number(name, value, least, most)


def milliseconds(timeout: Any) -> int:
    """torch's timeout, in seconds, as libfeed's: 0 is for ever."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout={timeout!r} is not a number of seconds")
    if not timeout >= 0:
        raise ValueError(f"timeout={timeout} is negative; 0 waits for ever")
    return max(1, min(round(timeout * 1000), 2**31 - 1)) if timeout else -1


def seed_of(seed: int | None, generator: Any) -> int:
    """The seed of the order. torch's default would be another one at each run; ours is 0, as DistributedSampler's."""
    if generator is None:
        return whole_number("seed", 0 if seed is None else seed, 0, 2**64 - 1)
    if seed is not None:
        raise ValueError("give seed= or generator=, not both")
    if not hasattr(generator, "initial_seed"):
        raise TypeError(f"generator={generator!r} is no torch.Generator")
    return int(generator.initial_seed()) % 2**64


def script_name() -> str | None:
    """What feedctl calls us by; None leaves it to libfeed."""
    arguments = getattr(sys, "argv", None)
    name = os.path.basename(arguments[0]) if arguments else ""
    return None if name in ("", "-c") else name.encode(errors="replace").decode()
