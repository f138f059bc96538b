#include "client/ctl/files_blocks.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "client/ctl/files_fd.h"

struct kept_block {
    TAILQ_ENTRY(kept_block) link;
    uint32_t number;
    uint64_t bytes;
    uint8_t decoded[];
};

// ---- Opening ---------------------------------------------------------------------------------------

static struct index_block block_at(const struct files_blocks *blocks, const struct files_index *index,
                                   uint64_t number) {
    struct index_block block;
    memcpy(&block, (const uint8_t *)index->words + blocks->table + number * sizeof block, sizeof block);
    return block;
}

static int compare(const void *left, const void *right) {
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static void find_groups(struct files_blocks *blocks, const struct files_index *index) {
    uint64_t *groups = blocks->groups, distinct = 0;
    for (uint64_t i = 0; i < blocks->count; i++) {
        const struct index_block block = block_at(blocks, index, i);
        groups[i] = (uint64_t)block.file << 32 | block.first_row;
    }
    qsort(groups, blocks->count, sizeof *groups, compare);
    for (uint64_t i = 0; i < blocks->count; i++)
        if (distinct == 0 || groups[i] != groups[distinct - 1])
            groups[distinct++] = groups[i];
    blocks->group_count = distinct;
}

int files_blocks_open(struct files_blocks *blocks, const struct files_index *index,
                      const struct files_column *column, struct error *error) {
    if (blocks->count) {
        bool same = blocks->table == column->blocks && blocks->count == column->block_count;
        return same ? 0 : error_set(error, -EPROTO, "feedd describes two lists of blocks of one dataset");
    }
    blocks->table = column->blocks;
    blocks->count = column->block_count;
    TAILQ_INIT(&blocks->latest);
    if (!blocks->most_bytes)
        blocks->most_bytes = FILES_BLOCK_MEMORY;
    blocks->groups = calloc(blocks->count, sizeof *blocks->groups);
    blocks->kept = calloc(blocks->count, sizeof(struct kept_block *));
    if (!blocks->groups || !blocks->kept)
        return error_set(error, -ENOMEM, "out of memory");
    find_groups(blocks, index);
    return block_decoder_open(&blocks->decoder, error);
}

static void drop(struct files_blocks *blocks, struct kept_block *kept) {
    TAILQ_REMOVE(&blocks->latest, kept, link);
    blocks->kept[kept->number] = NULL;
    blocks->bytes -= kept->bytes;
    free(kept);
}

void files_blocks_close(struct files_blocks *blocks) {
    struct kept_block *kept, *next;
    if (blocks->count) // otherwise there is no list either
        TAILQ_FOREACH_SAFE(kept, &blocks->latest, link, next)
            drop(blocks, kept);
    block_decoder_close(&blocks->decoder);
    free(blocks->groups);
    free(blocks->kept);
    *blocks = (struct files_blocks){0};
}

// ---- Finding ---------------------------------------------------------------------------------------

// Whether a record batch or row group that begins at `first` has the row.
static bool group_has(const struct files_blocks *blocks, uint32_t file, uint64_t row, uint32_t first) {
    const uint64_t wanted = (uint64_t)file << 32 | row;
    uint64_t low = 0, high = blocks->group_count; // the last group that begins at or before the row
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (blocks->groups[middle] <= wanted)
            low = middle;
        else
            high = middle;
    }
    return row <= UINT32_MAX && blocks->groups[low] == ((uint64_t)file << 32 | first) && first <= row;
}

int files_blocks_find(const struct files_blocks *blocks, const struct files_index *index,
                      const struct files_column *column, uint64_t sample, uint32_t file, uint64_t row,
                      struct files_block_place *place, struct error *error) {
    const struct files_extent extent = files_index_extent(index, column, sample);
    if (extent.file >= blocks->count)
        return error_set(error, -EBADMSG, "feedd's index has no block for sample %" PRIu64, sample);
    const struct index_block block = block_at(blocks, index, extent.file);
    if (block.file != file || !group_has(blocks, file, row, block.first_row))
        return error_set(error, -EBADMSG,
                         "feedd's index has sample %" PRIu64 ", row %" PRIu64
                         " of its file, in a block of another file, record batch or row group",
                         sample, row);
    if (!block_is_sound(&block, INT64_MAX))
        return error_set(error, -EBADMSG,
                         "feedd's index has sample %" PRIu64 " in a block that cannot be decoded", sample);
    if (extent.offset > block.decoded || extent.bytes > block.decoded - extent.offset)
        return error_set(error, -EBADMSG, "feedd's index has sample %" PRIu64 " outside of its block",
                         sample);
    *place = (struct files_block_place){
        .block = block, .number = extent.file, .offset = extent.offset, .bytes = extent.bytes};
    return 0;
}

int files_blocks_at(const struct files_blocks *blocks, const struct files_index *index, uint32_t number,
                    uint64_t offset, uint32_t bytes, struct files_block_place *place, struct error *error) {
    if (number >= blocks->count)
        return error_set(error, -EBADMSG, "feedd's index has a window in a block that does not exist");
    const struct index_block block = block_at(blocks, index, number);
    if (!block_is_sound(&block, INT64_MAX) || offset > block.decoded || bytes > block.decoded - offset)
        return error_set(error, -EBADMSG,
                         "feedd's index has a window outside of its block, or in one that cannot be decoded");
    *place = (struct files_block_place){.block = block, .number = number, .offset = offset, .bytes = bytes};
    return 0;
}

// ---- Decoding --------------------------------------------------------------------------------------

static int read_stored(const struct index_block *block, int fd, const char *path, uint8_t *stored,
                       struct error *error) {
    int err = 0;
    for (uint32_t i = 0; i < BLOCK_RANGES && !err; i++) {
        err = files_fd_read(fd, path, block->stored[i].offset, stored, block->stored[i].bytes, error);
        stored += block->stored[i].bytes;
    }
    return err;
}

static int decode(struct files_blocks *blocks, const struct index_block *block, int fd, const char *path,
                  uint8_t *decoded, struct error *error) {
    const uint64_t scratch = align_up(block_stored_bytes(block), CACHE_LINE);
    AUTO_FREE uint8_t *work = malloc(scratch + block->scratch);
    if (!work)
        return error_set(error, -ENOMEM, "no memory to decode a block");
    int err = read_stored(block, fd, path, work, error);
    if (err)
        return err;
    err = block_decode(&blocks->decoder, block, work, decoded, work + scratch, error);
    if (err)
        error_prefix(error, "cannot verify: %s, offset %" PRIu64, path, block->stored[0].offset);
    return err;
}

int files_blocks_decode(struct files_blocks *blocks, const struct files_block_place *place, int fd,
                        const char *path, const uint8_t **decoded, struct error *error) {
    struct kept_block *kept = blocks->kept[place->number];
    if (kept) {
        TAILQ_REMOVE(&blocks->latest, kept, link);
        TAILQ_INSERT_TAIL(&blocks->latest, kept, link);
        *decoded = kept->decoded;
        return 0;
    }
    while (!TAILQ_EMPTY(&blocks->latest) && blocks->bytes + place->block.decoded > blocks->most_bytes)
        drop(blocks, TAILQ_FIRST(&blocks->latest));
    kept = malloc(sizeof *kept + place->block.decoded);
    if (!kept)
        return error_set(error, -ENOMEM, "no memory for a block of %" PRIu64 " bytes", place->block.decoded);
    int err = decode(blocks, &place->block, fd, path, kept->decoded, error);
    if (err) {
        free(kept);
        return err;
    }
    kept->number = place->number;
    kept->bytes = place->block.decoded;
    blocks->kept[place->number] = kept;
    blocks->bytes += kept->bytes;
    TAILQ_INSERT_TAIL(&blocks->latest, kept, link);
    *decoded = kept->decoded;
    return 0;
}
