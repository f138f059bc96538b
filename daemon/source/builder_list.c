#include "daemon/source/builder_list.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/arrays.h"
#include "daemon/source/builder_files.h"
#include "daemon/source/source_npy.h"

#define AT_ONCE 4096u // numbers

struct list {
    struct source_file file;
    struct array_header header;
    uint64_t of;
    XXH3_state_t *hash;
    int fd;
};

static bool is_integer(uint32_t dtype) {
    return dtype >= DTYPE_U8 && dtype <= DTYPE_I64;
}

static int check_header(struct builder *builder, const struct list *list) {
    const struct array_header *header = &list->header;
    char shape[DATASET_SHAPE_TEXT];
    if (header->dtype == DTYPE_BOOL)
        return builder_refuse(builder, -EINVAL, list->file.path,
                              "found a mask, wanted sample numbers; save numpy.flatnonzero(mask)");
    if (header->dimensions != 1 || !is_integer(header->dtype))
        return builder_refuse(
            builder, -EINVAL, list->file.path, "found %s%s, wanted an array of integers with one dimension",
            dtype_name(header->dtype), dataset_shape_text(header->dimensions, header->shape, shape));
    if (header->shape[0] > LIST_MAX_SAMPLES)
        return builder_refuse(builder, -EFBIG, list->file.path,
                              "found %" PRIu64 " sample numbers, wanted at most %u", header->shape[0],
                              LIST_MAX_SAMPLES);
    return 0;
}

// One integer of that type; those below 0 come out as very large.
static uint64_t number_at(const uint8_t *bytes, uint32_t dtype) {
    uint64_t number = 0;
    memcpy(&number, bytes, dtype_bytes(dtype));
    switch (dtype) {
    case DTYPE_I8:
        return (uint64_t)(int8_t)number;
    case DTYPE_I16:
        return (uint64_t)(int16_t)number;
    case DTYPE_I32:
        return (uint64_t)(int32_t)number;
    default:
        return number;
    }
}

static int refuse_number(struct builder *builder, const struct list *list, uint64_t number, uint64_t place) {
    bool negative = list->header.dtype != DTYPE_U64 && number >> 63;
    return builder_refuse(builder, -ERANGE, list->file.path,
                          "found sample number %s%" PRIu64 " at index %" PRIu64
                          ", wanted numbers from 0 to %" PRIu64,
                          negative ? "-" : "", negative ? -number : number, place, list->of - 1);
}

static int write_all(struct builder *builder, const struct list *list, const void *bytes, size_t count,
                     uint64_t offset) {
    ssize_t wrote = pwrite(list->fd, bytes, count, (off_t)offset);
    if (wrote == (ssize_t)count)
        return 0;
    int err = wrote < 0 ? -errno : -ENOMEM;
    return builder_refuse(builder, err, list->file.path, "cannot keep its sample numbers in memory: %s",
                          strerror(-err));
}

static int copy_some(struct builder *builder, struct list *list, uint64_t place, uint32_t count) {
    uint64_t size = dtype_bytes(list->header.dtype), numbers[AT_ONCE];
    uint8_t bytes[AT_ONCE * sizeof *numbers];
    int err = builder_read(builder, &list->file, bytes, count * size, list->header.data_offset + place * size,
                           "its sample numbers");
    if (err)
        return err;
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = number_at(bytes + i * size, list->header.dtype);
        if (numbers[i] >= list->of)
            return refuse_number(builder, list, numbers[i], place + i);
    }
    XXH3_64bits_update(list->hash, numbers, count * sizeof *numbers);
    return write_all(builder, list, numbers, count * sizeof *numbers,
                     sizeof(struct dataset_list) + place * sizeof *numbers);
}

static int copy(struct builder *builder, struct list *list) {
    const struct dataset_list head = {sizeof head + list->header.shape[0] * sizeof(uint64_t)};
    int err = write_all(builder, list, &head, sizeof head, 0);
    for (uint64_t place = 0; place < list->header.shape[0] && !err; place += AT_ONCE)
        err = copy_some(builder, list, place, (uint32_t)min_u64(AT_ONCE, list->header.shape[0] - place));
    if (!err && fcntl(list->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        err = builder_refuse(builder, -errno, list->file.path,
                             "cannot seal the memory of its sample numbers: %m");
    return err;
}

static int read_list(struct builder *builder, struct list *list) {
    int err = npy_read_header(builder, &list->file, &list->header);
    if (!err)
        err = check_header(builder, list);
    if (!err)
        err = arrays_check_size(builder, &list->file, &list->header);
    if (err)
        return err;
    list->fd = memfd_create("feedd-indices", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    builder->dataset->list_fd = list->fd;
    if (list->fd < 0)
        return builder_refuse(builder, -errno, list->file.path,
                              "cannot allocate memory for its sample numbers: %m");
    list->hash = XXH3_createState();
    if (!list->hash)
        return builder_out_of_memory(builder);
    XXH3_64bits_reset(list->hash);
    return copy(builder, list);
}

int builder_list(struct builder *builder, uint64_t of, struct selection *selection) {
    AUTO_PATHS struct path_list paths = {0};
    struct list list = {.file = SOURCE_FILE_NONE, .of = of, .fd = -1};
    const char *key = builder->key;
    builder->key = "indices";
    int err = builder_expand(builder, builder->config->indices, &paths);
    if (!err && paths.count > 1)
        err = builder_refuse(builder, -EINVAL, NULL, "found %zu files, wanted one", paths.count);
    if (!err)
        err = builder_open(builder, paths.paths[0], &list.file);
    if (!err)
        err = read_list(builder, &list);
    if (!err)
        *selection = (struct selection){.kind = SELECTION_LIST,
                                        .of = of,
                                        .count = list.header.shape[0],
                                        .seed = XXH3_64bits_digest(list.hash)};
    if (!err)
        builder->key = key;
    XXH3_freeState(list.hash);
    source_file_release(&list.file);
    return err;
}
