// The files of a dataset of format folder. There may be millions, so nobody holds them open: the dataset's own files
// are the folders that they lie beneath, and its index says, for each sample, which path there is to be opened. In a
// read_request and in reports, the number of a file is that of its sample; in a mix, whose other files have the first
// numbers, and where there may be several such datasets, plus a first number.
#ifndef FEEDD_DAEMON_DATASET_FOLDER_FILE_H
#define FEEDD_DAEMON_DATASET_FOLDER_FILE_H

#include <limits.h>
#include <linux/openat2.h>

#include "base/path_text.h"
#include "daemon/dataset/dataset.h"

// A folder itself: a place to open files from, and nothing that can be read.
int folder_open(const char *path);

// How its files are opened: never through a symbolic link or out of the folder, and without waiting for the other end
// of a FIFO. The index holds paths in which links are resolved.
extern const struct open_how folder_file_how;
// The same, for a place in an io_uring's table of files, which needs no O_CLOEXEC and takes none, and for a path that
// descends. To ensure that a path stays beneath a folder, the kernel counts references to the folder, which all
// loaders share, and cores that share no cache wait for each other.
extern const struct open_how folder_file_how_direct;

// Whether a path can only lead to a place beneath the folder where it begins, if no link is followed. False also for
// names that merely contain two dots.
bool folder_path_descends(const char *path);

// What a process that has the index needs of it.
struct folder_files {
    const struct index_extent
        *extents; // NULL: the dataset is not a folder, or none of its fields reads files
    struct path_text text;
    uint32_t first_number; // that of the first sample's file
    uint32_t first_folder; // which of the layout's files the extents call 0
};

// The two numbers are 0.
struct folder_files folder_files_of(const struct dataset_layout *layout, const uint8_t *index);

// Those that a feed reads from: none, that of its dataset, or those of a mix's sources, in the order of their numbers.
struct folder_set {
    uint32_t count;
    const struct folder_files *of;
};

static inline const struct index_extent *folder_files_extent(const struct folder_files *files,
                                                             uint32_t number) {
    return &files->extents[number - files->first_number];
}

const struct folder_files *folder_set_search(const struct folder_set *set, uint32_t number);

// The folder that has the file with that number. NULL: it is an ordinary file of the layout.
static inline const struct folder_files *folder_set_find(const struct folder_set *set, uint32_t number) {
    return set->count && number >= set->of[0].first_number ? folder_set_search(set, number) : NULL;
}

// A file of a folder.
struct folder_file {
    int folder; // the descriptor where its path begins
    const char *path;
    size_t path_length;
    uint64_t bytes; // that it should have
};

// The file with that number; its path is written to `path`. `first_fd` is the descriptor of the layout's first file.
static inline struct folder_file folder_files_get(const struct folder_files *files, int first_fd,
                                                  uint32_t number, char path[PATH_MAX]) {
    const struct index_extent *extent = folder_files_extent(files, number);
    const size_t length = path_text_get(&files->text, extent->offset, path);
    return (struct folder_file){first_fd + (int)(files->first_folder + extent->file), path, length,
                                extent->bytes};
}

// A descriptor, or negative errno. The kernel follows ".." below a folder only if nothing on the machine is renamed
// meanwhile. -EAGAIN: something was renamed during each of several attempts, or somebody has a lease on the file.
int folder_openat2(int folder, const char *path, const struct open_how *how);

// A descriptor for reading, or negative errno.
int folder_file_open(int folder, const char *path);

// Of a file that was opened by folder_file_how: 0 if it is a regular file of that size, which can be read like any
// other from now on, or negative errno.
int folder_file_check(int fd, uint64_t bytes);

// ... of the size that the file with that number should have.
static inline int folder_files_check(const struct folder_files *files, uint32_t number, int fd) {
    return folder_file_check(fd, folder_files_extent(files, number)->bytes);
}

// Both, of the file that folder_files_get returns.
int folder_files_open(const struct folder_files *files, int first_fd, uint32_t number);

// The sentence for what the functions above and a read return.
const char *folder_file_reason(int code);

// For the daemon, which does not map the index: the extent and path of an existing sample. The path may be empty.
// -ENODATA: no field reads files. Other errors: the index could not be mapped.
int folder_file_find(const struct dataset *dataset, uint64_t number, struct index_extent *extent,
                     char path[PATH_MAX]);

#endif
