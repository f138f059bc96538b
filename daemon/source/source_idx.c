#include "daemon/source/source_idx.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/arrays.h"

static int read_type(struct builder *builder, const struct source_file *file, uint8_t type, uint32_t *dtype) {
    static const struct {
        uint8_t type;
        const char *name;
    } swapped[] = {{0x0b, "i16"}, {0x0c, "i32"}, {0x0d, "f32"}, {0x0e, "f64"}};
    *dtype = type == 0x08 ? DTYPE_U8 : type == 0x09 ? DTYPE_I8 : 0;
    if (*dtype)
        return 0;
    for (size_t i = 0; i < COUNT_OF(swapped); i++)
        if (swapped[i].type == type)
            return builder_refuse(
                builder, -ENOTSUP, file->path,
                "found big-endian %s (idx type 0x%02x), wanted u8 or i8 (0x08, 0x09); convert the file"
                " to format npy or records",
                swapped[i].name, type);
    return builder_refuse(builder, -EINVAL, file->path,
                          "found idx type 0x%02x, wanted 0x08 (u8) or 0x09 (i8)", type);
}

static int check_magic(struct builder *builder, const struct source_file *file, const uint8_t magic[4]) {
    const char *compression = builder_compression(magic);
    if (compression)
        return builder_refuse(builder, -EINVAL, file->path,
                              "found %s data, wanted an idx file; unpack it first", compression);
    if (magic[0] || magic[1])
        return builder_refuse(
            builder, -EINVAL, file->path,
            "found %02x %02x %02x %02x at its start, wanted an idx header, which starts with 00 00", magic[0],
            magic[1], magic[2], magic[3]);
    return 0;
}

static int read_header(struct builder *builder, const struct source_file *file, struct array_header *header) {
    uint8_t magic[4], sizes[1 + RING_MAX_DIMS][4];
    int err = builder_read(builder, file, magic, sizeof magic, 0, "an idx header");
    if (!err)
        err = check_magic(builder, file, magic);
    if (!err)
        err = read_type(builder, file, magic[2], &header->dtype);
    if (!err)
        err = arrays_check_dimensions(builder, file, magic[3]);
    if (!err)
        err = builder_read(builder, file, sizes, magic[3] * sizeof sizes[0], sizeof magic, "an idx header");
    if (err)
        return err;
    header->dimensions = magic[3];
    header->data_offset = sizeof magic + header->dimensions * sizeof sizes[0];
    for (uint32_t i = 0; i < header->dimensions; i++)
        header->shape[i] = (uint32_t)sizes[i][0] << 24 | (uint32_t)sizes[i][1] << 16 |
                           (uint32_t)sizes[i][2] << 8 | sizes[i][3];
    return 0;
}

static int open_idx(struct builder *builder) {
    return arrays_open(builder, read_header);
}

const struct source_format source_idx = {
    .name = "idx",
    .summary = "arrays of bytes as MNIST has them, one file a field",
    .open = open_idx,
};
