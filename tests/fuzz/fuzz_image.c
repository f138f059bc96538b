// Encoded images that lie, of which some rectangles are decoded. One decoder serves all inputs, as a loader's does.
// Then steps are run as for a cache: the same must come of the image itself, of the one that is kept, and on the way to
// that.
//
// Input: a byte of flags (1: grey is wanted, 2: oriented, 4: fast, 8: labels), four bytes that choose the rectangle,
// two for the size that fast keeps, and the image.
#include "daemon/image/codec.h"
#include "daemon/image/pipeline.h"
#include "tests/fuzz/fuzz.h"

#define MOST_PIXELS (1u << 20) // more take longer than they teach
#define RECTS       3u

enum {
    GREY = 1,
    ORIENTED = 2,
    FAST = 4,
    LABELS = 8
};

// A part of `whole`: not empty.
static void choose(uint32_t whole, uint8_t first, uint8_t count, uint32_t *begin, uint32_t *length) {
    *begin = (uint32_t)((uint64_t)whole * first >> 8);
    *length = 1 + (uint32_t)((uint64_t)(whole - *begin - 1) * count / UINT8_MAX);
}

// Every byte that was promised is there.
static void touch(const struct image *pixels) {
    volatile uint8_t sum = 0;
    for (uint32_t row = 0; row < pixels->height; row++)
        for (size_t i = 0; i < (size_t)pixels->width * pixels->channels; i++)
            sum = (uint8_t)(sum + pixels->pixels[row * pixels->stride + i]);
}

static void check(const struct image_request *request, const struct image *pixels,
                  const struct image_box *box) {
    FUZZ_CHECK(pixels->channels == request->channels && pixels->width && pixels->height);
    FUZZ_CHECK(pixels->stride >= (size_t)pixels->width * pixels->channels);
    FUZZ_CHECK(0 <= box->left && box->left < box->right && box->right <= pixels->width);
    FUZZ_CHECK(0 <= box->top && box->top < box->bottom && box->bottom <= pixels->height);
    if (!request->fast_width)
        FUZZ_CHECK(pixels->width == request->rect.width && pixels->height == request->rect.height);
    FUZZ_CHECK(pixels->width <= request->rect.width && pixels->height <= request->rect.height);
    FUZZ_CHECK(box->right - box->left >= min_u64(request->fast_width, request->rect.width));
    touch(pixels);
}

static void decode(struct image_decoder *decoder, struct fuzz_input input, struct image_request *request,
                   const uint8_t places[4]) {
    struct image pixels;
    struct image_box box;
    struct error error = {0};
    uint32_t width = request->header.width, height = request->header.height;
    if (request->oriented)
        image_oriented_size(&request->header, &width, &height);
    choose(width, places[0], places[1], &request->rect.x, &request->rect.width);
    choose(height, places[2], places[3], &request->rect.y, &request->rect.height);
    int err = image_decode(decoder, input.at, input.left, request, &pixels, &box, &error);
    if (err == 0)
        check(request, &pixels, &box);
    else
        FUZZ_CHECK(err < 0 && err == error.code && strncmp(error.text, "its ", 4) == 0);
}

// ---- As for a cache ------------------------------------------------------------------------------------------

#define SIDE 24u
#define CROP 16u

struct kept {
    uint8_t *pixels;
    struct image image;
};

static void keep(void *context, const struct image *image) {
    struct kept *kept = context;
    const size_t row = (size_t)image->width * image->channels;
    kept->pixels = malloc(row * image->height);
    FUZZ_CHECK(kept->pixels && (image->width == SIDE || image->height == SIDE));
    for (uint32_t y = 0; y < image->height; y++)
        memcpy(kept->pixels + y * row, image->pixels + y * image->stride, row);
    kept->image = *image;
    kept->image.pixels = kept->pixels;
    kept->image.stride = row;
}

static struct image_pipeline *pipeline_of(uint8_t flags) {
    static struct image_pipeline *pipelines[8];
    static struct image_steps steps[8];
    static const struct image_finish finish = {.element_bytes = 1};
    static const struct image_stored stored = {.encoded = true};
    struct image_pipeline **pipeline = &pipelines[flags % 8];
    struct image_steps *of = &steps[flags % 8];
    struct error error = {0};
    const char *rest;
    if (*pipeline)
        return *pipeline;
    FUZZ_CHECK(image_steps_parse("random_crop 16 padding 2, flip", of, &rest, &error) == 0);
    of->flags |= (flags & ORIENTED ? IMAGE_STEPS_EXIF : 0) | (flags & FAST ? IMAGE_STEPS_FAST : 0);
    of->channels = flags & GREY ? 1 : 3;
    of->side = SIDE;
    of->side_filter = IMAGE_BILINEAR;
    FUZZ_CHECK(image_steps_fit(of, &stored, &error) == 0);
    FUZZ_CHECK(image_pipeline_open(pipeline, of, &stored, &finish, &error) == 0);
    return *pipeline;
}

static void check_cache(struct fuzz_input input, uint8_t flags, const uint8_t places[4]) {
    uint8_t whole[CROP * CROP * 3] = {0}, first[CROP * CROP * 3] = {0}, again[CROP * CROP * 3] = {0};
    const struct image_place place = {places[0], places[1], places[2]};
    struct image_pipeline *pipeline = pipeline_of(flags);
    struct error error = {0};
    struct kept kept = {0};
    int err = image_pipeline_run(pipeline, input.at, input.left, &place, whole, &error);
    int other =
        image_pipeline_run_and_keep(pipeline, input.at, input.left, &place, first, keep, &kept, &error);
    FUZZ_CHECK(!err == !other && (err || kept.pixels));
    if (!err) {
        FUZZ_CHECK(image_pipeline_run_kept(pipeline, &kept.image, &place, again, &error) == 0);
        FUZZ_CHECK(memcmp(whole, first, sizeof whole) == 0 && memcmp(whole, again, sizeof whole) == 0);
    }
    free(kept.pixels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct image_decoder *decoder;
    struct fuzz_input input = {data, size};
    struct error error = {0};
    uint8_t places[4];
    if (!decoder)
        FUZZ_CHECK(image_decoder_open(&decoder, &error) == 0);
    uint8_t flags = fuzz_byte(&input);
    for (int i = 0; i < 4; i++)
        places[i] = fuzz_byte(&input);
    struct image_request request = {
        .channels = flags & GREY ? 1 : 3, .oriented = flags & ORIENTED, .labels = flags & LABELS};
    uint32_t fast[2] = {fuzz_byte(&input), fuzz_byte(&input)};
    if (flags & FAST && fast[0] && fast[1]) {
        request.fast_width = fast[0];
        request.fast_height = fast[1];
    }
    int err = image_read_header(input.at, input.left, &request.header, &error);
    if (err) {
        FUZZ_CHECK(err < 0 && err == error.code && strncmp(error.text, "its ", 4) == 0);
        return 0;
    }
    FUZZ_CHECK(request.header.orientation >= 1 && request.header.orientation <= 8);
    if ((uint64_t)request.header.width * request.header.height > MOST_PIXELS)
        return 0;
    for (uint32_t i = 0; i < RECTS; i++) {
        decode(decoder, input, &request, places);
        places[i] = (uint8_t)(places[i] * 7 + 31);
    }
    check_cache(input, flags, places);
    return 0;
}
