#include "daemon/source/megatron_index.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"

#define AT_ONCE 4096u // numbers

static const uint8_t magic[9] = "MMIDIDX\0";

struct head {
    uint8_t magic[9];
    uint8_t version[8];
    uint8_t type;
    uint8_t sequences[8];
    uint8_t boundaries[8]; // one more than there are documents
};
_Static_assert(sizeof(struct head) == 34, "as it lies in the file");

// The file's arrays, and how far they have been read.
struct tables {
    struct builder *builder;
    struct source_file file;
    uint64_t sequences, boundaries;
    uint64_t lengths_at, offsets_at, documents_at;
    uint64_t token_bytes;
};

static uint64_t load(const uint8_t bytes[8]) {
    uint64_t number;
    memcpy(&number, bytes, sizeof number); // little-endian, as this machine is
    return number;
}

// By the number that the file has for it. Floats are no tokens.
static uint32_t dtype_of(uint8_t type) {
    static const uint32_t dtypes[] = {
        [1] = DTYPE_U8, [2] = DTYPE_I8, [3] = DTYPE_I16, [4] = DTYPE_I32, [5] = DTYPE_I64, [8] = DTYPE_U16};
    return type < COUNT_OF(dtypes) ? dtypes[type] : 0;
}

static int read_head(struct tables *tables, struct megatron_index *index) {
    struct builder *builder = tables->builder;
    const char *path = tables->file.path;
    struct head head;
    int err = builder_read(builder, &tables->file, &head, sizeof head, 0, "the head of an index");
    if (err)
        return err;
    if (memcmp(head.magic, magic, sizeof magic) != 0)
        return builder_refuse(builder, -EINVAL, path,
                              "found no Megatron index, wanted one that begins with MMIDIDX");
    if (load(head.version) != 1)
        return builder_refuse(builder, -EINVAL, path, "found version %" PRIu64 ", wanted 1",
                              load(head.version));
    index->dtype = dtype_of(head.type);
    if (!index->dtype)
        return builder_refuse(
            builder, -EINVAL, path,
            "found tokens of type %u, wanted 1 to 5 or 8, which are u8, i8, i16, i32, i64, u16", head.type);
    tables->token_bytes = dtype_bytes(index->dtype);
    tables->sequences = load(head.sequences);
    tables->boundaries = load(head.boundaries);
    uint64_t wanted, left = tables->file.size - sizeof head;
    if (__builtin_mul_overflow(tables->sequences, (uint64_t)12, &wanted) || wanted > left ||
        tables->boundaries != (left - wanted) / 8 || (left - wanted) % 8 || tables->boundaries == 0)
        return builder_refuse(builder, -EINVAL, path,
                              "found %" PRIu64 " bytes, wanted 34, 12 for each of %" PRIu64
                              " sequences, and 8 for each"
                              " of %" PRIu64 " boundaries of documents",
                              tables->file.size, tables->sequences, tables->boundaries);
    tables->lengths_at = sizeof head;
    tables->offsets_at = tables->lengths_at + 4 * tables->sequences;
    tables->documents_at = tables->offsets_at + 8 * tables->sequences;
    if (tables->boundaries < 2)
        return builder_refuse(builder, -ENODATA, path, "found no documents, wanted at least one");
    if (tables->boundaries - 1 > INT32_MAX)
        return builder_refuse(builder, -EFBIG, path, "found %" PRIu64 " documents, wanted fewer than 2^31",
                              tables->boundaries - 1);
    return 0;
}

static int refuse_gap(const struct tables *tables, uint64_t sequence, int64_t found, uint64_t wanted) {
    return builder_refuse(tables->builder, -EINVAL, tables->file.path,
                          "found sequence %" PRIu64 " at offset %" PRId64 ", wanted %" PRIu64
                          ": sequences that follow each other without gaps",
                          sequence, found, wanted);
}

// The ends of sequences, in tokens, become ends[1..sequences].
static int add_lengths(struct tables *tables, uint64_t *ends) {
    int32_t lengths[AT_ONCE];
    int64_t offsets[AT_ONCE];
    for (uint64_t at = 0; at < tables->sequences; at += AT_ONCE) {
        uint64_t count = min_u64(AT_ONCE, tables->sequences - at);
        int err = builder_read(tables->builder, &tables->file, lengths, count * sizeof *lengths,
                               tables->lengths_at + at * sizeof *lengths, "lengths");
        if (!err)
            err = builder_read(tables->builder, &tables->file, offsets, count * sizeof *offsets,
                               tables->offsets_at + at * sizeof *offsets, "offsets");
        for (uint64_t i = 0; i < count && !err; i++) {
            if (lengths[i] < 0)
                err =
                    builder_refuse(tables->builder, -EINVAL, tables->file.path,
                                   "found a length of %" PRId32 " for sequence %" PRIu64 ", wanted 0 or more",
                                   lengths[i], at + i);
            else if (offsets[i] < 0 || (uint64_t)offsets[i] != ends[at + i] * tables->token_bytes)
                err = refuse_gap(tables, at + i, offsets[i], ends[at + i] * tables->token_bytes);
            else
                ends[at + i + 1] = ends[at + i] + (uint64_t)lengths[i];
        }
        if (err)
            return err;
    }
    return 0;
}

static int refuse_boundary(const struct tables *tables, uint64_t document, int64_t sequence) {
    return builder_refuse(tables->builder, -EINVAL, tables->file.path,
                          "found sequence %" PRId64 " where document %" PRIu64
                          " begins, wanted boundaries that rise from"
                          " 0 to the %" PRIu64 " sequences",
                          sequence, document, tables->sequences);
}

// From boundaries in sequences to starts in tokens.
static int add_documents(struct tables *tables, const uint64_t *ends, uint64_t *starts) {
    int64_t firsts[AT_ONCE], last = 0;
    for (uint64_t at = 0; at < tables->boundaries; at += AT_ONCE) {
        uint64_t count = min_u64(AT_ONCE, tables->boundaries - at);
        int err = builder_read(tables->builder, &tables->file, firsts, count * sizeof *firsts,
                               tables->documents_at + at * sizeof *firsts, "boundaries of documents");
        for (uint64_t i = 0; i < count && !err; i++) {
            bool outer = at + i == 0 || at + i + 1 == tables->boundaries;
            bool right = at + i == 0 ? firsts[i] == 0 : (uint64_t)firsts[i] == tables->sequences;
            if (firsts[i] < last || (uint64_t)firsts[i] > tables->sequences || (outer && !right))
                return refuse_boundary(tables, at + i, firsts[i]);
            last = firsts[i];
            starts[at + i] = ends[last];
            if (at + i && starts[at + i] - starts[at + i - 1] > INT32_MAX) // a position is an i32
                return builder_refuse(tables->builder, -EFBIG, tables->file.path,
                                      "found document %" PRIu64 " with %" PRIu64
                                      " tokens, wanted fewer than 2^31",
                                      at + i - 1, starts[at + i] - starts[at + i - 1]);
        }
        if (err)
            return err;
    }
    return 0;
}

static int read_tables(struct tables *tables, struct megatron_index *index) {
    AUTO_FREE uint64_t *ends = calloc(tables->sequences + 1, sizeof *ends);
    index->starts = calloc(tables->boundaries, sizeof *index->starts);
    if (!ends || !index->starts)
        return builder_out_of_memory(tables->builder);
    int err = add_lengths(tables, ends);
    if (!err)
        err = add_documents(tables, ends, index->starts);
    index->documents = tables->boundaries - 1;
    index->tokens = ends[tables->sequences];
    return err;
}

int megatron_index_read(struct builder *builder, const char *path, struct megatron_index *index) {
    struct tables tables = {.builder = builder, .file = SOURCE_FILE_NONE};
    *index = (struct megatron_index){0};
    int err = builder_open(builder, path, &tables.file);
    if (!err)
        err = read_head(&tables, index);
    if (!err)
        err = read_tables(&tables, index);
    source_file_release(&tables.file);
    return err;
}

void megatron_index_release(struct megatron_index *index) {
    free(index->starts);
    index->starts = NULL;
}
