#include "daemon/image/resize.h"

#include <math.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/image/resize_axis.h"
#include "daemon/image/resize_kernels.h"

#define KEPT  8u  // axes whose weights are kept
#define SLIDE 16u // rows that the window of resized rows holds beyond those that one result needs

struct resizer_memory {
    uint8_t *bytes;
    size_t room;
};

struct image_resizer {
    const struct resize_kernels *kernels;
    struct resize_axis axes[KEPT];
    uint64_t clock, used_at[KEPT]; // the axis that was used longest ago is replaced
    struct resizer_memory window;  // rows after the first pass, or the places of nearest
    struct resizer_memory edge;    // copies of rows at the end of the source, with room behind them
    struct resizer_memory columns; // rows after the first pass, if columns are first
};

// The passes of one resize.
struct passes {
    const struct resize_kernels *kernels;
    const struct resize_axis *across, *down; // NULL: the pass changes nothing
    const struct image *from;
    const struct image *to;
    const uint8_t *source; // in from: the first pixel that is needed
    uint32_t source_rows;  // that are needed
    uint8_t *edge;
    uint8_t *columns;
    uint8_t *window;
    size_t window_stride;
    uint32_t window_rows;
    uint32_t first, end; // of the rows in the window, counted from `source`
};

int image_resizer_open(struct image_resizer **resizer, struct error *error) {
    *resizer = calloc(1, sizeof **resizer);
    if (!*resizer)
        return error_set(error, -ENOMEM, "no memory to resize images");
    (*resizer)->kernels = resize_kernels(0);
    return 0;
}

void image_resizer_close(struct image_resizer *resizer) {
    if (!resizer)
        return;
    for (uint32_t i = 0; i < KEPT; i++)
        resize_axis_free(&resizer->axes[i]);
    free(resizer->window.bytes);
    free(resizer->edge.bytes);
    free(resizer->columns.bytes);
    free(resizer);
}

const char *image_resizer_use(struct image_resizer *resizer, uint32_t number) {
    const struct resize_kernels *kernels = resize_kernels(number);
    if (!kernels)
        return NULL;
    resizer->kernels = kernels;
    for (uint32_t i = 0; i < KEPT; i++) // packed for another
        resize_axis_free(&resizer->axes[i]);
    return kernels->name;
}

static bool side_ok(uint32_t side) {
    return side >= 1 && side <= IMAGE_MAX_SIDE;
}

static bool range_ok(double begin, double end, uint32_t side) {
    return begin >= 0 && end >= begin && end <= side; // false for no number, too
}

static bool within(uint32_t first, uint32_t count, uint32_t side) {
    return count >= 1 && first < side && count <= side - first;
}

int image_resize_check(const struct image_resize *resize, struct error *error) {
    const struct image_box *box = &resize->box;
    const struct image_rect *part = &resize->part;
    if (!side_ok(resize->source_width) || !side_ok(resize->source_height) || !side_ok(resize->width) ||
        !side_ok(resize->height))
        return error_set(error, -EINVAL, "cannot resize an image of %u x %u to %u x %u: sides are 1 to %u",
                         resize->source_width, resize->source_height, resize->width, resize->height,
                         IMAGE_MAX_SIDE);
    if (!range_ok(box->left, box->right, resize->source_width) ||
        !range_ok(box->top, box->bottom, resize->source_height))
        return error_set(error, -EINVAL, "the box %g, %g, %g, %g is not within an image of %u x %u",
                         box->left, box->top, box->right, box->bottom, resize->source_width,
                         resize->source_height);
    if (!within(part->x, part->width, resize->width) || !within(part->y, part->height, resize->height))
        return error_set(error, -EINVAL, "a part of %u x %u at %u, %u is not within %u x %u", part->width,
                         part->height, part->x, part->y, resize->width, resize->height);
    if (resize->filter > IMAGE_BICUBIC)
        return error_set(error, -EINVAL, "%u is not a filter", (unsigned)resize->filter);
    return 0;
}

static struct resize_axis_key key_across(const struct image_resize *resize) {
    struct resize_axis_key key = {
        .source = resize->source_width,
        .results = resize->width,
        .begin = (float)resize->box.left,
        .end = (float)resize->box.right,
        .filter = resize->filter,
        .part_first = resize->part.x,
        .part_count = resize->part.width,
        .layout = RESIZE_LAYOUT_QUAD,
    };
    return key;
}

static struct resize_axis_key key_down(const struct image_resize *resize) {
    struct resize_axis_key key = {
        .source = resize->source_height,
        .results = resize->height,
        .begin = (float)resize->box.top,
        .end = (float)resize->box.bottom,
        .filter = resize->filter,
        .part_first = resize->part.y,
        .part_count = resize->part.height,
        .layout = RESIZE_LAYOUT_QUAD,
    };
    return key;
}

bool image_resize_order_13(const struct image_resize *resize) {
    int64_t width = (int64_t)resize->source_width - resize->width;
    int64_t height = (int64_t)resize->source_height - resize->height;
    return height > 0 && height > 2 * width;
}

void image_resize_needs(const struct image_resize *resize, struct image_rect *needed) {
    struct resize_axis_key across = key_across(resize), down = key_down(resize);
    resize_axis_needs(&across, &needed->x, &needed->width);
    resize_axis_needs(&down, &needed->y, &needed->height);
}

static bool covers(const struct image_rect *rect, const struct image_rect *needed) {
    return rect->x <= needed->x && rect->y <= needed->y &&
           (uint64_t)rect->x + rect->width >= (uint64_t)needed->x + needed->width &&
           (uint64_t)rect->y + rect->height >= (uint64_t)needed->y + needed->height;
}

static int check_run(const struct image_resize *resize, const struct image *from,
                     const struct image_rect *from_rect, const struct image *to,
                     const struct image_rect *needed, struct error *error) {
    if (from->channels != to->channels || (from->channels != 1 && from->channels != 3))
        return error_set(error, -EINVAL, "cannot resize %u channels to %u: 1 or 3 are wanted", from->channels,
                         to->channels);
    if (to->width != resize->part.width || to->height != resize->part.height)
        return error_set(error, -EINVAL, "the resized part is %u x %u, but there is room for %u x %u",
                         resize->part.width, resize->part.height, to->width, to->height);
    if (from->width != from_rect->width || from->height != from_rect->height || !covers(from_rect, needed))
        return error_set(
            error, -EINVAL,
            "%u x %u pixels at %u, %u of an image do not cover the %u x %u at %u, %u that are resized",
            from_rect->width, from_rect->height, from_rect->x, from_rect->y, needed->width, needed->height,
            needed->x, needed->y);
    return 0;
}

static int reserve(struct resizer_memory *memory, size_t bytes, struct error *error) {
    if (bytes <= memory->room)
        return 0;
    free(memory->bytes);
    memory->bytes = aligned_alloc(CACHE_LINE, align_up(bytes, CACHE_LINE));
    memory->room = memory->bytes ? bytes : 0;
    return memory->bytes ? 0 : error_set(error, -ENOMEM, "no memory for %zu bytes of resized rows", bytes);
}

static bool is_same(const struct resize_axis_key *left, const struct resize_axis_key *right) {
    return left->source == right->source && left->results == right->results && left->begin == right->begin &&
           left->end == right->end && left->filter == right->filter &&
           left->part_first == right->part_first && left->part_count == right->part_count &&
           left->layout == right->layout;
}

// The weights of an axis; valid until KEPT - 1 others have been asked for.
static int axis_of(struct image_resizer *resizer, const struct resize_axis_key *key,
                   const struct resize_axis **axis, struct error *error) {
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < KEPT; i++) {
        if (is_same(&resizer->axes[i].key, key)) {
            resizer->used_at[i] = ++resizer->clock;
            *axis = &resizer->axes[i];
            return 0;
        }
        if (resizer->used_at[i] < resizer->used_at[oldest])
            oldest = i;
    }
    struct resize_axis *made = &resizer->axes[oldest];
    int err = resize_axis_make(made, key);
    if (err)
        return error_set(error, err, "no memory for the weights that resize %u pixels to %u", key->source,
                         key->results);
    resizer->kernels->pack(made);
    resizer->used_at[oldest] = ++resizer->clock;
    *axis = made;
    return 0;
}

static size_t row_bytes(const struct image *image) {
    return (size_t)image->width * image->channels;
}

static const uint8_t *source_row(const struct passes *passes, uint32_t row) {
    return passes->source + row * passes->from->stride;
}

// Bytes from one row to the next of memory from which the pass along rows reads.
static size_t column_stride(const struct resize_axis *across, uint32_t channels) {
    return align_up(resize_axis_reach(across, channels), CACHE_LINE);
}

// Row `row` of the source, or a copy, so that as many bytes can be read from it as the first pass reads.
static const uint8_t *readable(const struct passes *passes, uint32_t row, uint32_t copy, size_t reach) {
    const struct image *from = passes->from;
    const uint8_t *end = from->pixels + (from->height - 1) * from->stride + row_bytes(from);
    const uint8_t *pixels = source_row(passes, row);
    if (reach <= (size_t)(end - pixels))
        return pixels;
    uint8_t *place = passes->edge + copy * column_stride(passes->across, from->channels);
    return memcpy(place, pixels, (size_t)passes->across->count * from->channels);
}

// Resizes up to RESIZE_ROWS rows into the window, behind those that it holds.
static void fill(struct passes *passes) {
    const uint8_t *from[RESIZE_ROWS];
    uint8_t *to[RESIZE_ROWS];
    size_t reach = resize_axis_reach(passes->across, passes->from->channels);
    uint32_t rows = (uint32_t)min_u64(RESIZE_ROWS, passes->source_rows - passes->end);
    for (uint32_t i = 0; i < RESIZE_ROWS; i++) { // the last one again if there are fewer
        uint32_t row = i < rows ? i : rows - 1;
        from[i] = readable(passes, passes->end + row, row, reach);
        to[i] = passes->window + (passes->end + row - passes->first) * passes->window_stride;
    }
    passes->kernels->across(passes->across, passes->from->channels, from, to);
    passes->end += rows;
}

// Rows first..end-1 after the first pass; each call asks for none before those of the last one.
static const uint8_t *rows_across(struct passes *passes, uint32_t first, uint32_t end) {
    if (!passes->across)
        return source_row(passes, first);
    while (passes->end < end) {
        if (passes->end - passes->first + RESIZE_ROWS > passes->window_rows) {
            uint32_t kept = passes->end > first ? passes->end - first : 0;
            memmove(passes->window,
                    passes->window + (passes->end - kept - passes->first) * passes->window_stride,
                    kept * passes->window_stride);
            passes->first = passes->end - kept;
        }
        fill(passes);
    }
    return passes->window + (first - passes->first) * passes->window_stride;
}

static void run_passes(struct passes *passes) {
    const struct resize_axis *down = passes->down;
    size_t stride = passes->across ? passes->window_stride : passes->from->stride;
    size_t bytes = row_bytes(passes->to);
    for (uint32_t y = 0; y < passes->to->height; y++) {
        uint8_t *to = passes->to->pixels + y * passes->to->stride;
        if (down) {
            uint32_t begin = down->begins[y];
            const uint8_t *rows = rows_across(passes, begin, begin + down->used[y]);
            passes->kernels->down(down, y, rows, stride, bytes, to);
        } else {
            memcpy(to, rows_across(passes, y, y + 1), bytes);
        }
    }
}

// Along columns, then along rows: RESIZE_ROWS results at once.
static void run_columns_first(struct passes *passes) {
    const struct image *source = passes->from, *result = passes->to;
    size_t needed = (size_t)passes->across->count * source->channels;
    size_t stride = column_stride(passes->across, source->channels);
    for (uint32_t y = 0; y < result->height; y += RESIZE_ROWS) {
        const uint8_t *from[RESIZE_ROWS];
        uint8_t *to[RESIZE_ROWS];
        uint32_t rows = (uint32_t)min_u64(RESIZE_ROWS, result->height - y);
        for (uint32_t i = 0; i < RESIZE_ROWS; i++) { // the last one again if there are fewer
            uint32_t row = i < rows ? i : rows - 1;
            from[i] = passes->columns + row * stride;
            to[i] = passes->window + row * passes->window_stride;
            if (row == i)
                passes->kernels->down(passes->down, y + i, source_row(passes, passes->down->begins[y + i]),
                                      source->stride, needed, passes->columns + i * stride);
        }
        passes->kernels->across(passes->across, source->channels, from, to);
        for (uint32_t i = 0; i < rows; i++)
            memcpy(result->pixels + (y + i) * result->stride, to[i], row_bytes(result));
    }
}

static int run_weights(struct image_resizer *resizer, const struct image_resize *resize,
                       struct passes *passes, struct error *error) {
    struct resize_axis_key across = key_across(resize), down = key_down(resize);
    uint32_t channels = passes->from->channels;
    int err = 0;
    if (channels == 1)
        across.layout = RESIZE_LAYOUT_ONE;
    if (!resize_axis_copies(&across))
        err = axis_of(resizer, &across, &passes->across, error);
    if (!err && !resize_axis_copies(&down))
        err = axis_of(resizer, &down, &passes->down, error);
    if (!err && passes->across) {
        size_t copies = RESIZE_ROWS * column_stride(passes->across, channels);
        passes->window_stride = resize_row_bytes(resize->part.width, channels);
        passes->window_rows = (passes->down ? passes->down->taps : 1) + SLIDE + RESIZE_ROWS;
        err = reserve(&resizer->window, passes->window_rows * passes->window_stride, error);
        if (!err)
            err = reserve(&resizer->edge, copies, error);
        if (!err)
            err = reserve(&resizer->columns, copies, error);
    }
    if (err)
        return err;
    passes->kernels = resizer->kernels;
    passes->window = resizer->window.bytes;
    passes->edge = resizer->edge.bytes;
    passes->columns = resizer->columns.bytes;
    if (resize->columns_first && passes->across && passes->down)
        run_columns_first(passes);
    else
        run_passes(passes);
    return 0;
}

static void nearest_row(const uint8_t *from, const uint32_t *places, uint32_t end, const struct image *to,
                        uint8_t *pixel) {
    for (uint32_t x = 0; x < to->width; x++, pixel += to->channels)
        for (uint32_t channel = 0; channel < to->channels; channel++)
            pixel[channel] = places[x] < end ? from[(size_t)places[x] * to->channels + channel] : 0;
}

static int run_nearest(struct image_resizer *resizer, const struct image_resize *resize,
                       const struct image *from, const struct image_rect *from_rect, const struct image *to,
                       struct error *error) {
    struct resize_axis_key across = key_across(resize), down = key_down(resize);
    int err = reserve(&resizer->window, ((size_t)to->width + to->height) * sizeof(uint32_t), error);
    if (err)
        return err;
    uint32_t *columns = (uint32_t *)(void *)resizer->window.bytes, *rows = columns + to->width;
    resize_axis_nearest(&across, columns);
    resize_axis_nearest(&down, rows);
    for (uint32_t x = 0; x < to->width; x++) // one outside of the source is outside of what is here, too
        columns[x] = columns[x] < across.source ? columns[x] - from_rect->x : UINT32_MAX;
    for (uint32_t y = 0; y < to->height; y++) {
        uint8_t *pixels = to->pixels + y * to->stride;
        if (rows[y] >= down.source)
            memset(pixels, 0, row_bytes(to));
        else if (y > 0 && rows[y] == rows[y - 1])
            memcpy(pixels, pixels - to->stride, row_bytes(to));
        else
            nearest_row(from->pixels + (rows[y] - from_rect->y) * from->stride, columns, from->width, to,
                        pixels);
    }
    return 0;
}

int image_resize_run(struct image_resizer *resizer, const struct image_resize *resize,
                     const struct image *from, struct image_rect from_rect, struct image *to,
                     struct error *error) {
    struct image_rect needed;
    int err = image_resize_check(resize, error);
    if (err)
        return err;
    image_resize_needs(resize, &needed);
    err = check_run(resize, from, &from_rect, to, &needed, error);
    if (err)
        return err;
    if (resize->filter == IMAGE_NEAREST)
        return run_nearest(resizer, resize, from, &from_rect, to, error);
    struct passes passes = {.from = from, .to = to, .source_rows = needed.height};
    passes.source = from->pixels + (needed.y - from_rect.y) * from->stride +
                    (size_t)(needed.x - from_rect.x) * from->channels;
    return run_weights(resizer, resize, &passes, error);
}
