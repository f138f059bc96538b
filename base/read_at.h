// Reads of files that are repeated until all bytes have come.
#ifndef FEEDD_BASE_READ_AT_H
#define FEEDD_BASE_READ_AT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// How many of `bytes` bytes the file has there, which are then in `memory`: fewer only if it ends before. Or a negative
// errno.
ssize_t read_at(int fd, void *memory, size_t bytes, uint64_t offset);

#endif
