#include "daemon/source/parquet/parquet_pages.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/source/build/source_read.h"

#define FIRST_HEADER 4096u // more than nearly all have

bool parquet_buffer_grow(struct parquet_buffer *buffer, size_t bytes) {
    if (bytes <= buffer->room)
        return true;
    free(buffer->bytes);
    buffer->bytes = malloc(bytes);
    buffer->room = buffer->bytes ? bytes : 0;
    return buffer->bytes;
}

int parquet_pages_open(struct parquet_pages *pages, const struct parquet_file *file, struct error *error) {
    *pages = (struct parquet_pages){.file = file};
    return block_decoder_open(&pages->decoder, error);
}

void parquet_pages_close(struct parquet_pages *pages) {
    block_decoder_close(&pages->decoder);
    free(pages->stored.bytes);
    free(pages->decoded.bytes);
    pages->stored = pages->decoded = (struct parquet_buffer){0};
}

// ---- Column chunks -------------------------------------------------------------------------------------------

static int find_codec(int32_t number, uint32_t *codec, struct error *error) {
    static const struct {
        const char *name;
        uint32_t codec; // BLOCK_CODECS: not served
    } codecs[] = {{"no codec", BLOCK_PLAIN}, {"snappy", BLOCK_SNAPPY},
                  {"gzip", BLOCK_GZIP},      {"LZO", BLOCK_CODECS},
                  {"brotli", BLOCK_CODECS},  {"the older lz4 of Hadoop", BLOCK_CODECS},
                  {"zstd", BLOCK_ZSTD},      {"lz4", BLOCK_LZ4_RAW}};
    if (number < 0 || number >= (int32_t)COUNT_OF(codecs))
        return error_set(error, -ENOTSUP, "found pages compressed with an unknown codec");
    *codec = codecs[number].codec;
    if (*codec == BLOCK_CODECS)
        return error_set(error, -ENOTSUP,
                         "found pages compressed with %s, wanted snappy, gzip, zstd, lz4 (LZ4_RAW) or none",
                         codecs[number].name);
    return 0;
}

int parquet_pages_begin(struct parquet_pages *pages, const struct parquet_chunk *chunk,
                        const struct parquet_levels *levels, struct error *error) {
    const uint64_t bytes = pages->file->bytes;
    if (chunk->encrypted)
        return error_set(error, -ENOTSUP, "found an encrypted column, wanted one without encryption");
    if (chunk->elsewhere)
        return error_set(error, -ENOTSUP, "found a column that is in another file");
    if (chunk->offset > bytes || chunk->bytes > bytes - chunk->offset)
        return error_set(error, -EINVAL,
                         "found a column of %" PRId64 " bytes at offset %" PRId64 " in a file of %" PRIu64,
                         (int64_t)chunk->bytes, (int64_t)chunk->offset, bytes);
    pages->levels = *levels;
    pages->next = chunk->offset;
    pages->end = chunk->offset + chunk->bytes;
    pages->largest = pages->dictionary = 0;
    return find_codec(chunk->codec, &pages->codec, error);
}

// ---- Pages ---------------------------------------------------------------------------------------------------

// Headers can be long: they may have the largest and the smallest value of the page.
static int read_header(struct parquet_pages *pages, struct error *error) {
    const uint64_t left = pages->end - pages->next;
    for (uint64_t wanted = FIRST_HEADER;; wanted *= 16) {
        const uint64_t some = min_u64(min_u64(wanted, PARQUET_MAX_HEADER), left);
        if (!parquet_buffer_grow(&pages->stored, some))
            return error_set(error, -ENOMEM, "out of memory");
        int err = source_read(pages->file->fd, pages->stored.bytes, some, pages->next, error);
        int got = err ? err : parquet_page_read(pages->stored.bytes, some, &pages->page, error);
        if (got)
            return got < 0 ? got : 0;
        if (some == left || some == PARQUET_MAX_HEADER)
            return error_set(error, -EINVAL, "found a page with a damaged header");
    }
}

// What of the page is never compressed.
static uint32_t level_bytes(const struct parquet_page *page) {
    return page->rep_bytes + page->def_bytes;
}

static bool is_plain(const struct parquet_pages *pages) {
    return pages->codec == BLOCK_PLAIN || !pages->page.compressed;
}

static int decode_body(struct parquet_pages *pages, struct error *error) {
    const struct parquet_page *page = &pages->page;
    const uint32_t levels = level_bytes(page);
    pages->bytes = pages->stored.bytes;
    if (is_plain(pages))
        return page->stored == page->decoded
                   ? 0
                   : error_set(error, -EINVAL, "found a page of %" PRIu32 " bytes, wanted %" PRIu32,
                               page->stored, page->decoded);
    if (!parquet_buffer_grow(&pages->decoded, max_u64(page->decoded, 1)))
        return error_set(error, -ENOMEM, "out of memory");
    pages->bytes = pages->decoded.bytes;
    memcpy(pages->decoded.bytes, pages->stored.bytes, levels);
    if (page->decoded == levels)
        return 0;
    return block_decode_bytes(&pages->decoder, pages->codec, pages->stored.bytes + levels,
                              page->stored - levels, pages->decoded.bytes + levels, page->decoded - levels,
                              error);
}

static int read_body(struct parquet_pages *pages, struct error *error) {
    const struct parquet_page *page = &pages->page;
    if (!parquet_buffer_grow(&pages->stored, max_u64(page->stored, 1)))
        return error_set(error, -ENOMEM, "out of memory");
    int err = source_read(pages->file->fd, pages->stored.bytes, page->stored, pages->stored_at, error);
    if (!err)
        err = decode_body(pages, error);
    if (!err)
        err = parquet_page_split(page, &pages->levels, pages->bytes, &pages->body, error);
    return err;
}

static bool is_wanted(const struct parquet_page *page) {
    return page->kind == PARQUET_DICTIONARY || page->kind == PARQUET_DATA || page->kind == PARQUET_DATA_2;
}

int parquet_pages_next(struct parquet_pages *pages, struct error *error) {
    const struct parquet_page *page = &pages->page;
    do {
        if (pages->next == pages->end)
            return 0;
        pages->header = pages->next;
        int err = read_header(pages, error);
        if (err)
            return err;
        pages->stored_at = pages->header + page->header;
        if (page->stored > pages->end - pages->stored_at)
            return error_set(error, -EINVAL,
                             "found a page of %" PRIu32 " bytes at offset %" PRIu64
                             ", and the end of its column at %" PRIu64,
                             page->stored, pages->stored_at, pages->end);
        pages->next = pages->stored_at + page->stored;
    } while (!is_wanted(page));
    uint64_t *most = page->kind == PARQUET_DICTIONARY ? &pages->dictionary : &pages->largest;
    *most = max_u64(*most, page->decoded);
    int err = read_body(pages, error);
    return err ? err : 1;
}

void parquet_pages_block(const struct parquet_pages *pages, struct index_block *block) {
    const uint32_t levels = level_bytes(&pages->page);
    *block = (struct index_block){.stored[0] = {pages->stored_at + levels, pages->page.stored - levels},
                                  .decoded = pages->page.decoded - levels,
                                  .codec = is_plain(pages) || pages->page.decoded == levels ? BLOCK_PLAIN
                                                                                            : pages->codec};
    if (block->codec == BLOCK_PLAIN)
        block->decoded = block->stored[0].bytes;
}

uint8_t *parquet_pages_take(struct parquet_pages *pages) {
    struct parquet_buffer *from = pages->bytes == pages->decoded.bytes ? &pages->decoded : &pages->stored;
    uint8_t *bytes = from->bytes;
    *from = (struct parquet_buffer){0};
    return bytes;
}
