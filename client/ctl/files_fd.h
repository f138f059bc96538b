// Reading parts of files, for feedctl read --verify.
#ifndef FEEDD_CLIENT_CTL_FILES_FD_H
#define FEEDD_CLIENT_CTL_FILES_FD_H

#include "base/error.h"

// Reads all `count` bytes at that offset. `path` is for the sentence.
int files_fd_read(int fd, const char *path, uint64_t offset, void *bytes, size_t count, struct error *error);

#endif
