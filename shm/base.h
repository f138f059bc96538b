// Helpers that every part of feedd uses: scope-bound release, alignment, and errors in words.
//
// Errors are negative errno values; functions whose failure a person has to understand also fill a
// struct error with one sentence. Libraries never log and never exit.
#ifndef FEEDD_SHM_BASE_H
#define FEEDD_SHM_BASE_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(release)         __attribute__((cleanup(release)))
#define MUST_CHECK               __attribute__((warn_unused_result))
#define NO_INLINE                __attribute__((noinline))
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#define CACHE_LINE               64
#define COUNT_OF(array)          (sizeof(array) / sizeof((array)[0]))

// One sentence for people: what, where, what was found, what is wanted. No trailing newline or full stop.
struct error {
    int code; // negative errno, 0 when empty
    char text[512];
};

// Fills `error` (which may be NULL) and yields `code`, so that `return error_set(...)` reads well. A macro,
// so that the compiler and its analyzers see which value comes back.
#define error_set(error, code, ...)                                                                          \
    ({                                                                                                       \
        int error_code = (code);                                                                             \
        error_write(error, error_code, __VA_ARGS__);                                                         \
        error_code;                                                                                          \
    })
void error_write(struct error *error, int code, const char *text, ...) PRINTF_LIKE(3, 4);

// Puts "prefix: " before the sentence that `error` already holds; returns its code.
int error_prefix(struct error *error, const char *format, ...) PRINTF_LIKE(2, 3);

static inline uint64_t align_up(uint64_t value, uint64_t alignment) {
    return (value + alignment - 1) / alignment * alignment;
}

static inline uint64_t divide_up(uint64_t value, uint64_t divisor) {
    return value / divisor + (value % divisor != 0);
}

static inline uint64_t min_u64(uint64_t left, uint64_t right) {
    return left < right ? left : right;
}
static inline uint64_t max_u64(uint64_t left, uint64_t right) {
    return left > right ? left : right;
}

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

// CLOCK_MONOTONIC in nanoseconds: the one clock of every interval and heartbeat in feedd.
uint64_t monotonic_ns(void);

#endif
