// The folders that measurements read: file i of a folder is i / 1000, as a directory, and i % 1000 in it.
#ifndef FEEDD_BENCH_FOLDER_H
#define FEEDD_BENCH_FOLDER_H

#include <stdint.h>
#include <stdio.h>

#define FOLDER_FILES 1000u // in a directory
#define FOLDER_PATH  32u

static inline const char *folder_path(uint64_t file, char path[FOLDER_PATH]) {
    snprintf(path, FOLDER_PATH, "%05llu/%03llu.jpg", (unsigned long long)(file / FOLDER_FILES),
             (unsigned long long)(file % FOLDER_FILES));
    return path;
}

#endif
