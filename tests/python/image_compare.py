"""Compares operations on images with torchvision's, with what the environment makes of torch, and prints the differences.

image_compare.py GROUP: a JSON object with what was found for each operation of the group. A process of its own, because
torch reads ATEN_CPU_CAPABILITY once.
"""

import json
import sys

import numpy
import pixels
import torch

SIZES = [(1, 1), (1, 500), (500, 1), (3, 2), (3, 3), (4, 5), (96, 96), (63, 65), (32, 32), (17, 300)]
AFFINE_SIZES = [(96, 96), (225, 223), (33, 7), (1, 200), (200, 1), (3, 2), (1, 1), (7, 7)]
ROUNDS = 240
random = numpy.random.default_rng(5)


def factor():
    """Any, round, and extreme ones."""
    return float(random.choice([3 * random.random(), 0.05 * random.integers(0, 40), 0.0, 1.0, 1e-9, 255.0, 1000.0]))


def huge_factor():
    return float(random.choice([factor(), 1e6]))


VALUES = {
    "brightness": lambda: [huge_factor()],
    "contrast": lambda: [factor()],
    "saturation": lambda: [huge_factor()],
    "sharpness": lambda: [huge_factor()],
    "hue": lambda: [float(random.choice([random.random() - 0.5, 0.5, -0.5, 0.0, 1e-9, -1e-9]))],
    "grayscale": list,
    "invert": list,
    "posterize": lambda: [int(random.integers(0, 9))],
    "solarize": lambda: [float(random.choice([255 * random.random(), 255, 0, -1, 128]))],
    "autocontrast": list,
    "equalize": list,
}


def image(width, height, channels):
    """Of any values, of few neighbouring ones, of the extreme ones, or of one."""
    shape = (channels, height, width)
    least = int(random.integers(0, 256))
    return [
        random.integers(0, 256, shape, dtype=numpy.uint8),
        random.integers(least, min(256, least + 2 + random.integers(0, 30)), shape).astype(numpy.uint8),
        random.choice(numpy.array([0, 1, 254, 255], dtype=numpy.uint8), shape),
        numpy.full(shape, least, dtype=numpy.uint8),
    ][random.choice(4, p=[0.5, 0.3, 0.15, 0.05])]


class Found:
    def __init__(self):
        self.images = self.values = self.different = self.worst = self.early = 0

    def add(self, ours, right):
        """early: not among the last values of the tensor, which torch does not take in whole vectors."""
        difference = numpy.abs(ours.astype(int) - right.astype(int)).ravel()
        self.images += 1
        self.values += difference.size
        self.different += int((difference > 0).sum())
        self.worst = max(self.worst, int(difference.max(initial=0)))
        self.early += int((difference[: difference.size // 32 * 32] > 0).sum())


def compare_colours():
    found = {name: Found() for name in VALUES}
    for name, values in VALUES.items():
        for number in range(ROUNDS):
            picture, chosen = image(*SIZES[number % len(SIZES)], 3 if number % 3 else 1), values()
            found[name].add(pixels.operate(name, picture, chosen)[0], pixels.by_torchvision(name, picture, chosen))
    return found


def every_colour():
    """All 2^24, 2^20 at a time."""
    found = {}
    for name, chosen in (("grayscale", []), ("saturation", [1.3]), ("hue", [0.3])):
        found[name] = Found()
        for first in range(0, 1 << 24, 1 << 20):
            colours = numpy.arange(first, first + (1 << 20), dtype=numpy.uint32)
            picture = numpy.stack([colours >> 16, colours >> 8 & 255, colours & 255]).astype(numpy.uint8).reshape(3, 1024, 1024)
            found[name].add(pixels.operate(name, picture, chosen)[0], pixels.by_torchvision(name, picture, chosen))
    return found


def large_contrast():
    """More than 65,793 pixels."""
    found = Found()
    for _ in range(40):
        picture, chosen = image(640, 480, 3), [2 * random.random()]
        found.add(pixels.operate("contrast", picture, chosen)[0], pixels.by_torchvision("contrast", picture, chosen))
    return {"contrast": found}


def erased():
    found = Found()
    for number in range(ROUNDS):
        width, height = SIZES[number % len(SIZES)]
        picture = image(width, height, 3 if number % 3 else 1)
        x, y = random.integers(0, width), random.integers(0, height)
        chosen = [int(x), int(y), int(random.integers(0, width - x + 1)), int(random.integers(0, height - y + 1))]
        found.add(pixels.operate("erase", picture, chosen)[0], pixels.by_torchvision("erase", picture, chosen))
    return {"erase": found}


def numbered(width, height):
    """Pixels that tell where they are from."""
    columns, rows = numpy.meshgrid(numpy.arange(width) % 251, numpy.arange(height) % 251)
    return numpy.stack([columns, rows, numpy.full_like(rows, 255)]).astype(numpy.uint8)


def augmentations():
    """Every operation with every magnitude and sign."""
    found = {name: Found() for name in pixels.AUGMENTATIONS}
    for kind in range(2):
        for width, height in AFFINE_SIZES:
            pictures = [numbered(width, height), image(width, height, 3), image(width, height, 1)]
            for number, name in enumerate(pixels.AUGMENTATIONS):
                chosen, signed = pixels.magnitudes(kind, name, width, height)
                for place, magnitude in enumerate(chosen or [0.0]):
                    for sign in (1, -1) if signed else (1,):
                        picture = pictures[(place + number) % 3]
                        ours = pixels.operate("augment", picture, [number, sign * magnitude])[0]
                        found[name].add(ours, pixels.augmented_by_torchvision(picture, name, sign * magnitude))
    return found


def every_magnitude():
    """`different` counts magnitudes."""
    found = {name: Found() for name in pixels.AUGMENTATIONS}
    sizes = [(224, 224), (1, 1), (65535, 1), (333, 17), *random.integers(1, 5000, (50, 2)).tolist()]
    for kind in range(2):
        for width, height in sizes:
            for number, name in enumerate(pixels.AUGMENTATIONS):
                right = pixels.magnitudes(kind, name, width, height)[0] or [0.0] * 31
                ours = [pixels.LIBRARY.image_magnitude(kind, number, place, width, height) for place in range(31)]
                found[name].values += 31
                found[name].different += sum(a != b for a, b in zip(ours, right, strict=True))
    return found


GROUPS = [compare_colours, every_colour, large_contrast, erased, augmentations, every_magnitude]

if __name__ == "__main__":
    torch.set_num_threads(1)
    group = next(group for group in GROUPS if group.__name__ == sys.argv[1])
    print(json.dumps({name: vars(found) for name, found in group().items()}))
