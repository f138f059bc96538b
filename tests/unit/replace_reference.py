#!/usr/bin/env python3
"""Which sample takes the place of one that cannot be read, a second time, written from the description in order/replace.h
and not from the C code. It makes the golden vectors that pin version 1:

    replace_reference.py --c-vectors           print tests/unit/replace_vectors.h
    replace_reference.py --verify FILE         exit 1 when FILE differs from that
"""

import sys

import vectors
from draw_reference import HALF, halves, philox
from order_reference import WORD, splitmix

REPLACE_1 = 2  # the number of this use of random numbers
ATTEMPTS = 16


def replacement(seed, epoch, position, attempt, samples):
    """The number in the view."""
    key = halves(splitmix(splitmix(REPLACE_1) ^ ((splitmix(seed) + attempt) % WORD)))
    block = philox(key, halves(position) + halves(epoch))
    return (block[0] + block[1] * HALF) * samples // WORD


LAST = WORD - 1
RUNS = [(0, 0), (1, 0), (7, 3), (LAST, 2**40), (0xDEADBEEFCAFEF00D, 2**32 - 1)]  # seed, epoch
PLACES = [(0, 1), (0, 2), (1, 1000), (999, 1000), (2**32 - 1, 2**32), (2**63 - 2, 2**63 - 1)]  # position, samples


def c_vectors():
    lines = [
        "// Golden vectors of replacements, version 1, made by replace_reference.py. They never change: others are another",
        "// version.",
        "// clang-format off",
        "#ifndef FEEDD_TESTS_UNIT_REPLACE_VECTORS_H",
        "#define FEEDD_TESTS_UNIT_REPLACE_VECTORS_H",
        "",
        "#include <stdint.h>",
        "",
        '#include "order/replace.h"',
        "",
        "static const struct {",
        "    uint64_t seed, epoch, position, samples;",
        "    uint64_t numbers[REPLACE_ATTEMPTS]; // of attempts 1, 2, ...",
        "} replace_vectors[] = {",
    ]
    for seed, epoch in RUNS:
        for position, samples in PLACES:
            numbers = [replacement(seed, epoch, position, attempt, samples) for attempt in range(1, ATTEMPTS + 1)]
            lines.append(f"    {{{seed}u, {epoch}u, {position}u, {samples}u,")
            for first in range(0, ATTEMPTS, 4):
                open_, close = "{" if first == 0 else " ", "}}," if first + 4 == ATTEMPTS else ","
                lines.append(f"     {open_}" + ", ".join(f"{number}u" for number in numbers[first : first + 4]) + close)
    lines += ["};", "", "#endif", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(vectors.run("replace_reference.py", __doc__, c_vectors))
