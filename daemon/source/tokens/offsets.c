#include "daemon/source/tokens/offsets.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_index.h"
#include "daemon/source/build/builder_vector.h"
#include "daemon/source/source_npy.h"

static int check_header(struct builder *builder, const struct vector *vector) {
    const struct array_header *header = &vector->header;
    const char *path = vector->file.path;
    char shape[DATASET_SHAPE_TEXT];
    bool takes = header->dtype >= DTYPE_U32 && header->dtype <= DTYPE_I64;
    if (header->dimensions != 1 || !takes)
        return builder_refuse(
            builder, -EINVAL, path, "found %s%s, wanted an array of u32, i32, u64 or i64 with one dimension",
            dtype_name(header->dtype), dataset_shape_text(header->dimensions, header->shape, shape));
    if (header->shape[0] < 2)
        return builder_refuse(builder, -EINVAL, path,
                              "found %" PRIu64
                              " offset%s, wanted at least 2: one more than there are samples",
                              header->shape[0], header->shape[0] == 1 ? "" : "s");
    uint64_t most = builder->config->pack ? INT32_MAX : INDEX_MAX_SAMPLES;
    if (header->shape[0] - 1 > most)
        return builder_refuse(builder, -EFBIG, path, "found %" PRIu64 " offsets, wanted at most %" PRIu64,
                              header->shape[0], most + 1);
    return arrays_check_size(builder, &vector->file, header);
}

// Of that type; those below 0 come out as very large.
static uint64_t number_of(uint64_t word, uint32_t dtype) {
    return dtype == DTYPE_I32 ? (uint64_t)(int32_t)word : word;
}

static int refuse_offset(struct builder *builder, const struct vector *vector, uint64_t offset,
                         uint64_t place, uint64_t least, uint64_t most) {
    bool negative = vector->header.dtype != DTYPE_U64 && offset >> 63;
    return builder_refuse(builder, -ERANGE, vector->file.path,
                          "found offset %s%" PRIu64 " at index %" PRIu64 ", wanted at least %" PRIu64
                          " and at most %" PRIu64 ": offsets that do not fall, within the values of the file",
                          negative ? "-" : "", negative ? -offset : offset, place, least, most);
}

// Checks them, and turns them into distances from the first one.
static int read_all(struct builder *builder, const struct vector *vector, uint64_t values,
                    struct documents *documents, uint64_t *first) {
    uint64_t last = 0, *starts = documents->starts;
    for (uint64_t place = 0; place <= documents->count; place += VECTOR_AT_ONCE) {
        uint64_t words[VECTOR_AT_ONCE];
        uint32_t count = (uint32_t)min_u64(VECTOR_AT_ONCE, documents->count + 1 - place);
        int err = builder_vector_read(builder, vector, place, count, words);
        for (uint32_t i = 0; i < count && !err; i++) {
            uint64_t offset = number_of(words[i], vector->header.dtype);
            if (offset < last || offset > values)
                return refuse_offset(builder, vector, offset, place + i, last, values);
            if (place + i == 0)
                *first = offset;
            starts[place + i] = offset - *first;
            last = offset;
        }
        if (err)
            return err;
    }
    documents->values = last - *first;
    return 0;
}

int offsets_read(struct builder *builder, const char *path, uint64_t values, struct documents *documents,
                 uint64_t *first) {
    AUTO_VECTOR struct vector vector = {.what = "offsets", .file = SOURCE_FILE_NONE};
    int err = builder_open(builder, path, &vector.file);
    if (!err)
        err = npy_read_header(builder, &vector.file, &vector.header);
    if (!err)
        err = check_header(builder, &vector);
    if (err)
        return err;
    documents->count = vector.header.shape[0] - 1;
    // NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): there are at least 2, as check_header has seen
    documents->starts = calloc(documents->count + 1, sizeof *documents->starts);
    if (!documents->starts)
        return builder_out_of_memory(builder);
    return read_all(builder, &vector, values, documents, first);
}
