#!/usr/bin/env python3
"""The order of windows of groups a second time, written from its description in order/window.h and not from the C code. It
makes the golden vectors that pin version 1:

    window_reference.py --c-vectors           print tests/unit/window_vectors.h
    window_reference.py --verify FILE         exit 1 when FILE differs from that
"""

import itertools
import sys
import textwrap

import vectors
from order_reference import Order, splitmix


def part(bounds, first, count):
    """The groups of samples first, first+1, ..., as (first sample, samples) in their numbers."""
    groups = []
    for begin, end in itertools.pairwise(bounds):
        begin, end = max(begin, first) - first, min(end, first + count) - first
        if begin < end:
            groups.append((begin, end - begin))
    return groups


class Windows:
    """One epoch. `groups` is a list of (first sample, samples)."""

    def __init__(self, groups, window, seed, epoch):
        order = Order(len(groups), seed, epoch)
        visited = [groups[order.sample(visit)] for visit in range(len(groups))]
        self.windows = []  # (first position, order, groups)
        position = 0
        for number, at in enumerate(range(0, len(visited), window)):
            here = visited[at : at + window]
            samples = sum(size for _, size in here)
            self.windows.append((position, Order(samples, splitmix(splitmix(seed) ^ number), epoch), here))
            position += samples
        self.samples = position

    def sample(self, position):
        first, order, groups = next(entry for entry in reversed(self.windows) if entry[0] <= position)
        place = order.sample(position - first)
        for begin, size in groups:
            if place < size:
                return begin + place
            place -= size
        raise AssertionError("the groups of a window have fewer samples than it has")


LAST = 2**64 - 1


def sizes(count, most, salt):
    """Some numbers from 1 to most."""
    return [1 + splitmix(salt + i) % most for i in range(count)]


EPOCHS = [  # sizes of the groups, window, first sample, samples, seed, epoch
    ([1], 1, 0, 1, 0, 0),
    ([3, 2], 1, 0, 5, 1, 0),
    ([3, 2], 2, 0, 5, 1, 0),
    ([3, 2], 100, 0, 5, 1, 1),
    ([4, 4, 4, 4, 4], 2, 0, 20, 7, 3),
    ([4, 4, 4, 4, 4], 2, 6, 9, 7, 3),
    ([4, 4, 4, 4, 4], 2, 9, 2, 7, 3),
    (sizes(12, 9, 5), 3, 0, sum(sizes(12, 9, 5)), LAST, LAST),
    (sizes(12, 9, 5), 3, 4, sum(sizes(12, 9, 5)) - 9, LAST, LAST),
    (sizes(1000, 3000, 9), 16, 0, 40, 42, 89),
    ([2**40 + 7, 2**41 + 1, 5, 2**40], 2, 0, 40, 1, 2**40),
]


def wrapped(numbers):
    return textwrap.fill(", ".join(f"{n}u" for n in numbers), 108, initial_indent="    ", subsequent_indent="    ")


def c_vectors():
    lines = [
        "// Golden vectors of ORDER_WINDOW_1, made by window_reference.py. They never change: another order is another",
        "// version.",
        "// clang-format off",
        "#ifndef FEEDD_TESTS_UNIT_WINDOW_VECTORS_H",
        "#define FEEDD_TESTS_UNIT_WINDOW_VECTORS_H",
        "",
        "#include <stdint.h>",
        "",
    ]
    rows = []
    for number, (groups, window, first, count, seed, epoch) in enumerate(EPOCHS):
        bounds = [0, *itertools.accumulate(groups)]
        whole = bounds[-1] if first == 0 and count < bounds[-1] else count
        order = Windows(part(bounds, first, whole), window, seed, epoch)
        ask = [i * (whole - 1) // (count - 1) for i in range(count)] if whole > count else range(count)
        lines += [f"static const uint64_t window_bounds_{number}[] = {{", wrapped(bounds), "};"]
        lines += [f"static const uint64_t window_positions_{number}[] = {{", wrapped(ask), "};"]
        lines += [f"static const uint64_t window_samples_{number}[] = {{", wrapped(order.sample(p) for p in ask), "};", ""]
        rows.append(
            f"    {{{len(groups)}u, {window}u, {first}u, {whole}u, {seed}u, {epoch}u, {count}u, window_bounds_{number},"
            f" window_positions_{number},\n     window_samples_{number}}},"
        )
    lines += [
        "static const struct {",
        "    uint64_t groups, window, first, samples, seed, epoch;",
        "    uint32_t asked;",
        "    const uint64_t *bounds, *positions, *found;",
        "} window_vectors[] = {",
    ]
    lines += rows + ["};", "", "#endif", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(vectors.run("window_reference.py", __doc__, c_vectors))
