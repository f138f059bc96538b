"""Prints tests/unit/colour_vectors.h: what torchvision makes of pictures that tests/unit/image_fixture.h can draw too.

For unit tests on machines without torchvision; test_torch_image.py checks that the file is up to date.
"""

import numpy
import pixels

VECTORS = [
    ("brightness", 1.3), ("brightness", 0.45), ("contrast", 1.7), ("contrast", 0.3), ("saturation", 1.55), ("saturation", 0.2),
    ("hue", 0.21), ("hue", -0.5), ("grayscale", None), ("invert", None), ("posterize", 3), ("solarize", 127.5),
    ("autocontrast", None), ("equalize", None), ("sharpness", 1.9), ("sharpness", 0.1), ("shear_x", 0.3), ("shear_y", -0.99),
    ("rotate", 30.0), ("rotate", -94.5), ("rotate", 135.0), ("translate_x", 9), ("translate_y", -5),
]  # fmt: skip
# Multiples of 32 values, so that torch does everything in vectors.
SIZES = [(64, 32, 3), (32, 21, 1)]


def draw(width, height, channels):
    """Bytes of a linear congruential generator, from 20 to 219."""
    state, values = 1, []
    for _ in range(width * height * channels):
        state = (state * 1664525 + 1013904223) % (1 << 32)
        values.append(20 + (state >> 24) * 200 // 256)
    return numpy.array(values, dtype=numpy.uint8).reshape(height, width, channels).transpose(2, 0, 1)


def checksum(image):
    """FNV-1a, 64 bits, of the interleaved pixels."""
    value = 0xCBF29CE484222325
    for byte in image.transpose(1, 2, 0).tobytes():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def header():
    lines = [
        "// Written by tests/python/colour_vectors.py: checksums of what torchvision makes of pictures; see image_fixture.h.",
        "#ifndef FEEDD_TESTS_UNIT_COLOUR_VECTORS_H", "#define FEEDD_TESTS_UNIT_COLOUR_VECTORS_H", "", "#include <stdint.h>", "",
        "// clang-format off",
        "static const struct colour_vector {", "    const char *operation;", "    double value;",
        "    uint32_t width, height, channels;", "    uint64_t checksum;", "} colour_vectors[] = {",
    ]  # fmt: skip
    for width, height, channels in SIZES:
        picture = draw(width, height, channels)
        for name, value in VECTORS:
            right = checksum(pixels.by_torchvision(name, picture, [] if value is None else [value]))
            lines.append(f'    {{"{name}", {value or 0}, {width}, {height}, {channels}, 0x{right:016x}}},')
    return "\n".join([*lines, "};", "", "#endif", ""])


if __name__ == "__main__":
    print(header(), end="")
