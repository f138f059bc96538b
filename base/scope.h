// Releases that follow the scope, and the attributes of functions. Attributes of the compiler, spelled once.
#ifndef FEEDD_BASE_SCOPE_H
#define FEEDD_BASE_SCOPE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(release)         __attribute__((cleanup(release)))
#define MUST_CHECK               __attribute__((warn_unused_result))
#define NO_INLINE                __attribute__((noinline))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))

static inline void close_fd(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static inline void free_pointer(void *pointer) {
    free(*(void **)pointer);
}

static inline void close_file(FILE **file) {
    if (*file)
        fclose(*file);
}

#define AUTO_CLOSE  CLEANUP(close_fd)
#define AUTO_FREE   CLEANUP(free_pointer)
#define AUTO_FCLOSE CLEANUP(close_file)

#endif
