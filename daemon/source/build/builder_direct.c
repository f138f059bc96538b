#include "daemon/source/build/builder_direct.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sizes.h"

// Where statx does not say (before Linux 6.1, some filesystems): a page suits every device with blocks of up to 4 KiB.
#define FALLBACK_ALIGNMENT 4096u

static int learn_alignment(struct builder *builder, uint32_t index) {
    struct dataset *dataset = builder->dataset;
    struct dataset_file *file = &dataset->layout->files[index];
    struct statx status = {0};
    file->direct_memory = FALLBACK_ALIGNMENT;
    file->direct_offset = FALLBACK_ALIGNMENT;
    if (statx(dataset->fds[index], "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) != 0 ||
        !(status.stx_mask & STATX_DIOALIGN))
        return 0;
    if (status.stx_dio_mem_align == 0 || status.stx_dio_offset_align == 0)
        return builder_refuse(
            builder, -EOPNOTSUPP, dataset->paths[index],
            "found a filesystem that cannot read this file with O_DIRECT, wanted one that can,"
            " because of io_direct = yes");
    file->direct_memory = status.stx_dio_mem_align;
    file->direct_offset = status.stx_dio_offset_align;
    return 0;
}

int builder_make_direct(struct builder *builder) {
    struct dataset *dataset = builder->dataset;
    for (uint32_t i = 0; i < dataset->layout->file_count; i++) {
        int flags = fcntl(dataset->fds[i], F_GETFL);
        if (flags < 0 || fcntl(dataset->fds[i], F_SETFL, flags | O_DIRECT) != 0)
            return builder_refuse(builder, -errno, dataset->paths[i],
                                  "found a filesystem that refuses O_DIRECT (%s), wanted one that can,"
                                  " because of io_direct = yes",
                                  strerror(errno));
        int err = learn_alignment(builder, i);
        if (err)
            return err;
    }
    return 0;
}

int builder_read_direct(struct builder *builder, const struct source_file *file,
                        const struct dataset_file *direct, void *buffer, size_t bytes, uint64_t offset) {
    const uint64_t from = offset - offset % direct->direct_offset;
    const uint64_t room = align_up(offset + bytes - from, direct->direct_offset);
    AUTO_FREE uint8_t *aligned = NULL;
    uint64_t done = 0;
    if (posix_memalign((void **)&aligned, max_u64(direct->direct_memory, sizeof(void *)), room) != 0)
        return builder_out_of_memory(builder);
    while (done < offset + bytes - from) {
        ssize_t got = pread(file->fd, aligned + done, room - done, (off_t)(from + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return builder_refuse(builder, got < 0 ? -errno : -ENODATA, file->path,
                                  "%zu bytes at offset %" PRIu64 " cannot be read: %s", bytes, offset,
                                  got < 0 ? strerror(errno) : "the file ends there");
        done += (uint64_t)got;
    }
    memcpy(buffer, aligned + offset - from, bytes);
    return 0;
}
