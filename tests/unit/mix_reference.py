#!/usr/bin/env python3
"""Mixtures a second time, written from their definition in order/README.md and not from the C code, in arbitrary-size
integers. It makes the golden vectors that pin version 1 of mixtures:

    mix_reference.py --c-vectors           print tests/unit/mix_vectors.h
    mix_reference.py --verify FILE         exit 1 when FILE differs from that

A period of up to 30,000 slots is written out by the definition: every slot looks at every source. Of longer ones, where
the draws before a slot come from is computed in another way, which knows nothing of who was served when: all draws whose
windows begin before it are taken in the order in which their windows end, and each gets the first free slot of its window
or, if that is not before the slot in question, none. (The slots that sets of draws can fill are a matroid, and both ways
find its heaviest basis.) Both ways are compared where both can be used.
"""
import decimal
import fractions
import functools
import math
import random
import sys
import textwrap

sys.dont_write_bytecode = True

import vectors  # noqa: E402

LISTED = 1 << 18
WHOLE_PERIOD = 30000


def window(weight, total, inner, number):
    """The first slot of a draw's window, and the first slot after it."""
    begin, end, shift, twice = 2 * number * total, 2 * (number + 1) * total, weight * inner, 2 * weight
    return (begin + shift) // twice, -((shift - end) // twice)


def served(weights, total, inner, slots, closed):
    """Who is served in each slot that is not closed, by the definition. `weights` is a dict by source."""
    windows = {source: (*window(weight, total, inner, 0), 0) for source, weight in weights.items()}
    for slot in range(slots):
        if slot in closed:
            yield None
            continue
        end, source = min((end, source) for source, (begin, end, _) in windows.items() if begin <= slot)
        assert slot < end
        number = windows[source][2] + 1
        windows[source] = (*window(weights[source], total, inner, number), number)
        yield source


def made_before(weights, total, slot, light_before, start=None):
    """How many draws each heavy source has made before `slot`. Looks back to `start`, or as far as windows reach."""
    spans = {source: window(weight, total, False, slot * weight // total) for source, weight in weights.items()}
    start = min((begin for begin, _ in spans.values()), default=0) if start is None else start
    made = {source: -(-start * weight // total) for source, weight in weights.items()}
    late = sum(made.values()) - (start - light_before(start))
    free = [at for at in range(start, slot) if light_before(at + 1) == light_before(at)][late:]
    next_free = list(range(len(free) + 1))  # by place in `free`: a place that may be free, followed to one that is

    def find(place):
        while next_free[place] != place:
            next_free[place] = next_free[next_free[place]]
            place = next_free[place]
        return place

    draws = []
    for source, weight in weights.items():
        number = made[source]
        while window(weight, total, False, number)[0] < slot:
            begin, end = window(weight, total, False, number)
            draws.append((end, source, begin))
            number += 1
    for _, source, begin in sorted(draws):
        low, high = 0, len(free)
        while low < high:
            low, high = ((low + high) // 2 + 1, high) if free[(low + high) // 2] < begin else (low, (low + high) // 2)
        place = find(low)
        if place < len(free):
            next_free[place] = place + 1
            made[source] += 1
    return made


class Mix:
    def __init__(self, weights, listed=LISTED):
        self.weights = [weight // math.gcd(*weights) for weight in weights]
        self.total = sum(self.weights)
        order = sorted(range(len(weights)), key=lambda source: (self.weights[source], -source))
        lights = max(count for count in range(len(order) + 1) if sum(self.weights[at] for at in order[:count]) <= listed)
        self.light = {source: self.weights[source] for source in sorted(order[:lights])}
        self.heavy = {source: self.weights[source] for source in sorted(order[lights:])}
        self.light_total = sum(self.light.values())
        self.light_served = list(served(self.light, self.light_total, True, self.light_total, ()))

    def light_before(self, slot):
        """Light slots before `slot`."""
        return max(0, -((self.total - 2 * slot * self.light_total) // (2 * self.total)))

    @functools.cached_property
    def period(self):
        at = [(2 * number + 1) * self.total // (2 * self.light_total) for number in range(self.light_total)]
        heavy = served(self.heavy, self.total, False, self.total, set(at)) if self.heavy else [None] * self.total
        light = dict(zip(at, self.light_served))
        return [light.get(slot, source) for slot, source in enumerate(heavy)]

    def counts(self, position, start=None):
        """How many samples each source has given before `position`."""
        periods, slot = divmod(position, self.total)
        counts = [periods * weight for weight in self.weights]
        if self.total <= WHOLE_PERIOD and start is None:
            for source in self.period[:slot]:
                counts[source] += 1
            return counts
        for source in self.light_served[: self.light_before(slot)]:
            counts[source] += 1
        for source, made in made_before(self.heavy, self.total, slot, self.light_before, start).items():
            counts[source] += made
        return counts

    def draw(self, position):
        """The source at `position`, and how many samples it gave before."""
        before, after = self.counts(position), self.counts(position + 1)
        source = next(at for at in range(len(before)) if before[at] != after[at])
        assert sum(after) == position + 1
        return source, before[source]

    def check(self, positions):
        """Both ways agree, whether or not the second one looks at the whole period."""
        for position in positions:
            assert self.counts(position) == self.counts(position, 0)
            slot = position % self.total
            assert self.counts(position) == self.counts(position, max(0, slot - self.total // min(self.weights) - 2))


def chosen(seed, sources, low, high):
    generator = random.Random(seed)
    return [generator.randint(low, high) for _ in range(sources)]


MIXES = [  # weights, listed
    ([1], LISTED), ([7, 7], LISTED), ([5, 3, 2], LISTED), ([1, 1, 1, 1], LISTED), ([1, 1, 1, 1], 2), ([4, 3, 2, 1], 0),
    ([100, 50, 25, 10, 5, 5, 3, 1, 1], LISTED), ([100, 50, 25, 10, 5, 5, 3, 1, 1], 30), ([9999, 1], LISTED),
    (chosen(1, 60, 1, 700), LISTED), (chosen(2, 60, 1, 700), 1000), (chosen(3, 256, 1, 100), 0),
    ([131071, 131073], LISTED), ([131072, 131073], LISTED), ([1, 262144], LISTED), ([1, 262143], LISTED),
    (chosen(4, 100, 100000, 999999), LISTED), ([10**9 - 1, 1], LISTED), ([999991, 999983, 3, 2, 2], LISTED),
    ([750000000, *chosen(5, 40, 300000, 6000000)], LISTED), ([500000000 - 3, 500000000 + 3], LISTED),
]  # fmt: skip
TEXTS = [
    "3", "0.25", "1e-3", "1", "10", "007", "0.5000", ".5", "5.", "00.050", "1E3", "1e+3", "12.50e-2", "123456789012345678",
    "0.000000000000000000123456789012345678", "1230000000000000000000000", "1e1000", "1e-1000", "0.1e1001", "900719925474099.3",
]  # fmt: skip
RATIOS = [
    ["3"], ["0.25", "0.75"], ["1e-3", "1"], ["1e500", "2e500", "0.5e501"], ["0.333333333333333333", "0.666666666666666666"],
    ["0.1", "0.2", "0.30", "4e-1"], ["1e-1000", "1e-1000"], ["999999999", "1"], ["0.999999", "0.000001"],
    ["123456", "654321.0", "1.5e5", "75"], ["4", "8", "3"], ["3", "0.25", "1"], ["3", "1", "0.125"],
    ["1", "2", "3.5", "4", "8.25"],
]  # fmt: skip


def positions(mix):
    total, far = mix.total, (1 << 64) - 1
    wanted = {0, 1, 2, total // 3, total // 2, total - 1, total, 7 * total + total // 5, 10**18 + 1, far - 1 - far % 1000003}
    return sorted(wanted)


def digest(mix):
    """Of one period."""
    value, counts = 0, [0] * len(mix.weights)
    for source in mix.period:
        value = (value * 0x5851F42D4C957F2D + source * (1 << 32) + counts[source] + 1) % (1 << 64)
        counts[source] += 1
    return value


def parsed(text):
    _, digits, exponent = decimal.Decimal(text).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    return int(stripped), exponent + len(text) - len(stripped)


def scaled(texts):
    numbers = [fractions.Fraction(text) for text in texts]
    whole = [number * math.lcm(*(number.denominator for number in numbers)) for number in numbers]
    return [int(number) // math.gcd(*map(int, whole)) for number in whole]


def wrapped(numbers):
    text = ", ".join(f"{number}u" for number in numbers)
    return textwrap.fill(text, 108, initial_indent="    ", subsequent_indent="    ")


def mix_lines(mixes):
    for at, mix in enumerate(mixes):
        yield from (f"VECTOR uint32_t mix_weights_{at}[] = {{", wrapped(MIXES[at][0]), "};")
    yield from ("", "// digest = 0; for every position of a period: digest = digest * 0x5851f42d4c957f2d + (source << 32)")
    yield from ("// + number + 1; 0 if the period is not digested", "VECTOR struct {", "    const uint32_t *weights;")
    yield from ("    uint32_t sources, listed;", "    uint64_t digest;", "} mix_vectors[] = {")
    for at, mix in enumerate(mixes):
        value = digest(mix) if mix.total <= WHOLE_PERIOD else 0
        yield f"    {{mix_weights_{at}, {len(mix.weights)}u, {MIXES[at][1]}u, 0x{value:016x}u}},"
    yield from ("};", "", "VECTOR struct { uint32_t mix; uint64_t position, number; uint32_t source; } draw_vectors[] = {")
    for at, mix in enumerate(mixes):
        for position in positions(mix):
            source, number = mix.draw(position)
            yield f"    {{{at}u, {position}u, {number}u, {source}u}},"
    yield from ("};", "")


def weight_lines():
    yield "VECTOR struct { const char *text; uint64_t digits; int32_t exponent; } weight_vectors[] = {"
    for text in TEXTS:
        digits, exponent = parsed(text)
        yield f'    {{"{text}", {digits}u, {exponent}}},'
    yield from ("};", "", "VECTOR struct { const char *texts[5]; uint32_t whole[5]; } ratio_vectors[] = {")
    for texts in RATIOS:
        quoted, whole = (", ".join(values) for values in ((f'"{text}"' for text in texts), (f"{w}u" for w in scaled(texts))))
        yield f"    {{{{{quoted}}}, {{{whole}}}}},"
    yield from ("};", "")


def c_vectors():
    mixes = [Mix(*arguments) for arguments in MIXES]
    for mix in mixes:
        if mix.total <= WHOLE_PERIOD:
            mix.check(range(0, mix.total, mix.total // 5 + 1))
    lines = [
        "// Golden vectors of version 1 of mixtures and of their weights, made by mix_reference.py. They never change: another",
        "// schedule is another version.",
        "// clang-format off",
        "#ifndef FEEDD_TESTS_UNIT_MIX_VECTORS_H",
        "#define FEEDD_TESTS_UNIT_MIX_VECTORS_H",
        "",
        "#include <stdint.h>",
        "",
        "#define VECTOR static const __attribute__((unused)) // each test reads a part of them",
        "",
        *mix_lines(mixes),
        *weight_lines(),
        "#endif",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(vectors.run("mix_reference.py", __doc__, c_vectors))
