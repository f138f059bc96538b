#!/usr/bin/env python3
"""The order contract a second time, written from its description and not from the C code, in arbitrary-size
integers. It makes the golden vectors that pin order version 1 and the form of resume tokens:

    order_reference.py --c-vectors           print tests/unit/order_vectors.h
    order_reference.py --verify FILE         exit 1 when FILE differs from that

Order version 1, the permutation of 0..N-1 for (seed, epoch):

    Let the domain have b bits, the fewest (but at least 8) with 2^b >= N. A position is split into a left half of
    floor(b/2) high bits and a right half of the other, low bits. Twelve rounds follow, numbered from 0. An even round
    adds scramble(right, key) to the left half, an odd one scramble(left, key) to the right half, each modulo the size
    of the half that changes. Should the result be N or more, it goes through all rounds again, until it is below N.

    The key of a round is splitmix(splitmix(splitmix(splitmix(round) ^ seed) ^ epoch) ^ N).
    scramble works modulo 2^64: add the key, multiply by A, xor with itself shifted right by 32, multiply by B; its
    value is as many of the highest bits as the half that changes has.

Selections, the samples of a view of N samples:

    A bound of m millionths is floor(N * m / 10^6). With bounds a and b, a range has samples a, a+1, ..., b-1, and a split
    (version 1) has what order version 1 has at these positions for (split_seed, epoch 2^64 - 1).
"""
import sys
import textwrap

import vectors

WORD = 1 << 64
A, B = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
ROUNDS = 12


def splitmix(word):
    word = (word + 0x9E3779B97F4A7C15) % WORD
    word = (word ^ word >> 30) * A % WORD
    word = (word ^ word >> 27) * B % WORD
    return word ^ word >> 31


class Order:
    def __init__(self, samples, seed, epoch):
        bits = max(8, (samples - 1).bit_length())
        self.samples = samples
        self.sizes = (2 ** (bits // 2), 2 ** (bits - bits // 2))
        self.keys = [splitmix(splitmix(splitmix(splitmix(r) ^ seed) ^ epoch) ^ samples) for r in range(ROUNDS)]

    @staticmethod
    def scramble(half, key, size):
        word = (half + key) * A % WORD
        word = (word ^ word >> 32) * B % WORD
        return word * size // WORD

    def once(self, value):
        halves = list(divmod(value, self.sizes[1]))
        for number, key in enumerate(self.keys):
            side = number % 2
            halves[side] = (halves[side] + self.scramble(halves[1 - side], key, self.sizes[side])) % self.sizes[side]
        return halves[0] * self.sizes[1] + halves[1]

    def sample(self, position):
        value = self.once(position)
        while value >= self.samples:
            value = self.once(value)
        return value


def selected(samples, first, count, split_seed=None):
    """The samples of a view, in its order."""
    if split_seed is None:
        return list(range(first, first + count))
    order = Order(samples, split_seed, WORD - 1)
    return [order.sample(position) for position in range(first, first + count)]


def rotate(word, count):
    return (word << count | word >> (64 - count)) % WORD


def xxh64(data):
    """XXH64 with seed 0, from its specification."""
    p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    p4, p5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

    def absorb(lane, word):
        return rotate((lane + word * p2) % WORD, 31) * p1 % WORD

    def take(count):
        nonlocal data
        head, data = data[:count], data[count:]
        return int.from_bytes(head, "little")

    length = len(data)
    if length >= 32:
        lanes = [(p1 + p2) % WORD, p2, 0, -p1 % WORD]
        while len(data) >= 32:
            lanes = [absorb(lane, take(8)) for lane in lanes]
        value = sum(rotate(lane, count) for lane, count in zip(lanes, (1, 7, 12, 18))) % WORD
        for lane in lanes:
            value = ((value ^ absorb(0, lane)) * p1 + p4) % WORD
    else:
        value = p5
    value = (value + length) % WORD
    while len(data) >= 8:
        value = (rotate(value ^ absorb(0, take(8)), 27) * p1 + p4) % WORD
    if len(data) >= 4:
        value = (rotate(value ^ take(4) * p1 % WORD, 23) * p2 + p3) % WORD
    while data:
        value = rotate(value ^ take(1) * p5 % WORD, 11) * p1 % WORD
    value = (value ^ value >> 33) * p2 % WORD
    value = (value ^ value >> 29) * p3 % WORD
    return value ^ value >> 32


def token(version, fingerprint, seed, epoch, consumed, mix=None):
    """`mix`: where a mixture got its weights, and (weight, draws before) of each of its sources."""
    body = f"feedd{2 if mix else 1}.{version}.{fingerprint:016x}.{seed}.{epoch}.{consumed}"
    if mix:
        body += f".1.{mix[0]}." + ",".join(f"{weight}:{drawn}" for weight, drawn in mix[1])
    return f"{body}.{xxh64(body.encode()):016x}"


LAST = WORD - 1
EPOCHS = [  # samples, seed, epoch
    (1, 0, 0), (2, 0, 0), (2, 1, 0), (3, 0, 0), (3, 0, 1), (10, 7, 0), (10, 7, 1), (10, 8, 0), (255, 1, 2), (256, 1, 2),
    (257, 1, 2), (512, 3, 0), (1000, LAST, LAST), (50000, 42, 89), (60000, 0, 0), (60000, 7, 3), (65536, 7, 3),
    (65537, 7, 3), (1281167, 1234, 299), (10**9, 7, 0), (2**32 - 1, 5, 5), (2**32, 5, 5), (2**32 + 15, 5, 5),
    (2**45 + 1, 99, 1), (2**62 + 1, 0xDEADBEEFCAFEF00D, 10**12), (2**63 - 25, 1, 1), (2**63, LAST, 0),
]
WHOLE = [(16, 7, 3), (100, 0, 0), (300, 11, 5)]
DIGESTS = [(60000, 7, 3), (50000, 42, 89)]
TOKENS = [
    (0, 0, 0, 0, 0), (1, 0x0123456789ABCDEF, 7, 3, 25600), (1, LAST, LAST, LAST, LAST), (1, 0xF, 42, 0, 60000),
    (0, 0xFEEDFACE00000000, 1, 10**10, 2**63), (2, 0x0123456789ABCDEF, 7, 3, 25600),
]
MIX_TOKENS = [
    (0, 0, 0, 0, 0, (0, [(1, 0)])), (1, 0x0123456789ABCDEF, 7, 3, 25600, (0, [(3, 0), (1, 0)])),
    (1, 0xF, LAST, 2, 17, (2000, [(6, 1200), (3, 600), (1, 200)])),
    (0, LAST, 5, 1, LAST, (LAST, [(999999, LAST - 7), (1, 7)])),
]
SPLITS = [  # samples, first, count, seed
    (1, 0, 1, 0), (10, 0, 9, 3), (10, 9, 1, 3), (300, 100, 60, 7), (60000, 54000, 20, 3), (1281167, 1153050, 20, LAST),
    (2**32 + 15, 2**32 - 5, 20, 1), (2**63 - 25, 2**62, 10, 2),
]
BOUNDS = [  # samples, millionths
    (1, 0), (1, 999999), (1, 1000000), (10, 900000), (10, 333333), (3, 333333), (3, 666667), (1281167, 900000),
    (2**63 - 1, 1), (2**63 - 1, 999999), (2**63 - 1, 1000000),
]


def positions(samples):
    wanted = [0, 1, 2, samples // 3, samples // 2, samples - 2, samples - 1]
    return sorted({position for position in wanted if 0 <= position < samples})


def digest(samples, seed, epoch):
    order, value = Order(samples, seed, epoch), 0
    for position in range(samples):
        value = (value * 0x5851F42D4C957F2D + order.sample(position) + 1) % WORD
    return value


def wrapped(text):
    return textwrap.fill(text, 108, initial_indent="    ", subsequent_indent="    ")


def c_vectors():
    lines = [
        "// Golden vectors of order version 1, of splits and of resume tokens, made by order_reference.py. They never change:",
        "// another order is another version.",
        "// clang-format off",
        "#ifndef FEEDD_TESTS_UNIT_ORDER_VECTORS_H",
        "#define FEEDD_TESTS_UNIT_ORDER_VECTORS_H",
        "",
        "#include <stdint.h>",
        "",
        "#define VECTOR static const __attribute__((unused)) // each test reads a part of them",
        "",
        "VECTOR struct { uint64_t samples, seed, epoch, position, sample; } sample_vectors[] = {",
    ]
    for samples, seed, epoch in EPOCHS:
        order = Order(samples, seed, epoch)
        lines += [f"    {{{samples}u, {seed}u, {epoch}u, {p}u, {order.sample(p)}u}}," for p in positions(samples)]
    lines += ["};", ""]
    for samples, seed, epoch in WHOLE:
        order = Order(samples, seed, epoch)
        text = ", ".join(str(order.sample(p)) for p in range(samples))
        lines += [f"VECTOR uint64_t epoch_of_{samples}[] = {{", wrapped(text), "};", ""]
    lines += ["VECTOR struct { uint64_t samples, seed, epoch; const uint64_t *order; } epoch_vectors[] = {"]
    lines += [f"    {{{n}u, {s}u, {e}u, epoch_of_{n}}}," for n, s, e in WHOLE]
    lines += ["};", "", "// digest = 0; for every position: digest = digest * 0x5851f42d4c957f2d + sample + 1"]
    lines += ["VECTOR struct { uint64_t samples, seed, epoch, digest; } digest_vectors[] = {"]
    lines += [f"    {{{n}u, {s}u, {e}u, 0x{digest(n, s, e):016x}u}}," for n, s, e in DIGESTS]
    lines += ["};", "", "VECTOR struct {", "    unsigned version;", "    uint64_t fingerprint, seed, epoch, consumed;",
              "    const char *text;", "} token_vectors[] = {"]
    for v, f, s, e, c in TOKENS:
        body, check = token(v, f, s, e, c).rsplit(".", 1)
        lines += [f"    {{{v}u, 0x{f:016x}u, {s}u, {e}u, {c}u,", f'     "{body}"', f'     ".{check}"}},']
    lines += ["};", "", "VECTOR struct {", "    unsigned version;", "    uint64_t fingerprint, seed, epoch, consumed, start;",
              "    uint32_t sources;", "    uint64_t pairs[3][2]; // weight and draws of each source", "    const char *text;",
              "} mix_token_vectors[] = {"]
    for v, f, s, e, c, mix in MIX_TOKENS:
        body, check = token(v, f, s, e, c, mix).rsplit(".", 1)
        pairs = ", ".join(f"{{{weight}u, {drawn}u}}" for weight, drawn in mix[1])
        lines += [f"    {{{v}u, 0x{f:016x}u, {s}u, {e}u, {c}u, {mix[0]}u, {len(mix[1])}u,", f"     {{{pairs}}},"]
        lines += [f'     "{body}"', f'     ".{check}"}},']
    lines += ["};", ""]
    for number, (samples, first, count, seed) in enumerate(SPLITS):
        text = ", ".join(f"{sample}u" for sample in selected(samples, first, count, seed))
        lines += [f"VECTOR uint64_t split_{number}[] = {{", wrapped(text), "};", ""]
    lines += ["VECTOR struct { uint64_t samples, first, count, seed; const uint64_t *selected; } split_vectors[] = {"]
    lines += [f"    {{{n}u, {f}u, {c}u, {s}u, split_{at}}}," for at, (n, f, c, s) in enumerate(SPLITS)]
    lines += ["};", "", "VECTOR struct { uint64_t samples; uint32_t millionths; uint64_t bound; } bound_vectors[] = {"]
    lines += [f"    {{{n}u, {m}u, {n * m // 10**6}u}}," for n, m in BOUNDS]
    lines += ["};", "", "#endif", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(vectors.run("order_reference.py", __doc__, c_vectors))
