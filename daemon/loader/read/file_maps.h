// Read-only maps of a dataset's files, each made when the file is first needed.
//
// Not every file can be mapped: some file systems do not map (FUSE with direct I/O), and both address space and the
// number of maps are limited (RLIMIT_AS, vm.max_map_count). Such a file is refused, once and for all, and the log says
// so. It is as readable as any other file, and is to be read in another way.
#ifndef FEEDD_DAEMON_LOADER_READ_FILE_MAPS_H
#define FEEDD_DAEMON_LOADER_READ_FILE_MAPS_H

#include "daemon/dataset/dataset.h"

enum file_map_state {
    FILE_MAP_UNTRIED,
    FILE_MAP_MADE,
    FILE_MAP_REFUSED, // the file could not be mapped, or not mapped again
};

struct file_map {
    const uint8_t *start; // of FILE_MAP_MADE
    uint64_t bytes;
    enum file_map_state state;
};

struct file_maps {
    const struct dataset_layout *layout;
    int first_fd; // file i is descriptor first_fd + i
    uint32_t made;
    uint32_t made_most;
    int told; // errno of the refusal that the log says most recently
    struct file_map *maps;
};

// Looks up what a confined loader can no longer look up when it opens maps.
void file_maps_prepare(void);

// -ENOMEM.
int file_maps_open(struct file_maps *maps, const struct dataset_layout *layout, int first_fd);
void file_maps_close(struct file_maps *maps);

// Tries to map a file that is FILE_MAP_UNTRIED.
void file_maps_try(struct file_maps *maps, uint32_t file);

// The file's map; NULL: it is refused.
static inline const struct file_map *file_maps_find(struct file_maps *maps, uint32_t file) {
    const struct file_map *map = &maps->maps[file];
    if (map->state == FILE_MAP_UNTRIED)
        file_maps_try(maps, file);
    return map->state == FILE_MAP_MADE ? map : NULL;
}

// Maps all files again, at the same addresses: the page tables start afresh. True if some can no longer be mapped; they
// are refused from now on, and their addresses are no longer valid.
bool file_maps_renew(struct file_maps *maps);

#endif
