"""Arrays as tensors of a framework: without a copy, each holding its batch for as long as it lives."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from . import ragged
from ._feed import Array

Convert = Callable[[Array], Any]


def _torch(copy: bool) -> Convert:
    from_dlpack = importlib.import_module("torch").from_dlpack
    if not copy:
        return from_dlpack  # type: ignore[no-any-return]
    return lambda array: from_dlpack(array).clone()


def _numpy(copy: bool) -> Convert:
    numpy = importlib.import_module("numpy")

    def convert(array: Array) -> Any:
        if array.dtype == "bfloat16":
            raise TypeError("NumPy has no bfloat16: use framework=\"torch\", or cast the field to f32 in feedd.conf")
        return numpy.array(array) if copy else numpy.asarray(array)

    return convert


def _jax(copy: bool) -> Convert:
    from_dlpack = importlib.import_module("jax.dlpack").from_dlpack
    if not copy:
        return from_dlpack  # type: ignore[no-any-return]
    copied = importlib.import_module("jax.numpy").array  # from_dlpack(copy=True) does not copy
    return lambda array: copied(from_dlpack(array), copy=True)


def _padded_jax(device_number: int) -> Convert:
    """Padded by NumPy: JAX would compile each operation again for each length, which takes longer than copying."""
    jax, numpy, from_dlpack = importlib.import_module("jax"), importlib.import_module("numpy"), _jax(False)
    pad = ragged.maker("padded", "numpy")

    def convert(array: Array) -> Any:
        values: Any = array
        offsets: Any = array.offsets
        if device_number >= 0:
            values, offsets = from_dlpack(array), from_dlpack(offsets)
            (place,) = offsets.devices()
        else:
            (place,) = jax.devices("cpu")[:1]
            if array.dtype == "bfloat16":  # NumPy knows JAX's, but not ours
                values = from_dlpack(array)
        return jax.device_put(pad(numpy.asarray(values), numpy.asarray(offsets)), place)

    return convert


def _cupy(copy: bool) -> Convert:
    from_dlpack = importlib.import_module("cupy").from_dlpack
    if not copy:
        return from_dlpack  # type: ignore[no-any-return]
    return lambda array: from_dlpack(array).copy()


def _dlpack(copy: bool) -> Convert:
    if copy:
        raise ValueError("copy=True needs a framework that makes the copy")
    return lambda array: array


_FRAMEWORKS: dict[str, Callable[[bool], Convert]] = {
    "torch": _torch,
    "numpy": _numpy,
    "jax": _jax,
    "cupy": _cupy,
    "dlpack": _dlpack,
}
_ON_A_GPU_ALONE = ("cupy",)
_IN_HOST_MEMORY_ALONE = ("numpy",)


def choose(framework: str | None, device: str) -> str:
    """The framework to use: the one named, else the first installed one of torch and NumPy (on a GPU torch, CuPy and JAX),
    else none (``"dlpack"``)."""
    if framework is None:
        host = not device.startswith("cuda") and not device.startswith("GPU-")
        order = ("torch", "numpy") if host else ("torch", "cupy", "jax")
        return next((name for name in order if importlib.util.find_spec(name)), "dlpack")
    if framework not in _FRAMEWORKS:
        raise ValueError(f"framework={framework!r} is not one of {', '.join(_FRAMEWORKS)}")
    return framework


def converter(framework: str, device_number: int, copy: bool) -> Convert:
    """A function that makes a tensor of an Array (for a ragged field, of its values). ``device_number`` is the GPU's, or -1 for
    host memory."""
    if framework in _IN_HOST_MEMORY_ALONE and device_number >= 0:
        raise ValueError(f"framework={framework!r} has no tensors on a GPU; torch, cupy and jax do")
    if framework in _ON_A_GPU_ALONE and device_number < 0:
        raise ValueError(f"framework={framework!r} has no tensors in host memory; torch and numpy do")
    return _FRAMEWORKS[framework](copy)


def batch_converter(framework: str, device_number: int, copy: bool, kind: str) -> Convert:
    """The same for the fields of a batch: a ragged one becomes what ``kind`` of ragged.py says."""
    convert = converter(framework, device_number, copy)
    if framework == "jax":  # which has no others
        padded = _padded_jax(device_number) if kind == "padded" else convert
        return lambda array: (convert if array.offsets is None else padded)(array)
    make = ragged.maker(kind, framework)

    def convert_field(array: Array) -> Any:
        offsets = array.offsets
        return convert(array) if offsets is None else make(convert(array), convert(offsets))

    return convert_field


def device_name(device: Any) -> str:
    """libfeed's name for a device: "cuda" is torch's current device once torch has one, and a number is a GPU's, as in
    torch."""
    name = f"cuda:{device}" if isinstance(device, int) and not isinstance(device, bool) else str(device)
    torch = sys.modules.get("torch")
    if name == "cpu:0":  # as torch may call it
        return "cpu"
    if name == "cuda" and torch is not None and torch.cuda.is_initialized():
        return f"cuda:{torch.cuda.current_device()}"
    return name
