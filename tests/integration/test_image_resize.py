"""Resized images, compared bit for bit with Pillow. The resizer is given the pixels that it says it needs, and no others."""

import contextlib
import os
import random
import struct
import subprocess

import harness
import numpy
import PIL
from PIL import Image

FILTERS = {0: Image.Resampling.NEAREST, 1: Image.Resampling.BILINEAR, 2: Image.Resampling.BICUBIC}
ENOENT, EINVAL = -2, -22
REQUEST = struct.Struct("14I4d")
ROWS_FIRST, COLUMNS_FIRST, PILLOW_13 = range(3)
# Older versions choose the order in another way, but are the same within an axis.
ORDERS = (ROWS_FIRST, COLUMNS_FIRST) + ((PILLOW_13,) if int(PIL.__version__.split(".")[0]) >= 13 else ())
ROUNDS = int(os.environ.get("RESIZE_ROUNDS", "1"))


class Resizer:
    def __init__(self, process):
        self.process = process

    def ask(self, pixels, size, resample, box, part, margin=0, instructions=0, order=0):
        """The part (x, y, width, height) of the resized pixels, or a negative errno."""
        height, width = pixels.shape[:2]
        channels = 1 if pixels.ndim == 2 else 3
        words = (instructions, resample, channels, width, height, *size, *part, margin, order, 0)
        self.process.stdin.write(REQUEST.pack(*words, *box))
        self.process.stdin.write(pixels.tobytes())
        self.process.stdin.flush()
        (error,) = struct.unpack("i", self.process.stdout.read(4))
        if error:
            return error
        shape = (part[3], part[2], *pixels.shape[2:])
        return numpy.frombuffer(self.process.stdout.read(int(numpy.prod(shape))), dtype=numpy.uint8).reshape(shape)


@contextlib.contextmanager
def resizer():
    with subprocess.Popen([harness.BUILD / "tests/resizer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Resizer(process)
        process.stdin.close()
        assert process.wait(timeout=10) == 0


def picture(numbers, width, height, channels):
    """Noise, extremes, or a ramp: sums that are clipped, and sums that end close to a half."""
    shape = (height, width, 3)[: 3 if channels == 3 else 2]
    kind = numbers.integers(4)
    if kind == 0:
        return (numbers.integers(0, 2, shape) * 255).astype(numpy.uint8)
    if kind == 1:
        return (numpy.arange(numpy.prod(shape)) * numbers.integers(1, 99) % 256).astype(numpy.uint8).reshape(shape)
    return numbers.integers(0, 256, shape, dtype=numpy.uint8)


def side(most):
    """Often small, sometimes large."""
    return max(1, int(most ** random.uniform(0, 1)))


def interval(length):
    """Where a box begins and ends: everything, whole pixels, anywhere, or next to nothing."""
    kind = random.randrange(5)
    if kind == 0:
        return 0, length
    if kind == 1:
        begin = random.randrange(length)
        return begin, random.randint(begin + 1, length)
    begin, end = sorted(random.uniform(0, length) for _ in range(2))
    if kind == 2:
        end = min(length, begin + random.uniform(0, 0.01))
    return begin, end


def part_of(size):
    """Often everything."""
    if random.random() < 0.5:
        return 0, 0, *size
    x, y = (random.randrange(length) for length in size)
    return x, y, random.randint(1, size[0] - x), random.randint(1, size[1] - y)


def pillow_resize(pixels, size, resample, box, order):
    """Both axes in that order, or in Pillow's own."""
    image = Image.fromarray(pixels)
    if order == PILLOW_13 or not resample:
        return numpy.asarray(image.resize(size, FILTERS[resample], box=box))
    left, top, right, bottom = box
    if order == ROWS_FIRST:
        rows = image.resize((size[0], image.height), FILTERS[resample], box=(left, 0, right, image.height))
        return numpy.asarray(rows.resize(size, FILTERS[resample], box=(0, top, size[0], bottom)))
    columns = image.resize((image.width, size[1]), FILTERS[resample], box=(0, top, image.width, bottom))
    return numpy.asarray(columns.resize(size, FILTERS[resample], box=(left, 0, right, size[1])))


def compare(resizing, pixels, size, resample, box, part, margin=0):
    """In every order, with all instruction sets that this machine has."""
    for order in ORDERS:
        between = (size[0] * pixels.shape[0], pixels.shape[1] * size[1], 0)[order]
        if between > 1 << 24:
            continue  # Pillow would take gigabytes for it, one of its axes being 65,535 long before and after
        wanted = pillow_resize(pixels, size, resample, box, order)
        compare_with(wanted, resizing, pixels, size, resample, box, part, margin, order)


def compare_with(wanted, resizing, pixels, size, resample, box, part, margin, order):
    x, y, width, height = part
    wanted = wanted[y : y + height, x : x + width]
    for instructions in range(9):
        found = resizing.ask(pixels, size, resample, box, part, margin, instructions, order)
        if isinstance(found, int) and found == ENOENT and instructions:
            break
        assert not isinstance(found, int), f"{pixels.shape} to {size}, {box}, {part}: errno {found}"
        different = numpy.argwhere(found != wanted)
        assert not len(different), (
            f"{pixels.shape} to {size}, filter {resample}, box {box}, part {part}, order {order}, set {instructions}: "
            f"{len(different)} differ, first {different[0]}: {found[tuple(different[0])]} not {wanted[tuple(different[0])]}"
        )


def compare_random(seed, count, most_from, most_to):
    random.seed(seed)
    numbers = numpy.random.default_rng(seed)
    with resizer() as resizing:
        for _ in range(count * ROUNDS):
            width, height = side(most_from), side(most_from)
            size = side(most_to), side(most_to)
            if random.random() < 0.1:
                size = random.choice([(width, height), (width, size[1]), (size[0], height)])
            (left, right), (top, bottom) = interval(width), interval(height)
            pixels = picture(numbers, width, height, random.choice((1, 3)))
            resample, margin = random.randrange(3), random.choice((0, 0, 1, 3, 100))
            compare(resizing, pixels, size, resample, (left, top, right, bottom), part_of(size), margin)


@harness.limit(120)
def test_small_images():
    compare_random(1, 3000, 40, 40)


@harness.limit(120)
def test_images_of_any_size():
    compare_random(2, 400, 700, 500)


@harness.limit(120)
def test_enlarging():
    compare_random(3, 400, 20, 600)


@harness.limit(120)
def test_long_sides():
    numbers = numpy.random.default_rng(4)
    random.seed(4)
    sizes = [(1, 5000), (5000, 1), (65500, 1), (1, 65500), (65500, 3), (65535, 2), (2, 65535), (3, 4099)]
    results = [(1, 1), (3, 2), (224, 1), (1, 224), (7, 300), (65535, 1), (1, 65535), (4096, 5)]
    with resizer() as resizing:
        for width, height in sizes:
            for size in results:
                for resample in FILTERS:
                    pixels = picture(numbers, width, height, random.choice((1, 3)))
                    (left, right), (top, bottom) = interval(width), interval(height)
                    part = random.choice(((0, 0, *size), part_of(size)))
                    compare(resizing, pixels, size, resample, (left, top, right, bottom), part)


def test_usual_sizes():
    """Whole images, crops as random_resized_crop makes them, and reductions by 3 and by 8."""
    numbers = numpy.random.default_rng(5)
    cases = [(500, 375, (224, 224), None), (500, 375, (341, 256), None), (500, 375, (224, 224), (31, 57, 331, 280)),
             (672, 672, (224, 224), None), (1792, 1344, (224, 168), None), (32, 32, (224, 224), None),
             (28, 28, (28, 28), None),
             (256, 256, (224, 224), (16, 16, 240, 240)), (100, 75, (224, 224), (3, 4, 99, 70))]  # fmt: skip
    with resizer() as resizing:
        for width, height, size, box in cases:
            for channels in (1, 3):
                for resample in FILTERS:
                    pixels = numbers.integers(0, 256, (height, width, 3)[: 3 if channels == 3 else 2], dtype=numpy.uint8)
                    compare(resizing, pixels, size, resample, box or (0, 0, width, height), (0, 0, *size))


def test_what_is_not_possible_is_refused():
    pixels = numpy.zeros((4, 5, 3), dtype=numpy.uint8)
    good = {"size": (3, 3), "resample": 1, "box": (0, 0, 5, 4), "part": (0, 0, 3, 3)}
    bad = [{"box": (-1, 0, 5, 4)}, {"box": (0, 0, 5.1, 4)}, {"box": (3, 0, 2, 4)}, {"box": (0, 0, float("nan"), 4)},
           {"box": (float("nan"), 0, 5, 4)}, {"box": (0, 0, 5, float("inf"))}, {"part": (0, 0, 4, 3)}, {"part": (3, 0, 0, 3)},
           {"part": (1, 0, 2**32 - 1, 3)}, {"size": (0, 3)}, {"size": (65536, 3)}, {"resample": 3}]  # fmt: skip
    with resizer() as resizing:
        assert not isinstance(resizing.ask(pixels, **good), int)
        for change in bad:
            assert resizing.ask(pixels, **{**good, **change}) == EINVAL, change
