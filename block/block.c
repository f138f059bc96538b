#include "block/block.h"

#include "base/sizes.h"

uint64_t block_reads(const struct index_block *block) {
    uint64_t reads = 0;
    for (uint32_t i = 0; i < BLOCK_RANGES; i++)
        reads += divide_up(block->stored[i].bytes, BLOCK_READ_BYTES);
    return reads;
}

struct block_work block_work(const struct index_block *block) {
    struct block_work work = {.stored = align_up(block_reads(block) * BLOCK_READ_ROOM, CACHE_LINE)};
    work.scratch = work.stored + align_up(block_stored_bytes(block), CACHE_LINE);
    work.bytes = work.scratch + align_up(block->scratch, CACHE_LINE);
    return work;
}

uint64_t block_room(const struct index_block *block) {
    return align_up(block->decoded, CACHE_LINE);
}

static bool range_is_sound(const struct block_range *range, uint64_t file_bytes) {
    return range->offset <= file_bytes && range->bytes <= file_bytes - range->offset &&
           range->bytes <= BLOCK_MAX_BYTES;
}

bool block_is_sound(const struct index_block *block, uint64_t file_bytes) {
    for (uint32_t i = 0; i < BLOCK_RANGES; i++)
        if (!range_is_sound(&block->stored[i], file_bytes))
            return false;
    if (block->codec == BLOCK_PLAIN)
        return block->decoded == block->stored[0].bytes;
    return block->codec < BLOCK_CODECS && block->stored[0].bytes && block->decoded &&
           block->decoded <= BLOCK_MAX_BYTES && block->scratch <= BLOCK_MAX_BYTES;
}

const char *block_codec_name(uint32_t codec) {
    static const char *const names[BLOCK_CODECS] = {"no codec", "lz4",  "zstd",   "snappy",
                                                    "lz4",      "gzip", "parquet"};
    return codec < BLOCK_CODECS ? names[codec] : "an unknown codec";
}
