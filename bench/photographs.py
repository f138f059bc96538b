#!/usr/bin/env python3
"""Makes photographs to measure decoding with: photographs.py FOLDER [--count 2048] [--large 128].

FOLDER/imagenet gets crops as large as ImageNet's images: most of them about 500 x 375 pixels, some 110 KB each. FOLDER/large
gets crops of 2000 x 1500. They are cut from the photographs in the PyPI packages scikit-image and scikit-learn, which need not
be importable. The same versions of these, of Pillow and of NumPy make the same files everywhere.
"""

import argparse
import concurrent.futures
import functools
import importlib.util
import io
import itertools
import os
import pathlib
import sys

import numpy as np
from PIL import Image

PHOTOGRAPHS = {
    "skimage": ["data/astronaut.png", "data/chelsea.png", "data/coffee.png", "data/rocket.jpg", "data/motorcycle_left.png"],
    "sklearn": ["datasets/images/china.jpg", "datasets/images/flower.jpg"],
}
# Width, height, and how many of ten have that size, each with up to a tenth more or less per side.
SIZES = [(500, 375, 6), (375, 500, 2), (500, 333, 1), (400, 400, 1)]
BYTES = 110_000
LARGE = (2000, 1500)
LARGE_QUALITY = 85
GRAIN = 3  # standard deviation of the noise that enlarged crops lack


@functools.cache
def find_photographs():
    images = []
    for package, names in PHOTOGRAPHS.items():
        found = importlib.util.find_spec(package)
        if not found:
            sys.exit(f"the package {package} is missing: pip install --no-deps scikit-image scikit-learn")
        for name in names:
            with Image.open(pathlib.Path(found.submodule_search_locations[0]) / name) as image:
                images.append(image.convert("RGB"))
    return images


def cut(photograph, width, height, dice):
    """A part of it with the wanted proportions, at least half as large as it can be, in the wanted size."""
    most = min(photograph.width / width, photograph.height / height)
    scale = most * dice.uniform(0.5, 1)
    left, top = dice.uniform(0, photograph.width - width * scale), dice.uniform(0, photograph.height - height * scale)
    box = left, top, left + width * scale, top + height * scale
    image = photograph.resize((width, height), Image.Resampling.LANCZOS, box)
    if dice.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    noise = dice.normal(0, GRAIN, (height, width, 1))
    return Image.fromarray(np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8))


def encode(image, quality):
    file = io.BytesIO()
    image.save(file, "jpeg", quality=quality)
    return file.getvalue()


def encode_to(image, wanted):
    """With the least quality that needs as many bytes."""
    low, high = 30, 98
    while low < high:
        middle = (low + high) // 2
        if len(encode(image, middle)) < wanted:
            low = middle + 1
        else:
            high = middle
    return encode(image, low)


def small(number):
    dice = np.random.default_rng([7, number])
    photographs = find_photographs()
    width, height, _ = SIZES[dice.choice(len(SIZES), p=[share / 10 for *_, share in SIZES])]
    width, height = int(width * dice.uniform(0.9, 1.1)), int(height * dice.uniform(0.9, 1.1))
    return encode_to(cut(photographs[dice.integers(len(photographs))], width, height, dice), BYTES * dice.uniform(0.6, 1.4))


def large(number):
    dice = np.random.default_rng([7, number])
    photographs = find_photographs()
    return encode(cut(photographs[dice.integers(len(photographs))], *LARGE, dice), LARGE_QUALITY)


def write_one(path, make, number):
    stored = make(number)
    path.write_bytes(stored)
    return len(stored)


def write(folder, count, make):
    """The files make(0), make(1), ..., made by a process per core."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number:05}.jpg" for number in range(count)]
    with concurrent.futures.ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        total = sum(pool.map(write_one, paths, itertools.repeat(make), range(count), chunksize=16))
    print(f"{folder}: {count} images, {total / max(count, 1) / 1000:.1f} KB each")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=2048)
    parser.add_argument("--large", type=int, default=128)
    options = parser.parse_args()
    find_photographs()
    write(options.folder / "imagenet", options.count, small)
    write(options.folder / "large", options.large, large)


if __name__ == "__main__":
    main()
