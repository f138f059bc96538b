// The kernel of gpu/finish.h. A block makes a tile of 32 x 32 pixels of one image. It fetches the pixels that the tile
// needs, resizes them along the first axis, and adds them up along the second, all in shared memory. If they do not
// fit, it takes a few lines at a time. Lines are rows, or columns with `columns first`.
#include "gpu/finish_math.h"

// As struct finish_batch (gpu/finish.h), which includes what nvcc does not take.
struct batch {
    const image_record *records;
    const uint8_t *pixels;
    const uint8_t *table;
    uint8_t *output;
    uint64_t area;
    uint32_t count, width, height, channels, element_bytes, planes;
};

#define TILE    IMAGE_RECORD_TILE
#define THREADS FINISH_THREADS
#define LANES   32u
#define WARPS   (THREADS / LANES)
#define RESULTS (TILE * TILE / THREADS) // pixels per thread: every WARPS-th row of one column
#define PIXELS  5120u                   // fetched at a time, at most: enough for ten lines
#define LINES   64u                     // likewise

// For a tile's columns or rows. A warp whose threads have one column each reads its weights from 32 different banks.
struct axis {
    int32_t weights[IMAGE_RECORD_TAPS][TILE];
    uint32_t begin[TILE], count[TILE];
    uint32_t first, end; // pixels of the crop that the tile needs
};

struct shared {
    image_record record;
    axis axes[2];              // across and down
    uchar4 source[PIXELS];     // row by row
    uchar4 line[LINES * TILE]; // resized: TILE pixels per line, or with `columns first` LINES pixels per row
};

static_assert(PIXELS >= IMAGE_RECORD_SPAN, "a line fits");

// The lines that are in shared memory now.
struct lines {
    uint32_t begin, count;
    uint32_t pitch; // pixels from a row of `source` to the next
};

// Which pixel of the part a tile's column or row is: outside of it if it wraps around.
static __device__ uint32_t part_of(uint32_t place, uint32_t begin, uint32_t length, bool turned) {
    uint32_t inside = place - begin;
    if (inside >= length)
        return UINT32_MAX;
    return turned ? length - 1 - inside : inside;
}

// `several` threads share each column or row; this is number `mine` of them.
static __device__ void weigh(axis *axis, uint32_t place, uint32_t part, uint32_t first, const finish_window *window,
                             uint32_t mine, uint32_t several) {
    if (mine == 0)
        axis->begin[place] = axis->count[place] = 0;
    if (part == UINT32_MAX)
        return;
    const finish_weights weights = finish_weights_of(window, first + part);
    for (uint32_t i = mine; i < weights.count; i += several)
        axis->weights[i][place] = finish_weigh(window, &weights, i);
    if (mine != 0)
        return;
    axis->begin[place] = weights.begin;
    axis->count[place] = weights.count;
    atomicMin(&axis->first, weights.begin);
    atomicMax(&axis->end, weights.begin + weights.count);
}

static __device__ void make_axes(shared *mine, uint32_t thread) {
    const image_record *record = &mine->record;
    const bool bicubic = record->flags & IMAGE_RECORD_BICUBIC;
    const uint32_t place = thread % TILE, number = thread / (2 * TILE), several = THREADS / (2 * TILE);
    if (thread / TILE % 2 == 0) {
        finish_window window = finish_window_of(record->crop_width, record->result_width, bicubic);
        weigh(&mine->axes[0], place,
              part_of(blockIdx.x * TILE + place, record->left, record->part_width,
                      record->flags & IMAGE_RECORD_MIRRORED),
              record->part_x, &window, number, several);
    } else {
        finish_window window = finish_window_of(record->crop_height, record->result_height, bicubic);
        weigh(&mine->axes[1], place,
              part_of(blockIdx.y * TILE + place, record->top, record->part_height,
                      record->flags & IMAGE_RECORD_FLIPPED),
              record->part_y, &window, number, several);
    }
    __syncthreads();
}

static __device__ uint32_t inside(int32_t place, uint32_t size) {
    return (uint32_t)min(max(place, 0), (int32_t)size - 1);
}

// Each warp fetches one row at a time, whether lines are rows or columns.
static __device__ void fetch(shared *mine, const finish_planes *planes, uint32_t left, uint32_t top, uint32_t width,
                             uint32_t height, uint32_t thread) {
    const image_record *record = &mine->record;
    const uint32_t columns = finish_turned_width(record), rows = finish_turned_height(record);
    for (uint32_t row = thread / LANES; row < height; row += WARPS) {
        const uint32_t y = inside(record->crop_y + (int32_t)(top + row), rows);
        for (uint32_t column = thread % LANES; column < width; column += LANES) {
            const uint32_t x = inside(record->crop_x + (int32_t)(left + column), columns);
            const finish_pixel pixel = finish_turned_pixel_at(record, planes, x, y);
            mine->source[row * width + column] = make_uchar4(pixel.value[0], pixel.value[1], pixel.value[2], 0);
        }
    }
}

static __device__ uchar4 weighted(const uchar4 *source, uint32_t step, const int32_t *weights, uint32_t count) {
    int32_t r = 1 << (FINISH_PRECISION - 1), g = r, b = r;
    for (uint32_t i = 0; i < count; i++) {
        const uchar4 pixel = source[i * step];
        const int32_t weight = weights[i * TILE];
        r += pixel.x * weight;
        g += pixel.y * weight;
        b += pixel.z * weight;
    }
    return make_uchar4(finish_round(r), finish_round(g), finish_round(b), 0);
}

// Each warp makes one row at a time, and each of its threads one column.
static __device__ void resize_rows(shared *mine, const struct lines *lines, uint32_t thread) {
    const axis *along = &mine->axes[0];
    const uint32_t place = thread % LANES, count = along->count[place];
    const uchar4 *source = mine->source + (count ? along->begin[place] - along->first : 0);
    for (uint32_t row = thread / LANES; row < lines->count; row += WARPS)
        mine->line[row * TILE + place] =
            weighted(source + row * lines->pitch, 1, &along->weights[0][place], count);
}

static __device__ void resize_columns(shared *mine, const struct lines *lines, uint32_t thread) {
    const axis *along = &mine->axes[1];
    for (uint32_t place = thread / LANES; place < TILE; place += WARPS) {
        const uint32_t count = along->count[place];
        const uchar4 *source = mine->source + (count ? along->begin[place] - along->first : 0) * lines->pitch;
        for (uint32_t column = thread % LANES; column < lines->count; column += LANES)
            mine->line[place * LINES + column] =
                weighted(source + column, lines->pitch, &along->weights[0][place], count);
    }
}

// Adds what these lines contribute to a pixel of the tile.
static __device__ void add_lines(const shared *mine, const struct lines *lines, bool columns, uint32_t x, uint32_t y,
                                 int3 *sum) {
    const axis *other = &mine->axes[!columns];
    const uint32_t place = columns ? x : y;
    const uint32_t begin = other->begin[place], end = begin + other->count[place];
    for (uint32_t at = max(begin, lines->begin); at < min(end, lines->begin + lines->count); at++) {
        const int32_t weight = other->weights[at - begin][place];
        const uint32_t line = at - lines->begin;
        const uchar4 pixel = mine->line[columns ? y * LINES + line : line * TILE + x];
        sum->x += pixel.x * weight;
        sum->y += pixel.y * weight;
        sum->z += pixel.z * weight;
    }
}

// Those pixels of this thread that are in the part.
static __device__ void resize_tile(shared *mine, const uint8_t *planes, bool grey, uint32_t thread, uchar4 *pixels) {
    const bool columns = mine->record.flags & IMAGE_RECORD_COLUMNS_FIRST;
    const axis *along = &mine->axes[columns], *other = &mine->axes[!columns];
    const uint32_t span = along->end > along->first ? min(along->end - along->first, IMAGE_RECORD_SPAN) : 0;
    const finish_planes found = finish_planes_of(&mine->record, planes, grey);
    const int32_t half = 1 << (FINISH_PRECISION - 1);
    int3 sums[RESULTS];
    for (uint32_t i = 0; i < RESULTS; i++)
        sums[i] = make_int3(half, half, half);
    struct lines lines = {other->first, 0, span};
    for (; span && lines.begin < other->end; lines.begin += lines.count) {
        lines.count = min(min(LINES, PIXELS / span), other->end - lines.begin);
        if (columns) {
            lines.pitch = lines.count;
            fetch(mine, &found, lines.begin, along->first, lines.count, span, thread);
        } else {
            fetch(mine, &found, along->first, lines.begin, span, lines.count, thread);
        }
        __syncthreads();
        if (columns)
            resize_columns(mine, &lines, thread);
        else
            resize_rows(mine, &lines, thread);
        __syncthreads();
#pragma unroll
        for (uint32_t i = 0; i < RESULTS; i++)
            add_lines(mine, &lines, columns, thread % LANES, thread / LANES + i * WARPS, &sums[i]);
        // The next lines are fetched into other memory than these are read from, and resized after a barrier.
    }
    for (uint32_t i = 0; i < RESULTS; i++)
        pixels[i] = make_uchar4(finish_round(sums[i].x), finish_round(sums[i].y), finish_round(sums[i].z), 0);
}

static __device__ void put(const batch *all, uint32_t image, uint32_t x, uint32_t y, const uint8_t *value) {
    const uint64_t values = (uint64_t)all->width * all->height * all->channels;
    for (uint32_t channel = 0; channel < all->channels; channel++) {
        uint64_t place = image * values + (all->planes
                                               ? ((uint64_t)channel * all->height + y) * all->width + x
                                               : ((uint64_t)y * all->width + x) * all->channels + channel);
        uint32_t entry = channel * 256 + value[channel];
        if (all->element_bytes == 2)
            ((uint16_t *)all->output)[place] = ((const uint16_t *)all->table)[entry];
        else if (all->element_bytes == 4)
            ((uint32_t *)all->output)[place] = ((const uint32_t *)all->table)[entry];
        else
            all->output[place] = all->table[entry];
    }
}

// What a thread delivers at a place if nothing was resized: the finished pixel, or black.
static __device__ uchar4 finished(const batch *all, const image_record *record, const uint8_t *pixels, uint32_t x,
                                  uint32_t y) {
    uint8_t value[4] = {0, 0, 0, 0};
    if (record->kind == IMAGE_RECORD_PIXELS && (uint64_t)all->width * all->height * all->channels <= all->area)
        for (uint32_t channel = 0; channel < all->channels; channel++)
            value[channel] = pixels[((uint64_t)y * all->width + x) * all->channels + channel];
    return make_uchar4(value[0], value[1], value[2], 0);
}

extern "C" __global__ void __launch_bounds__(THREADS) feedd_finish(batch all) {
    __shared__ shared mine;
    const uint32_t thread = threadIdx.x, image = blockIdx.z;
    const uint8_t *pixels = all.pixels + image * all.area;
    if (thread < 2) {
        mine.axes[thread].first = UINT32_MAX;
        mine.axes[thread].end = 0;
    }
    for (uint32_t i = thread; i < IMAGE_RECORD_BYTES / 4; i += THREADS)
        ((uint32_t *)&mine.record)[i] = ((const uint32_t *)(all.records + image))[i];
    __syncthreads();
    const image_record *record = &mine.record;
    // The same for all threads of the block.
    const bool planes = record->kind == IMAGE_RECORD_PLANES && image_record_fits(record, all.area);
    uchar4 resized[RESULTS];
    if (planes) {
        make_axes(&mine, thread);
        resize_tile(&mine, pixels, all.channels == 1, thread, resized);
    }
#pragma unroll
    for (uint32_t i = 0; i < RESULTS; i++) {
        const uint32_t column = thread % LANES, row = thread / LANES + i * WARPS;
        const uint32_t x = blockIdx.x * TILE + column, y = blockIdx.y * TILE + row;
        if (x >= all.width || y >= all.height)
            continue;
        uchar4 pixel = make_uchar4(record->fill[0], record->fill[1], record->fill[2], 0);
        if (!planes)
            pixel = finished(&all, record, pixels, x, y);
        else if (mine.axes[0].count[column] && mine.axes[1].count[row])
            pixel = resized[i];
        const uint8_t value[3] = {pixel.x, pixel.y, pixel.z};
        put(&all, image, x, y, value);
    }
}
