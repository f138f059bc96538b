// Decodes what it is asked for on standard input, for tests that compare it with what others decode.
//
// A line: FILE CHANNELS FLAGS X Y WIDTH HEIGHT FAST_WIDTH FAST_HEIGHT; WIDTH 0: only the header. FLAGS: 1
// for oriented, 2 for labels. The answer: a line, and after "pixels" as many bytes as it says.
//   header FORMAT WIDTH HEIGHT ORIENTATION
//   pixels WIDTH HEIGHT CHANNELS LEFT TOP RIGHT BOTTOM
//   error CODE SENTENCE
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/scope.h"
#include "daemon/image/codec.h"

static uint8_t *read_whole(const char *path, size_t *count) {
    struct stat status;
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0)
        return NULL;
    // Exactly as large, so that the address sanitizer sees a read past the end.
    uint8_t *bytes = malloc(status.st_size ? (size_t)status.st_size : 1);
    *count = (size_t)status.st_size;
    if (bytes && read(fd, bytes, *count) == (ssize_t)*count)
        return bytes;
    free(bytes);
    return NULL;
}

static void print_pixels(const struct image *pixels, const struct image_box *box) {
    printf("pixels %u %u %u %.17g %.17g %.17g %.17g\n", pixels->width, pixels->height, pixels->channels,
           box->left, box->top, box->right, box->bottom);
    for (uint32_t row = 0; row < pixels->height; row++)
        fwrite(pixels->pixels + row * pixels->stride, pixels->channels, pixels->width, stdout);
}

static void answer(struct image_decoder *decoder, const uint8_t *bytes, size_t count,
                   struct image_request *request) {
    struct image pixels;
    struct image_box box;
    struct error error = {0};
    int err = image_read_header(bytes, count, &request->header, &error);
    const struct image_header *header = &request->header;
    if (!err && request->rect.width)
        err = image_decode(decoder, bytes, count, request, &pixels, &box, &error);
    if (err)
        printf("error %d %s\n", err, error.text);
    else if (request->rect.width)
        print_pixels(&pixels, &box);
    else
        printf("header %u %u %u %u\n", header->format, header->width, header->height, header->orientation);
    fflush(stdout);
}

int main(void) {
    struct image_decoder *decoder;
    struct error error = {0};
    char line[4096], path[4096];
    if (image_decoder_open(&decoder, &error)) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        struct image_request request = {0};
        struct image_rect *rect = &request.rect;
        unsigned flags;
        size_t count;
        if (sscanf(line, "%4095s %u %u %u %u %u %u %u %u", path, &request.channels, &flags, &rect->x,
                   &rect->y, &rect->width, &rect->height, &request.fast_width, &request.fast_height) != 9)
            return 2;
        request.oriented = flags & 1;
        request.labels = flags & 2;
        uint8_t *bytes AUTO_FREE = read_whole(path, &count);
        if (!bytes)
            return 2;
        answer(decoder, bytes, count, &request);
    }
    image_decoder_close(decoder);
    return 0;
}
