#!/usr/bin/env python3
"""The random parameters of image steps a second time, written from their description in daemon/image/random.h,
daemon/image/exact_math.h and daemon/image/parameters.h and not from the C code. It makes the golden vectors that pin version 1:

    image_reference.py --c-vectors           print tests/unit/image_vectors.h
    image_reference.py --verify FILE         exit 1 when FILE differs from that
"""

import math
import struct
import sys

import vectors
from draw_reference import halves, philox
from order_reference import WORD, splitmix

IMAGE_1 = 3  # the number of this use of random numbers
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")


class Random:
    """The numbers of one step of the sample at a place: seed, epoch, position."""

    def __init__(self, place, step):
        self.place, self.step, self.taken = place, step, 0

    def bits(self):
        seed, epoch, position = self.place
        block, half = divmod(self.taken, 2)
        self.taken += 1
        key = splitmix(splitmix(splitmix(IMAGE_1) ^ seed) ^ (self.step * 2**32 + block))
        words = philox(halves(key), halves(position) + halves(epoch))
        return words[2 * half] + words[2 * half + 1] * 2**32

    def uniform(self):
        return (self.bits() // 2**11) / 2**53

    def below(self, count):
        while True:
            whole, rest = divmod(self.bits() * count, WORD)
            if rest >= WORD % count:
                return whole

    def between(self, low, high):
        return low + (high - low) * self.uniform()


def exp(x):
    k = round(x / math.log(2))
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    total = 1 / math.factorial(13)
    for n in range(12, -1, -1):
        total = total * r + 1 / math.factorial(n)
    return total * 2.0**k


def log(x):
    m, k = math.frexp(x)
    if m < math.sqrt(0.5):
        m, k = m * 2, k - 1
    s = (m - 1) / (m + 1)
    z = s * s
    total = 1 / 21
    for n in range(19, 2, -2):
        total = total * z + 1 / n
    return k * LN2_HIGH + (2 * s + (k * LN2_LOW + 2 * s * z * total))


def single(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def sides(random, width, height, area, ratio):
    a = float(width) * height * random.between(*area)
    r = exp(random.between(log(ratio[0]), log(ratio[1])))
    return round(math.sqrt(a * r)), round(math.sqrt(a / r))


def random_crop(random, width, height, area, ratio):
    for _ in range(10):
        w, h = sides(random, width, height, area, ratio)
        if 1 <= w <= width and 1 <= h <= height:
            y = random.below(height - h + 1)
            return random.below(width - w + 1), y, w, h
    w, h = width, height
    if width / height < ratio[0]:
        h = max(1, round(width / ratio[0]))
    elif width / height > ratio[1]:
        w = max(1, round(height * ratio[1]))
    return (width - w) // 2, (height - h) // 2, w, h


def erasure(random, width, height, area, ratio):
    for _ in range(10):
        h, w = sides(random, width, height, area, ratio)
        if h < height and w < width:
            y = random.below(height - h + 1)
            return random.below(width - w + 1), y, w, h
    return 0, 0, 0, 0


LAST = WORD - 1
PLACES = [(0, 0, 0), (7, 3, 1), (LAST, 2**40, 2**33), (0xDEADBEEFCAFEF00D, 2**32 - 1, 999), (1, 0, 2**63 - 1)]
STEPS = [0, 1, 15, 32, 47]
COUNTS = [1, 2, 3, 1000, 65535, 2**31 + 1, 2**32 - 1]
ANY = [(0.08, 1.0), (3 / 4, 4 / 3)]
RANGES = [ANY, [(0.02, 0.33), (0.3, 3.3)], [(1.0, 1.0), (1.0, 1.0)], [(1e-6, 1e-3), (1e-3, 1e3)], [(0.5, 1.0), (2.0, 2.5)],
          [(0.9, 1.0), (0.25, 0.3)]]  # fmt: skip
SIZES = [(1, 1), (2, 1), (1, 5000), (5000, 1), (3, 4), (224, 224), (500, 375), (375, 500), (65535, 7), (7, 65535),
         (65535, 65535)]  # fmt: skip
ARGUMENTS = [0.0, 1.0, -1.0, 0.5, 0.34657359, -0.3465735903, 0.28768207245178096, 6.907755278982137, -6.907755278982137, 1e-300,
             700.0, -700.0, 3.3, 1e-8]  # fmt: skip
POSITIVE = [1.0, 2.0, 0.5, 0.75, 4 / 3, 0.3, 3.3, 1e-3, 1e3, math.sqrt(0.5), math.nextafter(math.sqrt(0.5), 0), 1 + 2**-52,
            1 - 2**-53, 2.0**-1022, 1.7e308]  # fmt: skip
DIGESTS = [(500, 375, 0), (375, 500, 1), (33, 1000, 0), (2, 3, 1), (65535, 40, 4)]  # width, height, range
DIGEST_CROPS = 5000


def bits(number):
    return f"0x{int.from_bytes(struct.pack('<d', number), 'little'):016x}u"


def crop_lines():
    for width, height in SIZES:
        for number, ranges in enumerate(RANGES):
            area, ratio = ([single(value) for value in pair] for pair in ranges)
            for index, place in enumerate(PLACES[:3]):
                crop = random_crop(Random(place, 3), width, height, area, ratio)
                erased = erasure(Random(place, 33), width, height, area, ratio)
                yield f"    {{{width}, {height}, {number}, {index}, {{{', '.join(map(str, crop))}}}, " + \
                      f"{{{', '.join(map(str, erased))}}}}},"  # fmt: skip


def digest_lines():
    for width, height, number in DIGESTS:
        area, ratio = ([single(value) for value in pair] for pair in RANGES[number])
        digest = 0
        for position in range(DIGEST_CROPS):
            for value in random_crop(Random((42, 1, position), 0), width, height, area, ratio):
                digest = (digest * 0x5851F42D4C957F2D + value + 1) % WORD
        yield f"    {{{width}, {height}, {number}, 0x{digest:016x}u}},"


def c_vectors():
    lines = [
        "// Golden vectors of the random parameters of image steps, version 1, made by image_reference.py. They never",
        "// change: other parameters are another version.",
        "// clang-format off",
        "#ifndef FEEDD_TESTS_UNIT_IMAGE_VECTORS_H",
        "#define FEEDD_TESTS_UNIT_IMAGE_VECTORS_H",
        "",
        "#include <stdint.h>",
        "",
        "static const struct { uint64_t seed, epoch, position; } image_places[] = {",
    ]
    lines += [f"    {{{seed}u, {epoch}u, {position}u}}," for seed, epoch, position in PLACES]
    lines += ["};", "", "static const struct {", "    uint32_t place, step;", "    uint64_t numbers[4];",
              "    uint64_t uniform; // the bits of the fifth",
              f"    uint32_t below[{len(COUNTS)}]; // the numbers after that, below image_counts",
              "} image_numbers[] = {"]  # fmt: skip
    for index, place in enumerate(PLACES):
        for step in STEPS:
            random = Random(place, step)
            numbers = ", ".join(f"0x{random.bits():x}u" for _ in range(4))
            uniform = bits(random.uniform())
            below = ", ".join(f"{random.below(count)}u" for count in COUNTS)
            lines += [f"    {{{index}, {step}, {{{numbers}}},", f"     {uniform}, {{{below}}}}},"]
    lines += ["};", "", f"static const uint32_t image_counts[] = {{{', '.join(f'{count}u' for count in COUNTS)}}};", ""]
    for name, function, arguments in (("exps", exp, ARGUMENTS), ("logs", log, POSITIVE)):
        lines += [f"static const struct {{ uint64_t x, result; }} image_{name}[] = {{ // bits of float64"]
        lines += [f"    {{{bits(x)}, {bits(function(x))}}}," for x in arguments] + ["};", ""]
    lines += ["static const struct { float area[2], ratio[2]; } image_ranges[] = {"]
    lines += ["    {" + ", ".join("{" + ", ".join(f"{single(value).hex()}f" for value in pair) + "}" for pair in ranges) + "},"
              for ranges in RANGES]  # fmt: skip
    lines += ["};", "", "static const struct {", "    uint32_t width, height, range, place;",
              "    uint32_t crop[4];   // of step 3: x, y, width, height", "    uint32_t erased[4]; // of step 33",
              "} image_crops[] = {", *crop_lines(), "};", ""]  # fmt: skip
    lines += ["// digest = 0; for x, y, width and height of each crop: digest = digest * 0x5851f42d4c957f2d + number + 1",
              f"#define IMAGE_DIGEST_CROPS {DIGEST_CROPS} // positions of epoch 1, seed 42, step 0",
              "static const struct { uint32_t width, height, range; uint64_t digest; } image_digests[] = {",
              *digest_lines(), "};", "", "#endif", ""]  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(vectors.run("image_reference.py", __doc__, c_vectors))
