#include "daemon/image/png.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"

// Of what may be left out, nothing is needed: no text, no profiles, no transparency.
static const png_byte transparency[] = "tRNS";

// The last chunk's name and checksum.
static const uint8_t last_bytes[] = {'I', 'E', 'N', 'D', 0xAE, 0x42, 0x60, 0x82};

struct png {
    png_structp library;
    png_infop info;
    struct image_arena *arena; // NULL: memory of the C library
    uint32_t width, height;
    bool grey;    // as stored: levels of grey, or indices
    bool clipped; // 16-bit grey without transparency, of which Pillow makes 8 bits so
    const uint8_t *bytes;
    size_t left;
    bool ended; // they end as a PNG does: none are missing
    char reason[128];
    // What is being decoded, and where to.
    const struct image_cut *cut;
    struct image_scratch *scratch;
    struct image *pixels;
    bool no_memory; // the library has asked for some, and there was none
    struct error *error;
};

// ---- What the library calls --------------------------------------------------------------------------------

static png_voidp take(png_structp library, png_alloc_size_t size) {
    struct png *png = png_get_mem_ptr(library);
    void *memory = png->arena ? image_arena_take(png->arena, size) : malloc(size);
    png->no_memory |= !memory;
    return memory;
}

static void give_back(png_structp library, png_voidp memory) {
    const struct png *png = png_get_mem_ptr(library);
    if (png->arena)
        image_arena_return(png->arena, memory);
    else
        free(memory);
}

__attribute__((noreturn)) static void give_up(png_structp library, png_const_charp reason) {
    struct png *png = png_get_error_ptr(library);
    snprintf(png->reason, sizeof png->reason, "%s", reason);
    png_longjmp(library, 1);
}

static void say_nothing(png_structp library, png_const_charp warning) {
    (void)library;
    (void)warning;
}

static void read_bytes(png_structp library, png_bytep to, size_t count) {
    struct png *png = png_get_io_ptr(library);
    if (count > png->left)
        png_error(library, "premature end of PNG file");
    memcpy(to, png->bytes, count);
    png->bytes += count;
    png->left -= count;
}

// ---- Decoding ----------------------------------------------------------------------------------------------

static int read_header(struct png *png) {
    png_structp library = png->library;
    png_set_read_fn(library, png, read_bytes);
    png_set_user_limits(library, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE);
    png_set_keep_unknown_chunks(library, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(library, PNG_HANDLE_CHUNK_NEVER, transparency, 1);
    png_read_info(library, png->info);
    png->width = png_get_image_width(library, png->info);
    png->height = png_get_image_height(library, png->info);
    return image_check_size(png->width, png->height, png->error);
}

// Has the library make grey or coloured pixels of 8 bits, or of 16 if they are clipped afterwards.
static void choose_pixels(struct png *png) {
    const int type = png_get_color_type(png->library, png->info);
    const bool indices = type == PNG_COLOR_TYPE_PALETTE && png->cut->labels;
    png->grey = !(type & PNG_COLOR_MASK_COLOR) || indices;
    png->clipped = type == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png->library, png->info) == 16;
    png_set_packing(png->library);
    if (!indices)
        png_set_expand(png->library);
    png_set_strip_alpha(png->library);
    if (!png->clipped)
        png_set_strip_16(png->library);
    if (png->grey && png->cut->channels == 3)
        png_set_gray_to_rgb(png->library);
}

// Whole rows, of which `pixels` has those of the rectangle. An interlaced image comes in passes over all rows, and rows
// that are not needed are decoded all the same; so are those below the rectangle if bytes may be missing, because that
// must not depend on what is wanted.
static void read_rows(struct png *png, int passes) {
    const struct image_rect *rect = &png->cut->rect;
    const struct image *pixels = png->pixels;
    const uint32_t last = png->ended ? rect->y + rect->height : png->cut->height;
    for (int pass = 0; pass < passes; pass++) {
        uint32_t end = pass + 1 < passes ? png->cut->height : last;
        for (uint32_t row = 0; row < end; row++) {
            bool wanted = row >= rect->y && row - rect->y < rect->height;
            png_read_row(png->library, wanted ? pixels->pixels + (row - rect->y) * pixels->stride : NULL,
                         NULL);
        }
    }
}

// Labels that 8 bits cannot hold; `row` is of big-endian samples.
static int check_labels(const struct png *png, const uint8_t *row) {
    const struct image_rect *rect = &png->cut->rect;
    for (uint32_t x = rect->x; x < rect->x + rect->width; x++)
        if (row[2 * (size_t)x])
            return error_set(png->error, -EBADMSG,
                             "its 16-bit mask has a pixel of %u, wanted at most 255 (8 bits)",
                             row[2 * (size_t)x] << 8 | row[2 * (size_t)x + 1]);
    return 0;
}

static int convert(const struct png *png) {
    const struct image *pixels = png->pixels;
    for (uint32_t row = 0; row < pixels->height; row++) {
        uint8_t *begin = pixels->pixels + row * pixels->stride;
        int err = png->clipped && png->cut->labels ? check_labels(png, begin) : 0;
        if (err)
            return err;
        if (png->clipped)
            image_row_clip_16(begin, (size_t)pixels->width * pixels->channels);
        if (!png->grey && pixels->channels == 1)
            image_row_rgb_to_grey(begin, pixels->width);
    }
    return 0;
}

static int decode(struct png *png) {
    const struct image_cut *cut = png->cut;
    int err = read_header(png);
    if (!err)
        err = image_check_same(cut, png->width, png->height, png->error);
    if (err)
        return err;
    choose_pixels(png);
    const int passes = png_set_interlace_handling(png->library);
    png_read_update_info(png->library, png->info);
    size_t row_bytes = png_get_rowbytes(png->library, png->info);
    err = image_make_rows(png->pixels, png->scratch, cut->width, cut->rect.height, cut->channels,
                          (uint32_t)(row_bytes / cut->width), png->error);
    if (err)
        return err;
    if (passes > 1) // the library merges pixels into what is there
        memset(png->pixels->pixels, 0, png->pixels->stride * cut->rect.height);
    read_rows(png, passes);
    err = convert(png);
    png->pixels->pixels += (size_t)cut->rect.x * cut->channels;
    png->pixels->width = cut->rect.width;
    return err;
}

// An error of the library leaves `body` from anywhere.
static int guard(struct png *png, int body(struct png *)) {
    int err;
    png->library =
        png_create_read_struct_2(PNG_LIBPNG_VER_STRING, png, give_up, say_nothing, png, take, give_back);
    png->info = png->library ? png_create_info_struct(png->library) : NULL;
    if (!png->info)
        err = error_set(png->error, -ENOMEM, "no memory to decode PNG images");
    else if (setjmp(png_jmpbuf(png->library)) == 0)
        err = body(png);
    else
        err = error_set(png->error, png->no_memory ? -ENOMEM : -EBADMSG,
                        "its PNG image cannot be decoded: %s", png->reason);
    png_destroy_read_struct(&png->library, &png->info, NULL);
    if (png->arena)
        image_arena_reset(png->arena);
    return err;
}

// ---- Interface ---------------------------------------------------------------------------------------------

int image_png_header(const uint8_t *bytes, size_t count, uint32_t *width, uint32_t *height,
                     struct error *error) {
    struct png png = {.bytes = bytes, .left = count, .error = error};
    int err = guard(&png, read_header);
    *width = png.width;
    *height = png.height;
    return err;
}

int image_png_decode(struct image_arena *arena, const uint8_t *bytes, size_t count,
                     const struct image_cut *cut, struct image_scratch *scratch, struct image *pixels,
                     struct error *error) {
    struct png png = {.arena = arena,
                      .bytes = bytes,
                      .left = count,
                      .ended = count >= sizeof last_bytes &&
                               memcmp(bytes + count - sizeof last_bytes, last_bytes, sizeof last_bytes) == 0,
                      .cut = cut,
                      .scratch = scratch,
                      .pixels = pixels,
                      .error = error};
    return guard(&png, decode);
}
