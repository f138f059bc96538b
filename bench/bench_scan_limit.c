// The limit of looking through a folder: P threads that read directories with getdents64 and ask for the size of every
// file with statx, and keep nothing. bench_scan_limit FOLDER THREADS
#include <sys/stat.h>
#include <sys/syscall.h>

#include "bench/scan.h"

struct entry {
    uint64_t inode;
    int64_t next;
    uint16_t bytes;
    uint8_t kind;
    char name[];
};

static struct scan folders;
static _Atomic uint64_t files, bytes;

static bool is_folder(const struct dirent *entry) {
    return entry->d_type == DT_DIR && entry->d_name[0] != '.';
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

static void look_through(const char *name, char *buffer, size_t room, uint64_t *found, uint64_t *size) {
    AUTO_CLOSE int fd = openat(folders.folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
    uint64_t found = 0, size = 0;
    const char *name;
    while ((name = scan_take(&folders)))
        look_through(name, buffer, sizeof buffer, &found, &size);
    atomic_fetch_add(&files, found);
    atomic_fetch_add(&bytes, size);
    return unused;
}

int main(int argc, char **argv) {
    const double seconds = scan_run(argc, argv, &folders, is_folder, work);
    printf("{\"files\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"files_per_second\": %.1f, "
           "\"cpu_seconds\": %.3f}\n",
           (unsigned long long)files, (unsigned long long)bytes, seconds, (double)files / seconds,
           bench_cpu_seconds(RUSAGE_SELF));
    return 0;
}
