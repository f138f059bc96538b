// Written by tests/python/colour_vectors.py: checksums of what torchvision makes of pictures; see image_fixture.h.
#ifndef FEEDD_TESTS_UNIT_COLOUR_VECTORS_H
#define FEEDD_TESTS_UNIT_COLOUR_VECTORS_H

#include <stdint.h>

// clang-format off
static const struct colour_vector {
    const char *operation;
    double value;
    uint32_t width, height, channels;
    uint64_t checksum;
} colour_vectors[] = {
    {"brightness", 1.3, 64, 32, 3, 0x9f5c7573d4764da7},
    {"brightness", 0.45, 64, 32, 3, 0x3a9ce4df6c174129},
    {"contrast", 1.7, 64, 32, 3, 0x678447dc07c0c3c1},
    {"contrast", 0.3, 64, 32, 3, 0x151ec9cbe4812f45},
    {"saturation", 1.55, 64, 32, 3, 0xce5bd41acd39f4d8},
    {"saturation", 0.2, 64, 32, 3, 0x02b4ade1455992df},
    {"hue", 0.21, 64, 32, 3, 0xdb0df07c930be8dc},
    {"hue", -0.5, 64, 32, 3, 0x5652f0d3d584a125},
    {"grayscale", 0, 64, 32, 3, 0xe37eda051852e5a5},
    {"invert", 0, 64, 32, 3, 0x570b9456c2ebd1a8},
    {"posterize", 3, 64, 32, 3, 0xde209e04314c5fc5},
    {"solarize", 127.5, 64, 32, 3, 0x0d20f3c3d96fee68},
    {"autocontrast", 0, 64, 32, 3, 0x6caf47208798742a},
    {"equalize", 0, 64, 32, 3, 0x40af6e2e968c8654},
    {"sharpness", 1.9, 64, 32, 3, 0x80a457c59bc3d99e},
    {"sharpness", 0.1, 64, 32, 3, 0x2d2a737974b1dc45},
    {"shear_x", 0.3, 64, 32, 3, 0x7b58d09f003d6b0e},
    {"shear_y", -0.99, 64, 32, 3, 0xa07f90a677c717e4},
    {"rotate", 30.0, 64, 32, 3, 0xcdeecb45ac9340b9},
    {"rotate", -94.5, 64, 32, 3, 0x16e57420910f81bd},
    {"rotate", 135.0, 64, 32, 3, 0x476c3f3f31d7a4e2},
    {"translate_x", 9, 64, 32, 3, 0xa22ea2c0c68634bd},
    {"translate_y", -5, 64, 32, 3, 0x3a0502c55c5d99cf},
    {"brightness", 1.3, 32, 21, 1, 0xaf1c88bbcb8c371c},
    {"brightness", 0.45, 32, 21, 1, 0x2567508a20032616},
    {"contrast", 1.7, 32, 21, 1, 0xdb5d20a51bdfe959},
    {"contrast", 0.3, 32, 21, 1, 0x5f04074de05c6805},
    {"saturation", 1.55, 32, 21, 1, 0xa335cc253fa556c9},
    {"saturation", 0.2, 32, 21, 1, 0xa335cc253fa556c9},
    {"hue", 0.21, 32, 21, 1, 0xa335cc253fa556c9},
    {"hue", -0.5, 32, 21, 1, 0xa335cc253fa556c9},
    {"grayscale", 0, 32, 21, 1, 0xa335cc253fa556c9},
    {"invert", 0, 32, 21, 1, 0x64d67769ac219451},
    {"posterize", 3, 32, 21, 1, 0x6049e72a0d1e0285},
    {"solarize", 127.5, 32, 21, 1, 0xfb9015a3251f86c9},
    {"autocontrast", 0, 32, 21, 1, 0x1df1749fad97ec5d},
    {"equalize", 0, 32, 21, 1, 0x84297d44ed708af1},
    {"sharpness", 1.9, 32, 21, 1, 0x85cd063a571cc5c5},
    {"sharpness", 0.1, 32, 21, 1, 0x680efda6d0d7f707},
    {"shear_x", 0.3, 32, 21, 1, 0x37966dd61fcb1b05},
    {"shear_y", -0.99, 32, 21, 1, 0x9ec1d64f5827d7ab},
    {"rotate", 30.0, 32, 21, 1, 0x3e51fec2f4889964},
    {"rotate", -94.5, 32, 21, 1, 0x0c9c218bbb09682d},
    {"rotate", 135.0, 32, 21, 1, 0xae3cf703ff506325},
    {"translate_x", 9, 32, 21, 1, 0x89e3af07eb332862},
    {"translate_y", -5, 32, 21, 1, 0x549d0a0c765ef0db},
};

#endif
