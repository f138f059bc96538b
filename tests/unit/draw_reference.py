#!/usr/bin/env python3
"""Draws by weight a second time, written from their description in order/draw.h, order/shares.h and order/philox.h and not
from the C code, in fractions of arbitrary size. It makes the golden vectors that pin version 1:

    draw_reference.py --c-vectors           print tests/unit/draw_vectors.h
    draw_reference.py --verify FILE         exit 1 when FILE differs from that
"""

import bisect
import itertools
import struct
import sys
import textwrap
from fractions import Fraction

import vectors
from order_reference import WORD, splitmix

HALF = 1 << 32
DRAW_1 = 1  # the number of this use of random numbers


def philox(key, counter):
    """Philox4x32-10: four words of 32 bits, from two and four."""
    key, at = list(key), list(counter)
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * at[0], HALF)
        high1, low1 = divmod(0xCD9E8D57 * at[2], HALF)
        at = [high1 ^ at[1] ^ key[0], low1, high0 ^ at[3] ^ key[1], low0]
        key = [(key[0] + 0x9E3779B9) % HALF, (key[1] + 0xBB67AE85) % HALF]
    return at


def halves(word):
    return word % HALF, word // HALF


def random_word(seed, epoch, position):
    key = halves(splitmix(splitmix(DRAW_1) ^ seed))
    block = philox(key, halves(position) + halves(epoch))
    return block[0] + block[1] * HALF


def scaled(weight, exponent):
    return weight * 2**exponent // 1 if exponent >= 0 else weight / 2**-exponent // 1


def shares(weights):
    weights = [Fraction(weight) for weight in weights]
    most = max(weights)
    top = most.numerator.bit_length() - most.denominator.bit_length()
    if most < Fraction(2) ** top:
        top -= 1
    assert Fraction(2) ** top <= most < Fraction(2) ** (top + 1)
    digits = sum(scaled(weight, 99 - top) for weight in weights).bit_length()
    return [max(1, scaled(weight, 162 - top - digits)) if weight else 0 for weight in weights]


class Draws:
    """Of a view with these weights."""

    def __init__(self, weights):
        self.sums = list(itertools.accumulate(shares(weights)))

    def sample(self, seed, epoch, position):
        return bisect.bisect_right(self.sums, random_word(seed, epoch, position) * self.sums[-1] // WORD)


LAST = WORD - 1
CODES = {"U8": "B", "I8": "b", "U16": "H", "I16": "h", "U32": "I", "I32": "i", "U64": "Q", "I64": "q",
         "F16": "e", "F32": "f", "F64": "d"}  # fmt: skip
TABLES = [  # dtype, weights
    ("U8", [7]), ("I8", [0, 127, 0, 1]), ("U16", [65535, 1, 0]), ("I16", [0, 0, 1, 2, 3]), ("U32", [2**32 - 1, 2**32 - 1]),
    ("I32", [1, 10, 100, 1000, 2**31 - 1]), ("U64", [2**64 - 1, 2**64 - 1, 1, 2**63]), ("I64", [2**63 - 1, 1, 0, 2**62]),
    ("F16", [0.5, 65504.0, 2**-24, -0.0, 2**-14]), ("BF16", [1.0, 2**-133, 0.0, 3.0, 1.5 * 2**127]),
    ("F32", [2**-149, 0.0, 3 * 2**-149]), ("F32", [1.0, 2**-126, 1e30, -0.0, 0.1, 16777215.0]),
    ("F64", [0.1, 0.2, 0.3, 0.4]), ("F64", [1e308, 5e-324, 1e-308, 0.0, 1.0, 1.7976931348623157e308]),
    ("F64", [5e-324, 1e-323]), ("F32", [(number * 7919 % 1009) / 8 for number in range(120)]),
    ("U8", [number * 37 % 41 for number in range(257)]),
    # The last weight decides how many digits the sum has, unless it is too small to count.
    ("F64", [1.0, 1 - 2**-53, 2**-53 - 2**-99, 2**-99]), ("F64", [1.0, 1 - 2**-53, 2**-53 - 2**-100, 2**-100]),
]  # fmt: skip
RUNS = [(0, 0), (7, 3), (LAST, 2**40), (0xDEADBEEFCAFEF00D, 2**32 - 1)]  # seed, epoch
POSITIONS = [0, 1, 2, 63, 64, 65, 999, 2**32 - 1, 2**32, 2**63 - 1]
DIGESTS = [(15, 7, 3, 20000), (16, 42, 89, 20000), (11, 1, 0, 5000)]  # table, seed, epoch, positions


def word_of(dtype, weight):
    """What the file has for a weight, as a number."""
    if dtype == "BF16":
        return int.from_bytes(struct.pack("<f", weight)[2:], "little")
    return int.from_bytes(struct.pack("<" + CODES[dtype], weight), "little")


def weight_of(dtype, word):
    if dtype == "BF16":
        return struct.unpack("<f", bytes(2) + word.to_bytes(2, "little"))[0]
    code = CODES[dtype]
    return struct.unpack("<" + code, word.to_bytes(struct.calcsize(code), "little"))[0]


def wrapped(numbers):
    text = ", ".join(f"0x{number:x}u" for number in numbers)
    return textwrap.fill(text, 108, initial_indent="    ", subsequent_indent="    ")


def c_vectors():
    lines = [
        "// Golden vectors of draws by weight, version 1, made by draw_reference.py. They never change: other draws are",
        "// another version.",
        "// clang-format off",
        "#ifndef FEEDD_TESTS_UNIT_DRAW_VECTORS_H",
        "#define FEEDD_TESTS_UNIT_DRAW_VECTORS_H",
        "",
        "#include <stdint.h>",
        "",
        '#include "base/dtype.h"',
        "",
    ]
    made = []
    for number, (dtype, weights) in enumerate(TABLES):
        words = [word_of(dtype, weight) for weight in weights]
        made.append(Draws([weight_of(dtype, word) for word in words]))
        for name, values in (("words", words), ("sums", made[-1].sums)):
            lines += [f"static const uint64_t {name}_{number}[] = {{", wrapped(values), "};", ""]
    lines += ["static const struct { uint32_t dtype, count; const uint64_t *words, *sums; } table_vectors[] = {"]
    lines += [f"    {{DTYPE_{dtype}, {len(weights)}, words_{at}, sums_{at}}}," for at, (dtype, weights) in enumerate(TABLES)]
    lines += ["};", ""]
    lines += [f"#define DRAW_POSITIONS {len(POSITIONS)}", "static const uint64_t draw_positions[DRAW_POSITIONS] = {"]
    lines += [wrapped(POSITIONS), "};", "", "static const struct {", "    uint32_t table;", "    uint64_t seed, epoch;",
              "    uint64_t samples[DRAW_POSITIONS]; // at these positions", "} draw_vectors[] = {"]  # fmt: skip
    for table, draws in enumerate(made):
        for seed, epoch in RUNS:
            found = ", ".join(str(draws.sample(seed, epoch, position)) for position in POSITIONS)
            lines += [f"    {{{table}, {seed}u, {epoch}u, {{{found}}}}},"]
    lines += ["};", "", "// digest = 0; for every position: digest = digest * 0x5851f42d4c957f2d + sample + 1"]
    lines += ["static const struct { uint32_t table; uint64_t seed, epoch, positions, digest; } draw_digests[] = {"]
    for table, seed, epoch, count in DIGESTS:
        digest = 0
        for position in range(count):
            digest = (digest * 0x5851F42D4C957F2D + made[table].sample(seed, epoch, position) + 1) % WORD
        lines += [f"    {{{table}, {seed}u, {epoch}u, {count}u, 0x{digest:016x}u}},"]
    lines += ["};", "", "#endif", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(vectors.run("draw_reference.py", __doc__, c_vectors))
