// The limit of indexing tar archives: P threads that read each header of a folder's archives (*.tar) where the one
// before says that it is, and keep nothing. bench_tar_limit FOLDER THREADS
#include "bench/scan.h"
#include "bench/tar_walk.h"

static struct scan archives;
static _Atomic uint64_t members, bytes;

static bool is_archive(const struct dirent *entry) {
    return scan_name_ends(entry, ".tar");
}

static void walk_through(const char *name, struct tar_walk *walk) {
    AUTO_CLOSE int fd = openat(archives.folder, name, O_RDONLY | O_CLOEXEC);
    int err = fd < 0 ? -errno : tar_walk(fd, walk);
    if (err)
        bench_die(name, err);
}

static void *work(void *unused) {
    struct tar_walk walk = {0};
    const char *name;
    while ((name = scan_take(&archives)))
        walk_through(name, &walk);
    atomic_fetch_add(&members, walk.members);
    atomic_fetch_add(&bytes, walk.bytes);
    return unused;
}

int main(int argc, char **argv) {
    const double seconds = scan_run(argc, argv, &archives, is_archive, work);
    printf(
        "{\"files\": %llu, \"members\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.3f}\n",
        (unsigned long long)archives.count, (unsigned long long)members, (unsigned long long)bytes, seconds,
        bench_cpu_seconds(RUSAGE_SELF));
    return 0;
}
