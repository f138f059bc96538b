#include "daemon/dataset/folder_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FLAGS   (O_RDONLY | O_NONBLOCK | O_NOCTTY)
#define NO_LINK (RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
#define RESOLVE (RESOLVE_BENEATH | NO_LINK)

#define OPEN_ATTEMPTS 32

const struct open_how folder_file_how = {.flags = FLAGS | O_CLOEXEC, .resolve = RESOLVE};
const struct open_how folder_file_how_direct = {.flags = FLAGS, .resolve = NO_LINK};

bool folder_path_descends(const char *path) {
    return path[0] != '/' && !strstr(path, "..");
}

int folder_open(const char *path) {
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static const struct dataset_column *find_column(const struct dataset_layout *layout) {
    for (uint32_t i = 0; layout->folder_count && i < layout->column_count && i < RING_MAX_FIELDS; i++)
        if (layout->columns[i].kind == COLUMN_EXTENTS)
            return &layout->columns[i];
    return NULL;
}

struct folder_files folder_files_of(const struct dataset_layout *layout, const uint8_t *index) {
    const struct dataset_column *column = index ? find_column(layout) : NULL;
    if (!column)
        return (struct folder_files){0};
    return (struct folder_files){
        .extents = (const struct index_extent *)(const void *)(index + column->offset),
        .text = {index + layout->text_offset, layout->text_bytes},
    };
}

const struct folder_files *folder_set_search(const struct folder_set *set, uint32_t number) {
    uint32_t low = 0, high = set->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (set->of[middle].first_number <= number)
            low = middle;
        else
            high = middle;
    }
    return &set->of[low];
}

int folder_openat2(int folder, const char *path, const struct open_how *how) {
    int fd, attempts = 0;
    do
        fd = (int)syscall(SYS_openat2, folder, path, how, sizeof *how);
    while (fd < 0 && errno == EAGAIN && ++attempts < OPEN_ATTEMPTS);
    return fd < 0 ? -errno : fd;
}

int folder_file_open(int folder, const char *path) {
    return folder_openat2(folder, path, &folder_file_how);
}

// Not by the C library, which makes fstat a call with a path: a confined loader may not use that.
static int status_of(int fd, struct stat *status) {
#ifdef SYS_fstat
    return (int)syscall(SYS_fstat, fd, status);
#else
    return fstat(fd, status);
#endif
}

int folder_file_check(int fd, uint64_t bytes) {
    struct stat status;
    if (status_of(fd, &status) < 0)
        return -errno;
    if (S_ISDIR(status.st_mode))
        return -EISDIR;
    if (!S_ISREG(status.st_mode))
        return -ENXIO;
    if ((uint64_t)status.st_size != bytes)
        return -ESTALE;
    // With O_NONBLOCK, some kernels and filesystems would answer "try again" indefinitely.
    return fcntl(fd, F_SETFL, 0) < 0 ? -errno : 0;
}

int folder_files_open(const struct folder_files *files, int first_fd, uint32_t number) {
    char path[PATH_MAX];
    const struct folder_file file = folder_files_get(files, first_fd, number, path);
    int fd = folder_file_open(file.folder, file.path);
    int err = fd < 0 ? fd : folder_file_check(fd, file.bytes);
    if (!err)
        return fd;
    if (fd >= 0)
        close(fd);
    return err;
}

const char *folder_file_reason(int code) {
    switch (-code) {
    case ENOENT:
    case ENOTDIR:
        return "the file is gone";
    case EACCES:
        return "the daemon's user cannot read it, or it is a folder now";
    case EISDIR:
        return "it is a folder now";
    case ENXIO:
        return "it is a FIFO, a socket or a device now";
    case ELOOP:
        return "it, or a folder on the way to it, is a symbolic link now";
    case EXDEV:
        return "its path leads out of the folder";
    case ESTALE:
    case ENODATA:
        return "its size has changed since the folder was indexed";
    default:
        return strerror(-code);
    }
}

int folder_file_find(const struct dataset *dataset, uint64_t number, struct index_extent *extent,
                     char path[PATH_MAX]) {
    const struct dataset_layout *layout = dataset->layout;
    if (!layout->index_bytes)
        return -ENODATA;
    const uint8_t *index = mmap(NULL, layout->index_bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    if (index == MAP_FAILED)
        return -errno;
    const struct folder_files files = folder_files_of(layout, index);
    if (files.extents) {
        *extent = files.extents[number];
        path_text_get(&files.text, extent->offset, path);
    }
    munmap((void *)index, layout->index_bytes);
    return files.extents ? 0 : -ENODATA;
}
