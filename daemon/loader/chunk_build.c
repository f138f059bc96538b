#include "daemon/loader/chunk_build.h"

#include <string.h>

#include "base/repeat.h"
#include "base/sizes.h"
#include "daemon/loader/chunk_blocks.h"
#include "daemon/loader/chunk_values.h"
#include "daemon/loader/chunk_windows.h"

// A direct read of this many bytes with unaligned ends is worth three requests: its middle then needs no copy.
#define DIRECT_CUT_BYTES (64u << 10)

static inline uint32_t file_index(const struct chunk_builder *builder) {
    return (uint32_t)(builder->file - builder->plan->layout->files);
}

// Where byte `from` of a window is, and how many of its bytes lie there; leaves its file in builder->file.
static struct chunk_stretch locate_window(struct chunk_builder *builder, const struct chunk_segment *segment,
                                          uint64_t sample, uint64_t from) {
    const struct chunk_stretch stretch = chunk_window_stretch(builder->plan, segment, sample, from);
    builder->file = &builder->plan->layout->files[stretch.file];
    builder->number = stretch.file;
    return stretch;
}

// The file offset of the segment of a sample; leaves its file in builder->file, and its bytes.
static inline uint64_t locate(struct chunk_builder *builder, const struct chunk_segment *segment,
                              uint64_t sample) {
    const struct dataset_layout *layout = builder->plan->layout;
    builder->bytes = segment->bytes;
    if (segment->column && segment->column->kind == COLUMN_WINDOWS) {
        const struct chunk_stretch stretch = locate_window(builder, segment, sample, 0);
        builder->parted = stretch.coded || stretch.bytes < segment->bytes;
        return stretch.offset;
    }
    if (segment->column) {
        const struct chunk_place place = chunk_find_place(builder->plan, segment, sample);
        builder->file = &layout->files[place.file];
        builder->number = place.number;
        builder->in_block = place.block != NULL;
        builder->bytes = min_u64(chunk_index_extent(builder->plan, segment, sample)->bytes, segment->bytes);
        return place.offset;
    }
    uint64_t index = sample - builder->file->first_sample;
    if (__builtin_expect(index >= builder->file->samples, 0)) {
        builder->file =
            &layout->files[dataset_find_file(layout, segment->stream, sample, file_index(builder))];
        index = sample - builder->file->first_sample;
    }
    return builder->file->data_offset + index * segment->stream->record_bytes + segment->offset;
}

// As requests have it.
static inline uint32_t file_number(const struct chunk_builder *builder, const struct chunk_segment *segment) {
    return segment->column ? builder->number : file_index(builder);
}

static inline struct read_request *start_request(struct chunk_builder *builder, uint32_t segment,
                                                 uint64_t offset, uint32_t position) {
    struct read_request *request = builder->request++;
    *request = (struct read_request){.file = file_number(builder, &builder->plan->segments[segment]),
                                     .offset = offset,
                                     .pieces = builder->piece,
                                     .segment = (uint16_t)segment,
                                     .chunk = builder->plan->chunk,
                                     .first_sample = position};
    return request;
}

// Pieces that are contiguous in memory become one.
static inline void add_piece(struct chunk_builder *builder, struct read_request *request, uint8_t *address,
                             uint64_t bytes) {
    request->bytes += (uint32_t)bytes;
    if (request->piece_count && address != reader_scratch) {
        struct iovec *last = builder->piece - 1;
        if ((uint8_t *)last->iov_base + last->iov_len == address) {
            last->iov_len += bytes;
            return;
        }
    }
    *builder->piece++ = (struct iovec){address, bytes};
    request->piece_count++;
}

static inline void add_sample(struct chunk_builder *builder, struct read_request *request,
                              const struct chunk_segment *segment, uint32_t member) {
    for (uint32_t i = 0; i < segment->extent_count; i++) {
        const struct chunk_extent *extent = &segment->extents[i];
        if (extent->gap)
            add_piece(builder, request, reader_scratch, extent->gap);
        // A column has one extent, of which a sample may have fewer bytes.
        add_piece(builder, request, chunk_extent_address(extent, member),
                  min_u64(extent->bytes, builder->bytes));
    }
    request->sample_count++;
}

// The rest of a sample that is shorter than its place.
static void fill_up(const struct chunk_builder *builder, const struct chunk_segment *segment,
                    uint32_t member) {
    const struct chunk_extent *extent = segment->extents;
    if (!extent->ragged && !extent->sizes && builder->bytes < extent->bytes)
        repeat(chunk_extent_address(extent, member) + builder->bytes, segment->column->pad,
               extent->bytes - builder->bytes);
}

// Bytes `from`..`to` of the segment.
static void add_part(struct chunk_builder *builder, struct read_request *request,
                     const struct chunk_segment *segment, uint32_t member, uint64_t from, uint64_t to) {
    uint64_t start = 0;
    for (uint32_t i = 0; i < segment->extent_count; i++) {
        const struct chunk_extent *extent = &segment->extents[i];
        uint64_t data = start + extent->gap;
        uint64_t end = data + min_u64(extent->bytes, builder->bytes);
        uint64_t first = max_u64(from, start);
        if (first < data && first < to) {
            add_piece(builder, request, reader_scratch, min_u64(to, data) - first);
            first = min_u64(to, data);
        }
        if (first >= data && first < end && first < to)
            add_piece(builder, request, chunk_extent_address(extent, member) + (first - data),
                      min_u64(to, end) - first);
        start = end;
    }
    request->sample_count = 1;
}

// The same samples, another part of the bytes of a request of one piece.
static void add_copy(struct chunk_builder *builder, const struct read_request *whole, uint64_t from,
                     uint64_t to) {
    struct read_request *request = builder->request++;
    *request = *whole;
    request->offset = whole->offset + from;
    request->bytes = 0;
    request->pieces = builder->piece;
    request->piece_count = 0;
    add_piece(builder, request, (uint8_t *)whole->pieces->iov_base + from, to - from);
}

// If O_DIRECT would have to copy all of the last request because of its ends, cuts it into head, middle and tail, of
// which only head and tail are copied. Only possible if memory and file are aligned alike.
static void cut_direct(struct chunk_builder *builder) {
    const struct read_request *last = builder->request - 1;
    const struct dataset_file *file = read_request_file(builder->plan->layout, last);
    if (file->direct_memory == 0 || last->piece_count != 1 || last->bytes < DIRECT_CUT_BYTES)
        return;
    struct read_request whole = *last;
    struct iovec piece = *whole.pieces;
    uint64_t block = file->direct_offset;
    uint64_t head = align_up(whole.offset, block) - whole.offset;
    uint64_t middle_end = (whole.offset + whole.bytes) / block * block - whole.offset;
    if (middle_end <= head || (head == 0 && middle_end == whole.bytes) ||
        middle_end - head < DIRECT_CUT_BYTES / 2 ||
        ((uintptr_t)piece.iov_base + head) % file->direct_memory != 0)
        return;
    builder->request--;
    builder->piece--;
    whole.pieces = &piece;
    if (head)
        add_copy(builder, &whole, 0, head);
    add_copy(builder, &whole, head, middle_end);
    if (middle_end < whole.bytes)
        add_copy(builder, &whole, middle_end, whole.bytes);
}

// Bytes from `from` up to `end` of a sample, which lie at `offset`.
static void build_range(struct chunk_builder *builder, uint32_t index, uint64_t offset, uint32_t position,
                        uint64_t from, uint64_t end) {
    const struct chunk_segment *segment = &builder->plan->segments[index];
    uint32_t member = builder->plan->members[position];
    for (uint64_t to; from < end; offset += to - from, from = to) {
        to = end;
        if (to - from > READER_MAX_BYTES)
            to = from + (offset + READER_MAX_BYTES) / CHUNK_CUT * CHUNK_CUT - offset;
        struct read_request *request = start_request(builder, index, offset, position);
        add_part(builder, request, segment, member, from, to);
        cut_direct(builder);
    }
}

// The stretches of a window: those in files are read; of the others, the blocks are needed.
static void build_stretches(struct chunk_builder *builder, uint32_t index, uint32_t position) {
    const struct chunk_segment *segment = &builder->plan->segments[index];
    const uint32_t member = builder->plan->members[position];
    const uint64_t sample = chunk_stored_sample(builder->plan, segment, member);
    for (uint64_t from = 0, to; from < builder->bytes; from = to) {
        const struct chunk_stretch stretch = locate_window(builder, segment, sample, from);
        to = from + stretch.bytes;
        if (stretch.coded)
            chunk_blocks_add(builder->plan, stretch.block, member);
        else
            build_range(builder, index, stretch.offset, position, from, to);
    }
}

// A sample of more than READER_MAX_BYTES, or in several places.
static void build_large(struct chunk_builder *builder, uint32_t index, uint64_t offset, uint32_t position) {
    if (builder->parted)
        build_stretches(builder, index, position);
    else
        build_range(builder, index, offset, position, 0, builder->bytes);
}

// Of a column of blocks: the one that a sample lies in.
static uint32_t block_of(const struct chunk_plan *plan, const struct chunk_segment *segment,
                         uint32_t member) {
    return chunk_index_extent(plan, segment, chunk_stored_sample(plan, segment, member))->file;
}

// Whether its samples lie in files.
static bool is_read(const struct dataset_column *column) {
    return column->kind == COLUMN_EXTENTS || column->kind == COLUMN_BLOCKS || column->kind == COLUMN_WINDOWS;
}

static void start_segment(struct chunk_builder *builder, const struct chunk_segment *segment) {
    builder->in_block = builder->parted = false;
    builder->file = &builder->plan->layout->files[segment->stream->first_file];
}

void chunk_build_segment(struct chunk_builder *builder, uint32_t index, bool merge) {
    const struct chunk_plan *plan = builder->plan;
    const struct chunk_segment *segment = &plan->segments[index];
    struct read_request *open = NULL;
    if (segment->column && !is_read(segment->column)) {
        chunk_make_values(plan, segment);
        return;
    }
    start_segment(builder, segment);
    chunk_blocks_begin(builder->plan);
    const struct chunk_part *part = &plan->parts[segment->part];
    for (uint32_t position = part->first_member; position < part->first_member + part->member_count;
         position++) {
        uint32_t member = plan->members[position];
        if (chunk_is_cached(segment->extents, member)) {
            if (open)
                cut_direct(builder);
            open = NULL; // as below
            continue;
        }
        uint64_t offset = locate(builder, segment, chunk_stored_sample(plan, segment, member));
        if (segment->column)
            fill_up(builder, segment, member);
        if (builder->in_block) {
            if (open)
                cut_direct(builder);
            open = NULL; // as below
            if (builder->bytes)
                chunk_blocks_add(builder->plan, block_of(plan, segment, member), member);
            continue;
        }
        if (builder->bytes == 0 || builder->bytes > READER_MAX_BYTES || builder->parted) {
            if (open)
                cut_direct(builder);
            open = NULL; // a request serves neighbours in plan->members
            build_large(builder, index, offset, position);
            continue;
        }
        // A sample before the end of the open request (another order, overlapping windows) wraps to a huge gap.
        uint64_t gap = open ? offset - (open->offset + open->bytes) : UINT64_MAX;
        if (!merge || gap > READER_SCRATCH_BYTES || open->file != file_number(builder, segment) ||
            open->bytes + gap + builder->bytes > READER_MAX_BYTES ||
            open->piece_count + 2 * segment->extent_count > READER_MAX_PIECES) {
            if (open)
                cut_direct(builder);
            open = start_request(builder, index, offset, position);
        } else if (gap) {
            add_piece(builder, open, reader_scratch, gap);
        }
        add_sample(builder, open, segment, member);
    }
    if (open)
        cut_direct(builder);
    chunk_blocks_end(builder->plan, index);
}

void chunk_build_single(struct chunk_builder *builder, uint32_t index, uint32_t position) {
    const struct chunk_segment *segment = &builder->plan->segments[index];
    uint32_t member = builder->plan->members[position];
    start_segment(builder, segment);
    uint64_t offset = locate(builder, segment, chunk_stored_sample(builder->plan, segment, member));
    add_sample(builder, start_request(builder, index, offset, position), segment, member);
}
