"""Views that a program brings: which samples of a dataset it wants, in place of a [view NAME] in feedd.conf."""

import array
import math
import operator
from dataclasses import dataclass
from typing import Any

from .arguments import whole_number

_RANGE, _SPLIT, _INDICES, _WEIGHTS = 1, 2, 3, 4  # enum feed_view_kind
_WHOLE = 1_000_000
# enum feed_dtype, by the letters of memoryview.format; "l" and "L" have 8 bytes on the machines that feedd runs on.
_DTYPES = {"?": 1, "B": 2, "b": 3, "H": 4, "h": 5, "I": 6, "i": 7, "Q": 8, "L": 8, "q": 9, "l": 9, "e": 10, "f": 12, "d": 13}


@dataclass(frozen=True)
class View:
    """The samples that are asked for, checked as far as that is possible without the dataset."""

    kind: int
    begin: int = 0
    end: int = 0
    seed: int = 0
    numbers: bytes = b""
    dtype: int = 0
    draws: int = 0
    part: "View | None" = None  # which draws by weight are from

    def packed(self) -> tuple[int, int, int, int, bytes, int, int, Any]:
        """As a Feed wants it."""
        part = None if self.part is None else self.part.packed()
        return self.kind, self.begin, self.end, self.seed, self.numbers, self.dtype, self.draws, part

    def __repr__(self) -> str:
        return f"<feedd view: {('', 'range', 'split', 'indices', 'weights')[self.kind]}>"


def _plain(values: Any) -> Any:
    """What NumPy or a list makes of the arrays of others."""
    if hasattr(values, "detach"):  # a torch tensor
        values = values.detach().cpu()
        try:
            return values.numpy()
        except (TypeError, RuntimeError):  # bfloat16, which NumPy does not have, or there is no NumPy
            return values.tolist()
    return values.to_numpy() if hasattr(values, "to_numpy") else values  # pandas


def _from_memory(name: str, memory: memoryview) -> tuple[bytes, int]:
    letter = memory.format.lstrip("<=@")
    if memory.ndim != 1:
        raise ValueError(f"{name}= has {memory.ndim} dimensions, wanted one")
    if letter not in _DTYPES:
        raise TypeError(f"{name}= has numbers of format {memory.format!r}: give integers"
                        f"{' or floats' if name == 'weights' else ''} in the machine's byte order")
    return memory.tobytes(), _DTYPES[letter]


def _from_list(name: str, values: list[Any]) -> tuple[bytes, int]:
    if name == "weights":
        return array.array("d", map(float, values)).tobytes(), _DTYPES["d"]
    if any(isinstance(value, bool) for value in values):
        return bytes(len(values)), _DTYPES["?"]
    try:
        return array.array("q", map(operator.index, values)).tobytes(), _DTYPES["q"]
    except OverflowError:
        raise ValueError(f"{name}= has a number that does not fit into 64 bits") from None


def _numbers(name: str, values: Any) -> tuple[bytes, int]:
    values = _plain(values)
    if isinstance(values, (str, bytes, bytearray)):
        raise TypeError(f"{name}={values[:20]!r} is not a list or array of numbers")
    try:
        memory = memoryview(values)
    except (TypeError, ValueError):  # ValueError: of NumPy, for types that have no format
        try:
            numbers, dtype = _from_list(name, list(values))
        except TypeError as error:
            raise TypeError(f"{name}= is not a list or array of numbers: {error}") from None
    else:
        numbers, dtype = _from_memory(name, memory)
    if dtype == _DTYPES["?"]:
        raise ValueError(f"{name}= is a mask: give the sample numbers, such as numpy.flatnonzero(mask)" if name == "indices"
                         else f"{name}= is a mask: give numbers")
    if name == "indices" and dtype > _DTYPES["q"]:
        raise TypeError("indices= has floats: sample numbers are integers")
    return numbers, dtype


def _millionths(bound: float) -> int:
    """The daemon takes millionths, and rounds the number of samples down. So these are rounded up: then 1/3 of 300 samples are
    100 and not 99, as is every K/N of N samples up to a million of them. A bound that is a number of millionths, but for the
    precision of floats, is that number."""
    nearest = round(bound * _WHOLE)
    return nearest if abs(bound * _WHOLE - nearest) < 1e-6 else math.ceil(bound * _WHOLE)


def _of_split(split: Any, seed: int | None, listed: dict[str, Any]) -> View:
    try:
        begin, end = (float(bound) for bound in split)
    except (TypeError, ValueError):
        raise TypeError(f"split={split!r} is not a pair of fractions such as (0.0, 0.9)") from None
    if not (math.isfinite(begin) and math.isfinite(end) and 0 <= begin <= end <= 1):
        raise ValueError(f"split={split!r}: wanted two fractions from 0.0 to 1.0, the smaller one first; for samples by number,"
                         " use indices=range(BEGIN, END)")
    bounds = _millionths(begin), _millionths(end)
    if seed is None:
        return View(_RANGE, *bounds, **listed)
    return View(_SPLIT, *bounds, **listed, seed=whole_number("split_seed", seed, 0, 2**64 - 1))


def view_of(split: Any, split_seed: int | None, indices: Any, weights: Any, epoch_samples: int | None) -> View | None:
    """The view that these arguments ask for; None if they ask for nothing."""
    if split_seed is not None and split is None:
        raise ValueError("split_seed= belongs to split=")
    if epoch_samples is not None and weights is None:
        raise ValueError("epoch_samples= belongs to weights=: it is the number of draws in an epoch")
    part = _part_of(split, split_seed, indices)
    if weights is None:
        return part
    draws = 0 if epoch_samples is None else whole_number("epoch_samples", epoch_samples, 1, 2**40)
    return View(_WEIGHTS, draws=draws, part=part, **_named(_numbers("weights", weights)))


def _part_of(split: Any, split_seed: int | None, indices: Any) -> View | None:
    listed = {} if indices is None else _named(_numbers("indices", indices))
    if split is not None:
        return _of_split(split, split_seed, listed)
    return None if indices is None else View(_INDICES, **listed)


def _named(numbers: tuple[bytes, int]) -> dict[str, Any]:
    return {"numbers": numbers[0], "dtype": numbers[1]}
