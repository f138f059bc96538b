// Creates a file of pseudo-random bytes, the same on every machine for the same size: bench_gen [--numbered] FILE
// BYTES. The file appears under its name only when it is complete. --numbered: each word tells its position in the
// file.
#include <fcntl.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "bench/bench.h"
#include "bench/gpu/content.h"

#define BLOCK_BYTES (4u << 20)

static void fill(uint64_t *block, uint64_t number) {
    uint64_t state = number * 0xd1342543de82ef95u + 1;
    for (size_t i = 0; i < BLOCK_BYTES / sizeof(*block); i++)
        block[i] = bench_mix(&state);
}

static void fill_numbered(uint64_t *block, uint64_t number) {
    uint64_t words = BLOCK_BYTES / sizeof(*block);
    for (uint64_t i = 0; i < words; i++)
        block[i] = content_word(number * words + i);
}

static void write_all(int fd, const char *path, const uint8_t *bytes, size_t count) {
    while (count > 0) {
        ssize_t written = write(fd, bytes, count);
        if (written < 0)
            bench_die(path, errno);
        bytes += written;
        count -= (size_t)written;
    }
}

int main(int argc, char **argv) {
    bool numbered = argc > 1 && strcmp(argv[1], "--numbered") == 0;
    if (argc != 3 + numbered) {
        fprintf(stderr, "usage: %s [--numbered] FILE BYTES\n", argv[0]);
        return 2;
    }
    argv += numbered;
    uint64_t bytes = bench_number("BYTES", argv[2]);
    static uint64_t block[BLOCK_BYTES / sizeof(uint64_t)];
    AUTO_FREE char *partial = NULL;
    if (asprintf(&partial, "%s.partial", argv[1]) < 0)
        bench_die("memory", ENOMEM);
    AUTO_CLOSE int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        bench_die(partial, errno);
    for (uint64_t number = 0; number * BLOCK_BYTES < bytes; number++) {
        if (numbered)
            fill_numbered(block, number);
        else
            fill(block, number);
        write_all(fd, partial, (const uint8_t *)block, min_u64(BLOCK_BYTES, bytes - number * BLOCK_BYTES));
    }
    if (fdatasync(fd) < 0 || rename(partial, argv[1]) < 0)
        bench_die(argv[1], errno);
    return 0;
}
