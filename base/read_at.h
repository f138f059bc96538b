// Reads that are repeated until all bytes have arrived.
#ifndef FEEDD_BASE_READ_AT_H
#define FEEDD_BASE_READ_AT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Reads up to `bytes` bytes into `memory`. Returns how many, fewer only if the file ends first, or a negative errno.
ssize_t read_at(int fd, void *memory, size_t bytes, uint64_t offset);

#endif
