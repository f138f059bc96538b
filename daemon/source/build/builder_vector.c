#include "daemon/source/build/builder_vector.h"

#include <string.h>

#include "base/dtype.h"
#include "daemon/source/source_npy.h"

void vector_release(struct vector *vector) {
    source_file_release(&vector->file);
}

int builder_vector_open(struct builder *builder, const char *path, struct vector *vector) {
    AUTO_PATHS struct path_list paths = {0};
    int err = builder_expand(builder, path, &paths);
    if (!err && paths.count > 1)
        err = builder_refuse(builder, -EINVAL, NULL, "found %zu files, wanted one", paths.count);
    if (!err)
        err = builder_open(builder, paths.paths[0], &vector->file);
    return err ? err : npy_read_header(builder, &vector->file, &vector->header);
}

int builder_vector_read(struct builder *builder, const struct vector *vector, uint64_t place, uint32_t count,
                        uint64_t *words) {
    uint64_t size = dtype_bytes(vector->header.dtype);
    uint8_t bytes[VECTOR_AT_ONCE * sizeof *words];
    int err = builder_read(builder, &vector->file, bytes, count * size,
                           vector->header.data_offset + place * size, vector->what);
    memset(words, 0, count * sizeof *words);
    for (uint32_t i = 0; i < count && !err; i++)
        memcpy(&words[i], bytes + i * size, size);
    return err;
}
