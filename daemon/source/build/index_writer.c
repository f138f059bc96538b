#include "daemon/source/build/index_writer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/sizes.h"
#include "daemon/dataset/index_memory.h"
#include "daemon/source/source.h"

int index_writer_open(struct index_writer *writer, struct builder *builder, uint64_t samples) {
    struct dataset *dataset = builder->dataset;
    const struct dataset_index head = {dataset->layout->index_bytes, samples};
    writer->builder = builder;
    writer->written = writer->used = 0;
    writer->hash = XXH3_createState();
    if (!writer->hash)
        return builder_out_of_memory(builder);
    XXH3_64bits_reset(writer->hash);
    dataset->index_fd = memfd_create("feedd-index", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (dataset->index_fd < 0)
        return builder_refuse(builder, -errno, NULL, "cannot allocate memory for the index: %m");
    return index_write(writer, &head, sizeof head);
}

static int flush(struct index_writer *writer) {
    XXH3_64bits_update(writer->hash, writer->buffer, writer->used);
    int fd = writer->builder->dataset->index_fd;
    ssize_t wrote = pwrite(fd, writer->buffer, writer->used, (off_t)writer->written);
    if (wrote != (ssize_t)writer->used) {
        int err = wrote < 0 ? -errno : -ENOMEM;
        return builder_refuse(writer->builder, err, NULL, "cannot keep the index in memory: %s",
                              strerror(-err));
    }
    writer->written += writer->used;
    writer->used = 0;
    atomic_fetch_add_explicit(&source_progress, 1, memory_order_relaxed);
    return 0;
}

int index_write(struct index_writer *writer, const void *bytes, size_t count) {
    int err = writer->used + count > sizeof writer->buffer ? flush(writer) : 0;
    if (err)
        return err;
    memcpy(writer->buffer + writer->used, bytes, count);
    writer->used += count;
    return 0;
}

int index_align(struct index_writer *writer) {
    static const uint8_t zeros[8];
    uint64_t end = writer->written + writer->used;
    return index_write(writer, zeros, align_up(end, sizeof zeros) - end);
}

int index_writer_finish(struct index_writer *writer) {
    struct dataset *dataset = writer->builder->dataset;
    int err = flush(writer);
    if (!err &&
        fcntl(dataset->index_fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        err = builder_refuse(writer->builder, -errno, NULL, "cannot seal the memory of the index: %m");
    dataset->layout->index_hash = XXH3_64bits_digest(writer->hash);
    if (!err)
        index_memory_share(&dataset->index_fd, writer->written, dataset->layout->index_hash);
    return err;
}

void index_writer_close(struct index_writer *writer) {
    XXH3_freeState(writer->hash);
    writer->hash = NULL;
}
