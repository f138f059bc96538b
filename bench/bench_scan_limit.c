// The limit of looking through a folder: P threads that read directories with getdents64 and ask for the size of every
// file with statx, and keep nothing. bench_scan_limit FOLDER THREADS
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/scope.h"
#include "bench/bench.h"

#define MOST_FOLDERS 100000u
#define MOST_THREADS 64u

struct entry {
    uint64_t inode;
    int64_t next;
    uint16_t bytes;
    uint8_t kind;
    char name[];
};

static int top;
static char *folders[MOST_FOLDERS];
static uint64_t folder_count;
static _Atomic uint64_t next_folder, files, bytes;

static void find_folders(const char *path) {
    DIR *directory = opendir(path);
    const struct dirent *entry;
    if (!directory)
        bench_die(path, errno);
    while ((entry = readdir(directory)))
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' && folder_count < MOST_FOLDERS)
            folders[folder_count++] = strdup(entry->d_name);
    closedir(directory);
}

static void look(int fd, const struct entry *entry, uint64_t *found, uint64_t *size) {
    struct statx status;
    if (entry->name[0] == '.')
        return;
    if (statx(fd, entry->name, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_SIZE, &status) < 0)
        bench_die(entry->name, errno);
    ++*found;
    *size += status.stx_size;
}

static void scan(const char *name, char *buffer, size_t room, uint64_t *found, uint64_t *size) {
    AUTO_CLOSE int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        bench_die(name, errno);
    for (long got; (got = syscall(SYS_getdents64, fd, buffer, room)) > 0;)
        for (long at = 0; at < got;) {
            const struct entry *entry = (const struct entry *)(const void *)(buffer + at);
            look(fd, entry, found, size);
            at += entry->bytes;
        }
}

static void *work(void *unused) {
    static _Thread_local _Alignas(8) char buffer[128 << 10];
    uint64_t i, found = 0, size = 0;
    while ((i = atomic_fetch_add(&next_folder, 1)) < folder_count)
        scan(folders[i], buffer, sizeof buffer, &found, &size);
    atomic_fetch_add(&files, found);
    atomic_fetch_add(&bytes, size);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[MOST_THREADS];
    if (argc != 3) {
        fprintf(stderr, "usage: %s FOLDER THREADS\n", argv[0]);
        return 2;
    }
    uint64_t count = bench_number("THREADS", argv[2]), start = bench_ns();
    top = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0 || count < 1 || count > MOST_THREADS)
        bench_die(argv[1], top < 0 ? errno : EINVAL);
    find_folders(argv[1]);
    for (uint64_t i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            bench_die("threads", EAGAIN);
    for (uint64_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    double seconds = (double)(bench_ns() - start) / 1e9;
    printf("{\"files\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"files_per_second\": %.1f, "
           "\"cpu_seconds\": %.3f}\n",
           (unsigned long long)files, (unsigned long long)bytes, seconds, (double)files / seconds,
           bench_cpu_seconds(RUSAGE_SELF));
    return 0;
}
