#include "daemon/image/webp.h"

#include <errno.h>
#include <webp/decode.h>

#include "base/sizes.h"

// At the edges of what is decoded, colours are interpolated otherwise than within a whole image: by half a pixel of
// colour, which is two of the image's. The library wants an even number.
#define MARGIN 4u

static int refuse(VP8StatusCode status, struct error *error) {
    static const char *const reasons[] = {
        [VP8_STATUS_OK] = "no error",
        [VP8_STATUS_OUT_OF_MEMORY] = "no memory",
        [VP8_STATUS_INVALID_PARAM] = "invalid parameter",
        [VP8_STATUS_BITSTREAM_ERROR] = "damaged bitstream",
        [VP8_STATUS_UNSUPPORTED_FEATURE] = "unsupported feature",
        [VP8_STATUS_SUSPENDED] = "premature end of WebP file",
        [VP8_STATUS_USER_ABORT] = "aborted",
        [VP8_STATUS_NOT_ENOUGH_DATA] = "premature end of WebP file",
    };
    int code = status == VP8_STATUS_OUT_OF_MEMORY ? -ENOMEM : -EBADMSG;
    return error_set(error, code, "its WebP image cannot be decoded: %s",
                     (size_t)status < COUNT_OF(reasons) ? reasons[status] : "unknown error");
}

static int read_features(const uint8_t *bytes, size_t count, WebPBitstreamFeatures *features,
                         struct error *error) {
    VP8StatusCode status = WebPGetFeatures(bytes, count, features);
    if (status != VP8_STATUS_OK)
        return refuse(status, error);
    if (features->has_animation)
        return error_set(error, -ENOTSUP, "its WebP image is animated; only still ones are decoded");
    return image_check_size((uint64_t)features->width, (uint64_t)features->height, error);
}

int image_webp_header(const uint8_t *bytes, size_t count, uint32_t *width, uint32_t *height,
                      struct error *error) {
    WebPBitstreamFeatures features;
    int err = read_features(bytes, count, &features, error);
    if (err)
        return err;
    *width = (uint32_t)features.width;
    *height = (uint32_t)features.height;
    return 0;
}

// The rectangle and its margin, from an even column and row on.
static struct image_rect widen(const struct image_cut *cut) {
    const struct image_rect *rect = &cut->rect;
    struct image_rect wide;
    wide.x = (rect->x > MARGIN ? rect->x - MARGIN : 0) & ~1u;
    wide.y = (rect->y > MARGIN ? rect->y - MARGIN : 0) & ~1u;
    wide.width = (uint32_t)min_u64(rect->x + rect->width + MARGIN, cut->width) - wide.x;
    wide.height = (uint32_t)min_u64(rect->y + rect->height + MARGIN, cut->height) - wide.y;
    return wide;
}

static VP8StatusCode run(const uint8_t *bytes, size_t count, WebPDecoderConfig *config,
                         const struct image_rect *wide, const struct image *pixels) {
    config->options.use_cropping = 1;
    config->options.crop_left = (int)wide->x;
    config->options.crop_top = (int)wide->y;
    config->options.crop_width = (int)wide->width;
    config->options.crop_height = (int)wide->height;
    config->output.colorspace = MODE_RGB;
    config->output.is_external_memory = 1;
    config->output.u.RGBA = (WebPRGBABuffer){
        .rgba = pixels->pixels, .stride = (int)pixels->stride, .size = pixels->stride * wide->height};
    errno = 0;
    VP8StatusCode status = WebPDecode(bytes, count, config);
    // If memory runs out while it sets up a frame or decodes transparency, the library returns other codes.
    if (status != VP8_STATUS_OK && errno == ENOMEM)
        status = VP8_STATUS_OUT_OF_MEMORY;
    WebPFreeDecBuffer(&config->output);
    return status;
}

int image_webp_decode(const uint8_t *bytes, size_t count, const struct image_cut *cut,
                      struct image_scratch *scratch, struct image *pixels, struct error *error) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return error_set(error, -ENOTSUP, "the library libwebp has another interface than this build");
    int err = read_features(bytes, count, &config.input, error);
    if (!err)
        err = image_check_same(cut, (uint32_t)config.input.width, (uint32_t)config.input.height, error);
    const struct image_rect wide = widen(cut);
    if (!err)
        err = image_make_rows(pixels, scratch, wide.width, wide.height, cut->channels, 3, error);
    if (err)
        return err;
    VP8StatusCode status = run(bytes, count, &config, &wide, pixels);
    if (status != VP8_STATUS_OK)
        return refuse(status, error);
    if (cut->channels == 1)
        for (uint32_t row = 0; row < wide.height; row++)
            image_row_rgb_to_grey(pixels->pixels + row * pixels->stride, wide.width);
    pixels->pixels +=
        (cut->rect.y - wide.y) * pixels->stride + (cut->rect.x - wide.x) * (size_t)cut->channels;
    pixels->width = cut->rect.width;
    pixels->height = cut->rect.height;
    return 0;
}
