#include "daemon/source/tokens/megatron_index.h"

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

// By the number that the file has for it. Floats are not tokens.
static uint32_t dtype_of(uint8_t type) {
    static const uint32_t dtypes[] = {
        [1] = DTYPE_U8, [2] = DTYPE_I8, [3] = DTYPE_I16, [4] = DTYPE_I32, [5] = DTYPE_I64, [8] = DTYPE_U16};
    return type < COUNT_OF(dtypes) ? dtypes[type] : 0;
}

static int read_head(struct tables *tables, uint32_t *dtype) {
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
    *dtype = dtype_of(head.type);
    if (!*dtype)
        return builder_refuse(
            builder, -EINVAL, path,
            "found tokens of type %u, wanted 1 to 5 or 8, which are u8, i8, i16, i32, i64, u16", head.type);
    tables->token_bytes = dtype_bytes(*dtype);
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

static int refuse_boundary(const struct tables *tables, uint64_t document, uint64_t sequence) {
    return builder_refuse(tables->builder, -EINVAL, tables->file.path,
                          "found sequence %" PRId64 " where document %" PRIu64
                          " begins, wanted boundaries that rise from"
                          " 0 to the %" PRIu64 " sequences",
                          (int64_t)sequence, document, tables->sequences);
}

// The sequence that each document begins with.
static int read_boundaries(struct tables *tables, uint64_t *starts) {
    const uint64_t last = tables->boundaries - 1;
    for (uint64_t at = 0; at < tables->boundaries; at += AT_ONCE) {
        uint64_t count = min_u64(AT_ONCE, tables->boundaries - at);
        int err = builder_read(tables->builder, &tables->file, starts + at, count * sizeof *starts,
                               tables->documents_at + at * sizeof *starts, "boundaries of documents");
        if (err)
            return err;
        for (uint64_t i = at; i < at + count; i++)
            if (starts[i] > tables->sequences || (i == 0 ? starts[i] != 0 : starts[i] < starts[i - 1]) ||
                (i == last && starts[i] != tables->sequences))
                return refuse_boundary(tables, i, starts[i]);
    }
    return 0;
}

// `next` is the first document whose start is still a sequence. Those that begin with this one begin with that token.
static int start_documents(struct tables *tables, uint64_t sequence, uint64_t token, uint64_t *starts,
                           uint64_t *next) {
    for (; *next < tables->boundaries && starts[*next] == sequence; ++*next) {
        uint64_t tokens = *next ? token - starts[*next - 1] : 0;
        if (tokens > INT32_MAX) // a position is an i32
            return builder_refuse(tables->builder, -EFBIG, tables->file.path,
                                  "found document %" PRIu64 " with %" PRIu64
                                  " tokens, wanted fewer than 2^31",
                                  *next - 1, tokens);
        starts[*next] = token;
    }
    return 0;
}

// Turns sequences into tokens, in place: there may be far more sequences than documents.
static int add_lengths(struct tables *tables, uint64_t *starts, uint64_t *tokens) {
    int32_t lengths[AT_ONCE];
    int64_t offsets[AT_ONCE];
    uint64_t next = 0, end = 0;
    for (uint64_t at = 0; at < tables->sequences; at += AT_ONCE) {
        uint64_t count = min_u64(AT_ONCE, tables->sequences - at);
        int err = builder_read(tables->builder, &tables->file, lengths, count * sizeof *lengths,
                               tables->lengths_at + at * sizeof *lengths, "lengths");
        if (!err)
            err = builder_read(tables->builder, &tables->file, offsets, count * sizeof *offsets,
                               tables->offsets_at + at * sizeof *offsets, "offsets");
        for (uint64_t i = 0; i < count && !err; i++) {
            if (lengths[i] < 0)
                return builder_refuse(tables->builder, -EINVAL, tables->file.path,
                                      "found a length of %" PRId32 " for sequence %" PRIu64
                                      ", wanted 0 or more",
                                      lengths[i], at + i);
            if (offsets[i] < 0 || (uint64_t)offsets[i] != end * tables->token_bytes)
                return refuse_gap(tables, at + i, offsets[i], end * tables->token_bytes);
            err = start_documents(tables, at + i, end, starts, &next);
            end += (uint64_t)lengths[i];
        }
        if (err)
            return err;
    }
    *tokens = end;
    return start_documents(tables, tables->sequences, end, starts, &next);
}

static int read_tables(struct tables *tables, struct documents *documents) {
    documents->starts = calloc(tables->boundaries, sizeof *documents->starts);
    if (!documents->starts)
        return builder_out_of_memory(tables->builder);
    documents->count = tables->boundaries - 1;
    int err = read_boundaries(tables, documents->starts);
    return err ? err : add_lengths(tables, documents->starts, &documents->values);
}

int megatron_index_read(struct builder *builder, const char *path, struct documents *documents,
                        uint32_t *dtype) {
    struct tables tables = {.builder = builder, .file = SOURCE_FILE_NONE};
    int err = builder_open(builder, path, &tables.file);
    if (!err)
        err = read_head(&tables, dtype);
    if (!err)
        err = read_tables(&tables, documents);
    source_file_release(&tables.file);
    return err;
}
