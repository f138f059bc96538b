"""MixUp and CutMix: batches whose samples are blended with each other, by counted random numbers."""

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loader import DataLoader

_RANDOM_BATCH_1 = 4  # order/philox.h lists what random numbers are for
_WORD = 2**64 - 1


def _splitmix64(word: int) -> int:
    """order/splitmix.h"""
    word = (word + 0x9E3779B97F4A7C15) & _WORD
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & _WORD
    return word ^ (word >> 31)


def _philox(key: int, counter: int) -> int:
    """The 128 random bits of a counter of 128 bits: Philox4x32-10, as order/philox.h describes it."""
    low, high = key & 0xFFFFFFFF, key >> 32
    at = [counter >> 32 * word & 0xFFFFFFFF for word in range(4)]
    for _ in range(10):
        even, odd = 0xD2511F53 * at[0], 0xCD9E8D57 * at[2]
        at = [odd >> 32 ^ at[1] ^ low, odd & 0xFFFFFFFF, even >> 32 ^ at[3] ^ high, even & 0xFFFFFFFF]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return sum(word << 32 * place for place, word in enumerate(at))


def dice_of(seed: int, epoch: int, position: int) -> random.Random:
    """The draws for the batch whose first sample stands at that position of the epoch. Python's generator, seeded with 128
    counted bits, so that a batch is mixed in the same way however a run came to it."""
    key = _splitmix64(_splitmix64(_RANDOM_BATCH_1) ^ seed)
    return random.Random(_philox(key, position | epoch << 64))


class _Kind:
    """``alpha``: shares are drawn from Beta(alpha, alpha)."""

    def __init__(self, alpha: float = 1.0) -> None:
        if not 0 < alpha < float("inf"):
            raise ValueError(f"alpha is {alpha}, wanted a number above 0")
        self.alpha = float(alpha)

    def __repr__(self) -> str:
        return f"feedd.{type(self).__name__}({self.alpha:g})"

    def mix(self, images: Any, dice: random.Random) -> tuple[Any, float]:
        """New images, and the share of each that is its own: the rest is of the sample before it in the batch, which for the
        first one is the last."""
        raise NotImplementedError


class MixUp(_Kind):
    """Each image becomes ``share * image + (1 - share) * other`` (Zhang et al., mixup, 2018)."""

    def mix(self, images: Any, dice: random.Random) -> tuple[Any, float]:
        if not images.is_floating_point():
            raise TypeError(f"MixUp blends images of a floating-point type, and these are {images.dtype}: add cast f32 or"
                            " f16 to their transform")
        share = dice.betavariate(self.alpha, self.alpha)
        return images.roll(1, 0).mul_(1 - share).add_(images, alpha=share), share


class CutMix(_Kind):
    """A rectangle of each image, of a random place and ``1 - share`` of its area as far as it lies inside, becomes the other's
    (Yun et al., CutMix, 2019)."""

    def mix(self, images: Any, dice: random.Random) -> tuple[Any, float]:
        height, width, layout = _sides(images)
        half = 0.5 * (1 - dice.betavariate(self.alpha, self.alpha)) ** 0.5
        x, y = dice.randrange(width), dice.randrange(height)
        left, right = max(x - int(half * width), 0), min(x + int(half * width), width)
        top, bottom = max(y - int(half * height), 0), min(y + int(half * height), height)
        box: tuple[Any, ...] = (..., slice(top, bottom), slice(left, right))
        if layout == "hwc":
            box = (slice(None), *box[1:])
        mixed = images.clone()
        mixed[box] = images.roll(1, 0)[box]
        return mixed, 1 - (right - left) * (bottom - top) / (width * height)


def _sides(images: Any) -> tuple[int, int, str]:
    shape = tuple(images.shape)
    if len(shape) == 4 and shape[1] in (1, 3):
        return shape[2], shape[3], "chw"
    if len(shape) == 4 and shape[3] in (1, 3):
        return shape[1], shape[2], "hwc"
    raise ValueError(f"CutMix takes images [batch, channels, height, width] or [batch, height, width, channels] with 1 or 3"
                     f" channels, and these are {list(shape)}")  # fmt: skip


class _Mixed:
    def __init__(self, loader: "DataLoader", kinds: tuple[_Kind, ...], classes: int, image: Any, label: Any) -> None:
        self._loader, self._kinds, self._classes = loader, kinds, classes
        self._image, self._label = image, label

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        iteration = iter(self._loader)
        for batch in iteration:
            dice = dice_of(self._loader.seed, *iteration.place)
            yield self._mix(batch, dice)

    def _mix(self, batch: Any, dice: random.Random) -> Any:
        images, share = dice.choice(self._kinds).mix(batch[self._image], dice)
        targets = self._targets(batch[self._label], share)
        if isinstance(batch, dict):
            return {**batch, self._image: images, self._label: targets}
        fields = list(batch)
        fields[self._image], fields[self._label] = images, targets
        return tuple(fields)

    def _targets(self, labels: Any, share: float) -> Any:
        import torch

        if labels.dim() != 1 or labels.is_floating_point():
            raise TypeError(f"labels are class numbers, one for each sample, and these are {list(labels.shape)} of"
                            f" {labels.dtype}")
        whole = torch.nn.functional.one_hot(labels.long(), self._classes).float()
        return whole.roll(1, 0).mul_(1 - share).add_(whole, alpha=share)


def mixed(loader: "DataLoader", *kinds: _Kind, classes: int, image: Any = None, label: Any = None) -> _Mixed:
    """The batches of a loader, for PyTorch, with their samples mixed: for each batch, one of ``kinds`` (``feedd.MixUp``,
    ``feedd.CutMix``), each as likely as the others. Images keep their type and shape; labels, which are class numbers below
    ``classes``, become float32 ``[batch, classes]``, as ``torch.nn.CrossEntropyLoss`` takes them. Both are new tensors, on the
    batch's device and its current stream; other fields stay as they are.

    The draws depend on the loader's seed, the epoch and the place of the batch in it, so a resumed run mixes exactly as an
    uninterrupted one. With several ranks, each makes its own draws. They use Python's generator and its ``betavariate``, so
    another version of Python could draw differently.

    image, label: which fields these are: places in the tuples (by default 0 and 1), or names with ``as_dict=True`` (by default
        "image" and "label").

    Iterate over it as over the loader; ``set_epoch()``, ``state_dict()`` and all else remain the loader's.
    """
    if not kinds or not all(isinstance(kind, _Kind) for kind in kinds):
        raise TypeError("name one or more of feedd.MixUp() and feedd.CutMix()")
    if loader.framework != "torch":
        raise TypeError(f"mixed() works with tensors of PyTorch, and this loader gives those of {loader.framework}")
    named = loader.as_dict
    return _Mixed(loader, kinds, classes, *(("image" if named else 0) if image is None else image,
                                            ("label" if named else 1) if label is None else label))  # fmt: skip
