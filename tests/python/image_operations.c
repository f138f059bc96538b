// A library that Python's ctypes loads: an operation on pixels by its name, once or, to be measured, again and again.
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "tests/unit/image_fixture.h"

#define EXPORTED __attribute__((visibility("default")))

// Does the operation to width * height * channels bytes, `times` times in a row. Returns the CPU seconds that it
// took, or a negative errno.
EXPORTED double image_operate(const char *name, uint8_t *pixels, uint32_t width, uint32_t height,
                              uint32_t channels, const double *values, const uint8_t *fill, uint32_t times);
EXPORTED double image_operate(const char *name, uint8_t *pixels, uint32_t width, uint32_t height,
                              uint32_t channels, const double *values, const uint8_t *fill, uint32_t times) {
    struct image image = {pixels, width, height, channels, (size_t)width * channels};
    uint8_t *scratch = malloc(image_augment_scratch(&image) + 1);
    if (!scratch)
        return -ENOMEM;
    struct image_call call = {&image, scratch, values, {fill[0], fill[1], fill[2]}};
    double seconds = -EINVAL;
    for (size_t i = 0; i < COUNT_OF(image_operations); i++) {
        if (strcmp(image_operations[i].name, name) != 0)
            continue;
        struct timespec begin, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        for (uint32_t round = 0; round < times; round++)
            image_operations[i].run(&call);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    }
    free(scratch);
    return seconds;
}

EXPORTED double image_magnitude(uint32_t kind, uint32_t operation, uint32_t bin, uint32_t width,
                                uint32_t height);
EXPORTED double image_magnitude(uint32_t kind, uint32_t operation, uint32_t bin, uint32_t width,
                                uint32_t height) {
    return image_augment_magnitude(kind, operation, bin, width, height);
}
