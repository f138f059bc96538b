// The kernel of gpu/finish.h. A block makes a tile of 32 x 16 pixels of one image. It resizes along the first axis a few
// lines at a time, in shared memory, and adds them up along the second, each thread for its own pixel. `columns first`
// only exchanges the roles of the axes.
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

#define TILE_X  32u
#define TILE_Y  16u
#define THREADS (TILE_X * TILE_Y)
#define LINES   8u

struct axis {
    int32_t weights[IMAGE_RECORD_TILE][IMAGE_RECORD_TAPS];
    uint32_t begin[IMAGE_RECORD_TILE], count[IMAGE_RECORD_TILE];
    uint32_t first, end; // pixels of the crop that the tile needs
};

struct shared {
    image_record record;
    axis axes[2]; // across and down
    uchar4 source[LINES][IMAGE_RECORD_SPAN];
    uchar4 line[LINES][IMAGE_RECORD_TILE];
};

// Which pixel of the part a tile's column or row is: outside of it if it wraps around.
static __device__ uint32_t part_of(uint32_t place, uint32_t begin, uint32_t length, bool turned) {
    uint32_t inside = place - begin;
    if (inside >= length)
        return UINT32_MAX;
    return turned ? length - 1 - inside : inside;
}

static __device__ void weigh(axis *axis, uint32_t i, uint32_t part, uint32_t first, const finish_window *window) {
    axis->begin[i] = axis->count[i] = 0;
    if (part == UINT32_MAX)
        return;
    axis->count[i] = finish_weigh(window, first + part, &axis->begin[i], axis->weights[i]);
    atomicMin(&axis->first, axis->begin[i]);
    atomicMax(&axis->end, axis->begin[i] + axis->count[i]);
}

static __device__ void make_axes(shared *mine, uint32_t thread) {
    const image_record *record = &mine->record;
    const bool bicubic = record->flags & IMAGE_RECORD_BICUBIC;
    if (thread < TILE_X) {
        finish_window window = finish_window_of(record->crop_width, record->result_width, bicubic);
        weigh(&mine->axes[0], thread,
              part_of(blockIdx.x * TILE_X + thread, record->left, record->part_width,
                      record->flags & IMAGE_RECORD_MIRRORED),
              record->part_x, &window);
    } else if (thread < TILE_X + TILE_Y) {
        finish_window window = finish_window_of(record->crop_height, record->result_height, bicubic);
        weigh(&mine->axes[1], thread - TILE_X,
              part_of(blockIdx.y * TILE_Y + thread - TILE_X, record->top, record->part_height,
                      record->flags & IMAGE_RECORD_FLIPPED),
              record->part_y, &window);
    }
    __syncthreads();
}

static __device__ uint32_t inside(int32_t place, uint32_t size) {
    return (uint32_t)min(max(place, 0), (int32_t)size - 1);
}

// Neighbouring threads take neighbouring pixels of a row.
static __device__ void fetch_lines(shared *mine, const finish_planes *planes, bool columns, uint32_t line,
                                   uint32_t lines, uint32_t first, uint32_t span, uint32_t thread) {
    const image_record *record = &mine->record;
    const uint32_t step = THREADS / LINES;
    const uint32_t number = columns ? thread % LINES : thread / step;
    if (number >= lines)
        return;
    for (uint32_t place = columns ? thread / LINES : thread % step; place < span; place += step) {
        const int32_t x = (int32_t)(columns ? line + number : first + place);
        const int32_t y = (int32_t)(columns ? first + place : line + number);
        finish_pixel pixel =
            finish_turned_pixel_at(record, planes, inside(record->crop_x + x, finish_turned_width(record)),
                                   inside(record->crop_y + y, finish_turned_height(record)));
        mine->source[number][place] = make_uchar4(pixel.value[0], pixel.value[1], pixel.value[2], 0);
    }
}

static __device__ void resize_lines(shared *mine, const axis *along, uint32_t places, uint32_t lines,
                                    uint32_t thread) {
    const int32_t half = 1 << (FINISH_PRECISION - 1);
    if (thread >= places * lines)
        return;
    uint32_t number = thread / places, place = thread % places;
    int32_t r = half, g = half, b = half;
    const uchar4 *source = &mine->source[number][along->begin[place] - along->first];
    for (uint32_t i = 0; i < along->count[place]; i++) {
        int32_t weight = along->weights[place][i];
        r += source[i].x * weight;
        g += source[i].y * weight;
        b += source[i].z * weight;
    }
    mine->line[number][place] = make_uchar4(finish_round(r), finish_round(g), finish_round(b), 0);
}

// The pixel of this thread, if it is in the part.
static __device__ uchar4 resize_tile(shared *mine, const uint8_t *planes, bool grey, uint32_t thread) {
    const int32_t half = 1 << (FINISH_PRECISION - 1);
    const bool columns = mine->record.flags & IMAGE_RECORD_COLUMNS_FIRST;
    const axis *along = &mine->axes[columns], *other = &mine->axes[!columns];
    const uint32_t places = columns ? TILE_Y : TILE_X;
    const uint32_t tx = thread % TILE_X, ty = thread / TILE_X;
    const uint32_t my_place = columns ? ty : tx, my_line = columns ? tx : ty;
    const uint32_t span = along->end > along->first ? min(along->end - along->first, IMAGE_RECORD_SPAN) : 0;
    const finish_planes found = finish_planes_of(&mine->record, planes, grey);
    const uint32_t begin = other->begin[my_line], end = begin + other->count[my_line];
    int32_t r = half, g = half, b = half;
    for (uint32_t line = other->first; span && line < other->end; line += LINES) {
        uint32_t lines = min(LINES, other->end - line);
        fetch_lines(mine, &found, columns, line, lines, along->first, span, thread);
        __syncthreads();
        resize_lines(mine, along, places, lines, thread);
        __syncthreads();
        for (uint32_t at = max(begin, line); at < min(end, line + lines); at++) {
            int32_t weight = other->weights[my_line][at - begin];
            uchar4 pixel = mine->line[at - line][my_place];
            r += pixel.x * weight;
            g += pixel.y * weight;
            b += pixel.z * weight;
        }
        // The next lines are fetched into other memory than these are read from, and resized after a barrier.
    }
    return make_uchar4(finish_round(r), finish_round(g), finish_round(b), 0);
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

extern "C" __global__ void __launch_bounds__(THREADS) feedd_finish(batch all) {
    __shared__ shared mine;
    const uint32_t thread = threadIdx.x, image = blockIdx.z;
    const uint32_t x = blockIdx.x * TILE_X + thread % TILE_X, y = blockIdx.y * TILE_Y + thread / TILE_X;
    const uint8_t *pixels = all.pixels + image * all.area;
    if (thread < 2) {
        mine.axes[thread].first = UINT32_MAX;
        mine.axes[thread].end = 0;
    }
    for (uint32_t i = thread; i < IMAGE_RECORD_BYTES / 4; i += THREADS)
        ((uint32_t *)&mine.record)[i] = ((const uint32_t *)(all.records + image))[i];
    __syncthreads();
    uint8_t value[4] = {0, 0, 0, 0};
    const bool drawn = x < all.width && y < all.height;
    // What follows is the same for all threads of the block.
    if (mine.record.kind == IMAGE_RECORD_PLANES && image_record_fits(&mine.record, all.area)) {
        make_axes(&mine, thread);
        uchar4 pixel = resize_tile(&mine, pixels, all.channels == 1, thread);
        const bool within = mine.axes[0].count[thread % TILE_X] && mine.axes[1].count[thread / TILE_X];
        value[0] = within ? pixel.x : mine.record.fill[0];
        value[1] = within ? pixel.y : mine.record.fill[1];
        value[2] = within ? pixel.z : mine.record.fill[2];
    } else if (drawn && mine.record.kind == IMAGE_RECORD_PIXELS &&
               (uint64_t)all.width * all.height * all.channels <= all.area) {
        for (uint32_t channel = 0; channel < all.channels; channel++)
            value[channel] = pixels[((uint64_t)y * all.width + x) * all.channels + channel];
    }
    if (drawn)
        put(&all, image, x, y, value);
}
