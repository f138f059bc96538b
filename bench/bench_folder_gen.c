// Creates a folder of FILES files of BYTES bytes each: bench_folder_gen FOLDER FILES BYTES. It appears under its name
// only when it is complete.
#include <fcntl.h>
#include <sys/stat.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "bench/bench.h"
#include "bench/folder.h"

static void make_file(int folder, uint64_t number, uint8_t *bytes, uint64_t count) {
    char path[FOLDER_PATH];
    folder_path(number, path);
    uint64_t state = number + 1;
    for (uint64_t at = 0; at < count; at += 4096)
        bytes[at] = (uint8_t)bench_mix(&state);
    AUTO_CLOSE int fd = openat(folder, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, bytes, count) != (ssize_t)count)
        bench_die(path, errno);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s FOLDER FILES BYTES\n", argv[0]);
        return 2;
    }
    uint64_t files = bench_number("FILES", argv[2]), bytes = bench_number("BYTES", argv[3]);
    AUTO_FREE uint8_t *content = calloc(1, bytes + 1);
    AUTO_FREE char *partial = NULL;
    if (!content || asprintf(&partial, "%s.partial", argv[1]) < 0)
        bench_die("memory", ENOMEM);
    if (mkdir(partial, 0755) < 0)
        bench_die(partial, errno);
    AUTO_CLOSE int folder = open(partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (uint64_t i = 0; i < files; i++) {
        char name[FOLDER_PATH];
        snprintf(name, sizeof name, "%05llu", (unsigned long long)(i / FOLDER_FILES));
        if (i % FOLDER_FILES == 0 && mkdirat(folder, name, 0755) < 0)
            bench_die(name, errno);
        make_file(folder, i, content, bytes);
    }
    if (rename(partial, argv[1]) < 0)
        bench_die(argv[1], errno);
    return 0;
}
