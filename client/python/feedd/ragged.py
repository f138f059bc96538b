"""Batches of fields whose samples differ in length: how values and offsets become what a framework has for that."""

import importlib
from collections.abc import Callable, Iterable
from typing import Any

KINDS = ("nested", "pair", "padded")

Make = Callable[[Any, Any], Any]


def choose(ragged: str | None, framework: str) -> str:
    """What is asked for, or what the framework's users expect: a jagged nested tensor in torch, else the pair of values and
    offsets."""
    if ragged is None:
        return "nested" if framework == "torch" else "pair"
    if ragged not in KINDS:
        raise ValueError(f"ragged={ragged!r} is not one of {', '.join(KINDS)}")
    if ragged == "nested" and framework != "torch":
        others = "\"padded\"" if framework == "jax" else "\"pair\" or \"padded\""
        raise ValueError(f"ragged=\"nested\" needs framework=\"torch\", not {framework!r}: use {others}")
    if ragged == "padded" and framework == "dlpack":
        raise ValueError("ragged=\"padded\" needs a framework that makes the copy")
    return ragged


def refuse(framework: str, kind: str, fields: Iterable[tuple[str, str, tuple[int | None, ...]]]) -> None:
    """Refuses ragged fields in a framework that has nothing for them."""
    name = next((name for name, _, shape in fields if None in shape), None)
    if name is not None and framework == "jax" and kind != "padded":
        raise ValueError(f"the samples of field {name} differ in length, and JAX has no such arrays: give all of them one"
                         f" length with pad.{name} = LENGTH in feedd.conf, for which jax.jit compiles once, or those of a batch"
                         " with ragged=\"padded\", for which it compiles again for each length")


def maker(kind: str, framework: str) -> Make:
    """A function of values and offsets, both tensors of the framework."""
    if kind == "pair":
        return lambda values, offsets: (values, offsets)
    if kind == "nested":
        return _nested()
    return _padded_torch() if framework == "torch" else _padded(importlib.import_module(framework))


def _nested() -> Make:
    nested = importlib.import_module("torch.nested").nested_tensor_from_jagged

    def make(values: Any, offsets: Any) -> Any:
        if values.is_cuda or len(offsets) == 1:  # to look at lengths there, the CPU would have to wait for the GPU
            return nested(values, offsets)
        lengths = offsets.diff()
        # Without these, torch pads on the CPU to the length of all samples together.
        return nested(values, offsets, min_seqlen=int(lengths.min()), max_seqlen=int(lengths.max()))

    return make


def _padded_torch() -> Make:
    torch = importlib.import_module("torch")

    def make(values: Any, offsets: Any) -> Any:
        lengths = offsets[1:] - offsets[:-1]
        longest = int(lengths.max()) if lengths.numel() else 0
        inside = torch.arange(longest, device=values.device) < lengths[:, None]
        padded = values.new_zeros(inside.shape)
        padded[inside] = values
        return padded

    return make


def _padded(numpy: Any) -> Make:
    """Of NumPy, or of CuPy, which has the same functions."""

    def make(values: Any, offsets: Any) -> Any:
        lengths = offsets[1:] - offsets[:-1]
        longest = int(lengths.max()) if len(lengths) else 0
        inside = numpy.arange(longest) < lengths[:, None]
        padded = numpy.zeros(inside.shape, values.dtype)
        padded[inside] = values
        return padded

    return make
