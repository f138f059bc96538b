// JPEGs, and their records for tests of what a GPU makes of images.
#ifndef FEEDD_TESTS_UNIT_ENCODED_JPEG_H
#define FEEDD_TESTS_UNIT_ENCODED_JPEG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
// After stdio.h, which it needs.
#include <jpeglib.h>

#include "shm/image_record.h"

#define WIDTH  203u
#define HEIGHT 101u

struct bytes {
    uint8_t at[200000];
    size_t count;
};

// `factor`: how many times the luminance is sampled per side; 0: grey.
static inline void encode_sized(struct bytes *jpeg, uint32_t width, uint32_t height, int factor,
                                bool progressive) {
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr errors;
    uint8_t *row = malloc((size_t)3 * width), *out = jpeg->at;
    unsigned long count = sizeof jpeg->at;
    assert_non_null(row);
    library.err = jpeg_std_error(&errors);
    jpeg_create_compress(&library);
    jpeg_mem_dest(&library, &out, &count);
    library.image_width = width;
    library.image_height = height;
    library.input_components = factor ? 3 : 1;
    library.in_color_space = factor ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(&library);
    if (factor)
        library.comp_info[0].h_samp_factor = library.comp_info[0].v_samp_factor = factor;
    if (progressive)
        jpeg_simple_progression(&library);
    jpeg_start_compress(&library, TRUE);
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t i = 0; i < 3 * width; i++)
            row[i] = (uint8_t)(i * 3 + y * y + (i * y >> 4));
        jpeg_write_scanlines(&library, &row, 1);
    }
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    free(row);
    assert_ptr_equal(out, jpeg->at);
    jpeg->count = count;
}

static inline void encode(struct bytes *jpeg, int factor, bool progressive) {
    encode_sized(jpeg, WIDTH, HEIGHT, factor, progressive);
}

static inline struct image_record record_of(uint32_t sampling) {
    return (struct image_record){.kind = IMAGE_RECORD_JPEG,
                                 .sampling = sampling,
                                 .width = WIDTH,
                                 .height = HEIGHT,
                                 .image_width = WIDTH,
                                 .image_height = HEIGHT};
}

#endif
