#!/usr/bin/env python3
"""How long other libraries take to resize an image on one core, in the same run as bench_image_resize: see README.md.

Median CPU microseconds. Pillow, and OpenCV if this Python has it. Prints a table.
"""

import argparse
import json
import statistics
import subprocess
import time

import numpy
from PIL import Image

SIZES = [((500, 375), (224, 224)), ((1500, 1125), (224, 224)), ((256, 256), (224, 224)), ((160, 120), (224, 224))]
FILTERS = {1: "bilinear", 2: "bicubic"}


def median_us(work, images=50, rounds=9):
    times = []
    for _ in range(rounds):
        begin = time.thread_time()
        for _ in range(images):
            work()
        times.append((time.thread_time() - begin) / images * 1e6)
    return statistics.median(times)


def others(pixels, size, resample):
    image = Image.fromarray(pixels)
    yield "Pillow", median_us(lambda: image.resize(size, Image.Resampling(resample + 1)))
    try:
        import cv2
    except ImportError:
        return
    cv2.setNumThreads(1)
    if resample == 1:
        yield "OpenCV linear, not antialiased", median_us(lambda: cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR))
        yield "OpenCV area", median_us(lambda: cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))


def feedd(program, source, size, resample, kept):
    words = ["--from", *source, "--to", *size, "--filter", resample, "--kept", int(kept), "--images", 50]
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=True)
    for line in map(json.loads, done.stdout.splitlines()):
        if "resize" in line:
            yield f"feedd, {line['resize']}{', same box again' if kept else ''}", line["us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    options = parser.parse_args()
    program = f"{options.build}/bench/bench_image_resize"
    numbers = numpy.random.default_rng(1)
    for source, size in SIZES:
        pixels = numbers.integers(0, 256, (source[1], source[0], 3), dtype=numpy.uint8)
        for resample, name in FILTERS.items():
            print(f"{source[0]} x {source[1]} to {size[0]} x {size[1]}, {name}")
            for kept in (False, True):
                for what, us in feedd(program, source, size, resample, kept):
                    print(f"  {us:8.0f} us  {what}")
            for what, us in others(pixels, size, resample):
                print(f"  {us:8.0f} us  {what}")


if __name__ == "__main__":
    main()
