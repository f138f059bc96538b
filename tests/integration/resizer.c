// Resizes images that a test in Python sends: on standard input a struct request and the pixels of the source, again
// and again; on standard output a word, 0 or a negative errno, and the pixels of the part.
#include <string.h>

#include "base/error.h"
#include "daemon/image/resize.h"

struct request {
    uint32_t
        set; // instruction set: see image_resizer_use; a number that there is not is answered with -ENOENT
    uint32_t filter, channels;
    uint32_t source_width, source_height, width, height;
    uint32_t part[4];
    uint32_t margin; // pixels around those that are needed that the resizer gets, too
    uint32_t order;  // 0: rows first, 1: columns first, 2: as in Pillow 13
    uint32_t reserved;
    double box[4];
};

static bool read_all(void *to, size_t bytes) {
    return fread(to, 1, bytes, stdin) == bytes;
}

static void write_all(const void *from, size_t bytes) {
    if (fwrite(from, 1, bytes, stdout) != bytes)
        exit(1);
}

static void answer(int err) {
    int32_t word = err;
    write_all(&word, sizeof word);
}

// What is needed, and the margin, as far as the source has it.
static struct image_rect rect_of(const struct image_resize *resize, uint32_t margin) {
    struct image_rect rect;
    image_resize_needs(resize, &rect);
    uint32_t right = rect.x + rect.width + margin, bottom = rect.y + rect.height + margin;
    rect.x = rect.x > margin ? rect.x - margin : 0;
    rect.y = rect.y > margin ? rect.y - margin : 0;
    rect.width = (right < resize->source_width ? right : resize->source_width) - rect.x;
    rect.height = (bottom < resize->source_height ? bottom : resize->source_height) - rect.y;
    return rect;
}

// In memory of exactly that size, so that the address sanitizer sees what is read beyond it.
static struct image image_of(uint32_t width, uint32_t height, uint32_t channels) {
    struct image image = {.width = width, .height = height, .channels = channels};
    image.stride = (size_t)width * channels;
    image.pixels = malloc(image.stride * height);
    if (!image.pixels)
        exit(1);
    return image;
}

static void serve(struct image_resizer *resizer, const struct request *request, const struct image *source) {
    struct image_resize resize = {
        .source_width = request->source_width,
        .source_height = request->source_height,
        .box = {request->box[0], request->box[1], request->box[2], request->box[3]},
        .width = request->width,
        .height = request->height,
        .filter = request->filter,
        .part = {request->part[0], request->part[1], request->part[2], request->part[3]},
    };
    resize.columns_first = request->order == 2 ? image_resize_order_13(&resize) : request->order;
    struct error error = {0};
    int err = image_resize_check(&resize, &error);
    if (!err && !image_resizer_use(resizer, request->set))
        err = -ENOENT;
    if (err) {
        answer(err);
        return;
    }
    struct image_rect rect = rect_of(&resize, request->margin);
    struct image from = image_of(rect.width, rect.height, source->channels);
    struct image to = image_of(resize.part.width, resize.part.height, source->channels);
    for (uint32_t y = 0; y < rect.height; y++)
        memcpy(from.pixels + y * from.stride,
               source->pixels + (rect.y + y) * source->stride + (size_t)rect.x * source->channels,
               from.stride);
    err = image_resize_run(resizer, &resize, &from, rect, &to, &error);
    answer(err);
    if (!err)
        write_all(to.pixels, to.stride * to.height);
    free(from.pixels);
    free(to.pixels);
}

int main(void) {
    struct image_resizer *resizer;
    struct request request;
    if (image_resizer_open(&resizer, NULL))
        return 1;
    while (read_all(&request, sizeof request)) {
        struct image source = image_of(request.source_width, request.source_height, request.channels);
        if (!read_all(source.pixels, source.stride * source.height))
            return 1;
        serve(resizer, &request, &source);
        fflush(stdout);
        free(source.pixels);
    }
    image_resizer_close(resizer);
    return 0;
}
