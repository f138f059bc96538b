#!/usr/bin/env python3
"""Operations on one image of 224 x 224 x 3, in microseconds of one thread: daemon/image, and torchvision on a uint8 tensor.

Prints a table. Rounds alternate, and the least of each is shown. Needs build/tests/image_operations.so.
"""

import pathlib
import sys
import time

import numpy
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests/python"))
import pixels  # noqa: E402

OPERATIONS = {
    "brightness": [1.3], "contrast": [1.3], "saturation": [1.3], "hue": [0.2], "grayscale": [], "invert": [], "posterize": [4],
    "solarize": [128.0], "autocontrast": [], "equalize": [], "sharpness": [1.3], "rotate": [20.0], "shear_x": [0.2],
    "translate_x": [7],
}  # fmt: skip
ROUNDS = 15


def by_torchvision(name, tensor, values):
    began = time.thread_time()
    for _ in range(5):
        pixels.TORCHVISION[name](tensor, *values)
    return (time.thread_time() - began) / 5


def main():
    torch.set_num_threads(1)
    image = numpy.random.default_rng(1).integers(0, 256, (3, 224, 224), dtype=numpy.uint8)
    tensor = torch.from_numpy(image)
    print("| operation | feedd, us | torchvision, us | ratio |")
    print("| --- | --- | --- | --- |")
    for name, values in OPERATIONS.items():
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(pixels.operate(name, image, values, times=20)[1] / 20)
            theirs.append(by_torchvision(name, tensor, values))
        ours, theirs = 1e6 * min(ours), 1e6 * min(theirs)
        print(f"| {name} | {ours:.3g} | {theirs:.3g} | {theirs / ours:.3g} |", flush=True)


if __name__ == "__main__":
    main()
