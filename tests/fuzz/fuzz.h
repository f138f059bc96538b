// What the fuzz targets share: one input, taken apart from the front; memory files; and a check that a run left no
// descriptor open. A target is one file with LLVMFuzzerTestOneInput, which libFuzzer calls with each input.
#ifndef FEEDD_TESTS_FUZZ_FUZZ_H
#define FEEDD_TESTS_FUZZ_FUZZ_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "base/scope.h"
#include "base/sizes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What must hold for every input. A failure is a finding.
#define FUZZ_CHECK(condition)                                                                                \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                   \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

// ---- The input ---------------------------------------------------------------------------------------------

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

// Past the end, all bytes are 0.
static inline uint8_t fuzz_byte(struct fuzz_input *input) {
    if (!input->left)
        return 0;
    input->left--;
    return *input->at++;
}

static inline uint32_t fuzz_u16(struct fuzz_input *input) {
    uint32_t low = fuzz_byte(input);
    return low | (uint32_t)fuzz_byte(input) << 8;
}

// Mostly small numbers, but any of 64 bits is possible: one byte, unless its top bits say that more follow.
static inline uint64_t fuzz_number(struct fuzz_input *input) {
    uint8_t first = fuzz_byte(input);
    uint64_t number = first & 0x3f;
    for (unsigned more = (first >> 6 & 3) * 3, i = 0; i < more; i++)
        number = number << 8 | fuzz_byte(input);
    return number;
}

// The next `most` bytes, or as many as there are.
static inline size_t fuzz_bytes(struct fuzz_input *input, const uint8_t **bytes, size_t most) {
    size_t count = min_u64(most, input->left);
    *bytes = input->at;
    input->at += count;
    input->left -= count;
    return count;
}

// Up to the next line feed, NUL or end, as a string; what does not fit is dropped.
static inline char *fuzz_line(struct fuzz_input *input, char *text, size_t room) {
    size_t used = 0;
    for (uint8_t byte; input->left && (byte = fuzz_byte(input)) && byte != '\n';)
        if (used + 1 < room)
            text[used++] = (char)byte;
    text[used] = '\0';
    return text;
}

// A place in a block of structures: a word among the first 256 of a page, mostly one of those that matter, or anywhere.
static inline size_t fuzz_place(struct fuzz_input *input, const uint16_t *pages, size_t count) {
    uint8_t page = fuzz_byte(input);
    if (page >= 0xe0)
        return fuzz_number(input);
    return pages[page % count] * (size_t)4096 + 4 * (size_t)fuzz_byte(input);
}

// Changes `count` places of a block of memory as the input says.
static inline void fuzz_patch(struct fuzz_input *input, uint8_t *memory, size_t bytes, const uint16_t *pages,
                              size_t page_count, uint32_t count) {
    for (; count && input->left; count--) {
        size_t offset = fuzz_place(input, pages, page_count);
        const uint8_t *patch;
        size_t length = fuzz_bytes(input, &patch, fuzz_byte(input) % 17);
        if (length && offset < bytes)
            memcpy(memory + offset, patch, min_u64(length, bytes - offset));
    }
}

// ---- Memory files ------------------------------------------------------------------------------------------

static inline int fuzz_memory_file(void) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0);
    return fd;
}

static inline void fuzz_write(int fd, const void *bytes, size_t count) {
    FUZZ_CHECK(ftruncate(fd, 0) == 0);
    FUZZ_CHECK(pwrite(fd, bytes, count, 0) == (ssize_t)count);
}

// Reopened, as if it were a file with a name.
static inline const char *fuzz_path(int fd, char path[32]) {
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return path;
}

// ---- What a run leaves behind ------------------------------------------------------------------------------

// The lowest free descriptor: the same before and after a run that closes all of its own.
static inline int fuzz_free_descriptor(void) {
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    FUZZ_CHECK(fd >= 0);
    close(fd);
    return fd;
}

#define FUZZ_DESCRIPTORS 64 // more than a target has

static inline uint32_t fuzz_count_descriptors(void) {
    struct pollfd fds[FUZZ_DESCRIPTORS];
    uint32_t count = 0;
    for (int fd = 0; fd < FUZZ_DESCRIPTORS; fd++)
        fds[fd] = (struct pollfd){.fd = fd};
    FUZZ_CHECK(poll(fds, FUZZ_DESCRIPTORS, 0) >= 0);
    for (int fd = 0; fd < FUZZ_DESCRIPTORS; fd++)
        count += !(fds[fd].revents & POLLNVAL);
    return count;
}

#endif
