#include "daemon/image/codec.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/image/cut.h"
#include "daemon/image/exif.h"
#include "daemon/image/jpeg.h"
#include "daemon/image/orient.h"
#include "daemon/image/png.h"
#include "daemon/image/webp.h"

#define EIGHTHS 8u // a whole

struct image_decoder {
    struct image_jpeg *jpeg;
    struct image_arena arena;
    struct image_scratch pixels, oriented;
};

int image_decoder_open(struct image_decoder **decoder, struct error *error) {
    struct image_decoder *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, -ENOMEM, "no memory to decode images");
    int err = image_jpeg_open(&made->jpeg, error);
    if (err) {
        image_decoder_close(made);
        return err;
    }
    *decoder = made;
    return 0;
}

void image_decoder_close(struct image_decoder *decoder) {
    if (!decoder)
        return;
    image_jpeg_close(decoder->jpeg);
    image_arena_free(&decoder->arena);
    image_scratch_free(&decoder->pixels);
    image_scratch_free(&decoder->oriented);
    free(decoder);
}

// ---- Headers -----------------------------------------------------------------------------------------------

static uint32_t find_format(const uint8_t *bytes, size_t count) {
    if (count >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0)
        return IMAGE_JPEG;
    if (count >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0)
        return IMAGE_PNG;
    if (count >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0)
        return IMAGE_WEBP;
    return 0;
}

static int refuse_format(const uint8_t *bytes, size_t count, struct error *error) {
    char found[3 * 8 + 1] = "";
    if (!count)
        return error_set(error, -EBADMSG, "its image has no bytes");
    for (size_t i = 0; i < 8 && i < count; i++)
        snprintf(found + 3 * i, 4, " %02x", bytes[i]);
    return error_set(error, -ENOTSUP, "its bytes are not a JPEG, PNG or WebP image: they begin with%s",
                     found);
}

int image_read_header(const uint8_t *bytes, size_t count, struct image_header *header, struct error *error) {
    *header = (struct image_header){.format = find_format(bytes, count), .orientation = 1};
    int err;
    switch (header->format) {
    case IMAGE_JPEG:
        err = image_jpeg_header(bytes, count, &header->width, &header->height, error);
        header->orientation = exif_of_jpeg(bytes, count);
        break;
    case IMAGE_PNG:
        err = image_png_header(bytes, count, &header->width, &header->height, error);
        header->orientation = exif_of_png(bytes, count);
        break;
    case IMAGE_WEBP:
        err = image_webp_header(bytes, count, &header->width, &header->height, error);
        header->orientation = exif_of_webp(bytes, count);
        break;
    default:
        err = refuse_format(bytes, count, error);
    }
    return err;
}

void image_oriented_size(const struct image_header *header, uint32_t *width, uint32_t *height) {
    const bool swapped = image_orientation(header->orientation)->swapped;
    *width = swapped ? header->height : header->width;
    *height = swapped ? header->width : header->height;
}

// ---- Decoding ----------------------------------------------------------------------------------------------

static struct image_orientation wanted_orientation(const struct image_request *request) {
    return *image_orientation(request->oriented ? request->header.orientation : 1);
}

// The smallest scale at which the rectangle is large enough, of those for which the library has vector instructions:
// with any other n, decoding takes longer than with the next of these.
static uint32_t choose_eighths(const struct image_request *request) {
    uint32_t eighths = 1;
    if (request->header.format != IMAGE_JPEG || !request->fast_width || !request->fast_height)
        return EIGHTHS;
    while (eighths < EIGHTHS &&
           ((uint64_t)request->rect.width * eighths < (uint64_t)request->fast_width * EIGHTHS ||
            (uint64_t)request->rect.height * eighths < (uint64_t)request->fast_height * EIGHTHS))
        eighths *= 2;
    return eighths;
}

static bool is_within(const struct image_rect *rect, uint32_t width, uint32_t height) {
    return rect->width && rect->height && rect->x < width && rect->width <= width - rect->x &&
           rect->y < height && rect->height <= height - rect->y;
}

static int make_cut(const struct image_request *request, struct image_cut *cut, struct error *error) {
    const struct image_header *header = &request->header;
    const struct image_orientation orientation = wanted_orientation(request);
    uint32_t width = orientation.swapped ? header->height : header->width;
    uint32_t height = orientation.swapped ? header->width : header->height;
    if (!is_within(&request->rect, width, height) || (request->channels != 1 && request->channels != 3))
        return error_set(error, -EINVAL,
                         "its image of %u x %u pixels has no %u x %u at %u, %u in %u channels", width, height,
                         request->rect.width, request->rect.height, request->rect.x, request->rect.y,
                         request->channels);
    *cut = (struct image_cut){
        .width = header->width,
        .height = header->height,
        .channels = request->channels,
        .labels = request->labels && request->channels == 1,
        .rect = image_rect_stored(orientation, request->rect, header->width, header->height),
        .eighths = choose_eighths(request),
    };
    return 0;
}

static int decode(struct image_decoder *decoder, const uint8_t *bytes, size_t count, uint32_t format,
                  const struct image_cut *cut, struct image *pixels, struct error *error) {
    if (find_format(bytes, count) != format)
        return error_set(error, -EBADMSG, "its image is of another format than its header said before");
    switch (format) {
    case IMAGE_JPEG:
        return image_jpeg_decode(decoder->jpeg, bytes, count, cut, &decoder->pixels, pixels, error);
    case IMAGE_PNG:
        return image_png_decode(&decoder->arena, bytes, count, cut, &decoder->pixels, pixels, error);
    case IMAGE_WEBP:
        return image_webp_decode(bytes, count, cut, &decoder->pixels, pixels, error);
    default:
        return refuse_format(bytes, count, error);
    }
}

// Where the rectangle lies in the pixels that were decoded for it, which begin with a whole one.
static struct image_box find_box(const struct image_cut *cut) {
    const double scale = cut->eighths / (double)EIGHTHS;
    const struct image_rect *rect = &cut->rect;
    const double left = rect->x * cut->eighths % EIGHTHS / (double)EIGHTHS;
    const double top = rect->y * cut->eighths % EIGHTHS / (double)EIGHTHS;
    return (struct image_box){left, top, left + rect->width * scale, top + rect->height * scale};
}

static int orient(struct image_decoder *decoder, struct image_orientation orientation, struct image *pixels,
                  struct image_box *box, struct error *error) {
    const struct image stored = *pixels;
    if (!orientation.swapped && !orientation.from_right && !orientation.from_bottom)
        return 0;
    int err = image_make_rows(pixels, &decoder->oriented, orientation.swapped ? stored.height : stored.width,
                              orientation.swapped ? stored.width : stored.height, stored.channels,
                              stored.channels, error);
    if (err)
        return err;
    image_orient(orientation, &stored, pixels);
    *box = image_box_oriented(orientation, *box, stored.width, stored.height);
    return 0;
}

int image_decode(struct image_decoder *decoder, const uint8_t *bytes, size_t count,
                 const struct image_request *request, struct image *pixels, struct image_box *box,
                 struct error *error) {
    struct image_cut cut;
    struct image_box place;
    image_scratch_trim(&decoder->pixels);
    image_scratch_trim(&decoder->oriented);
    int err = make_cut(request, &cut, error);
    if (!err)
        err = decode(decoder, bytes, count, request->header.format, &cut, pixels, error);
    if (err)
        return err;
    place = find_box(&cut);
    err = orient(decoder, wanted_orientation(request), pixels, &place, error);
    if (!err && box)
        *box = place;
    return err;
}
