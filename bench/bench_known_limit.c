// The limit of opening an index that is known: read its file into memory, open a folder's archives (*.tar), and ask for
// the state of these and of its folders. bench_known_limit INDEX FOLDER
#include <sys/stat.h>

#include "bench/scan.h"

static struct scan entries;
static uint64_t files, folders, bytes, newest;

static bool is_looked_at(const struct dirent *entry) {
    return entry->d_name[0] != '.' && (entry->d_type == DT_DIR || scan_name_ends(entry, ".tar"));
}

// Archives stay open, as feedd leaves them for loaders.
static void look_at(const char *name) {
    struct stat status;
    const bool is_file = strchr(name, '.') != NULL;
    int fd = is_file ? openat(entries.folder, name, O_RDONLY | O_CLOEXEC) : -1;
    int err = is_file ? fstat(fd, &status) : fstatat(entries.folder, name, &status, AT_SYMLINK_NOFOLLOW);
    if (err)
        bench_die(name, errno);
    *(is_file ? &files : &folders) += 1;
    uint64_t changed = (uint64_t)status.st_ctim.tv_sec;
    newest = changed > newest ? changed : newest;
}

static void read_index(const char *path) {
    struct stat status;
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        bench_die(path, errno);
    const size_t room = (size_t)status.st_size + 1;
    AUTO_FREE uint8_t *memory = malloc(room);
    if (!memory)
        bench_die(path, ENOMEM);
    for (ssize_t got; (got = read(fd, memory + bytes, room - bytes)) > 0;)
        bytes += (uint64_t)got;
    if (bytes != room - 1)
        bench_die(path, EIO);
}

static void allow_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        bench_die("files", errno);
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        bench_die("files", errno);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s INDEX FOLDER\n", argv[0]);
        return 2;
    }
    uint64_t start = bench_ns();
    const char *name;
    allow_files();
    read_index(argv[1]);
    scan_find(&entries, argv[2], is_looked_at);
    while ((name = scan_take(&entries)))
        look_at(name);
    double seconds = (double)(bench_ns() - start) / 1e9;
    printf("{\"files\": %llu, \"folders\": %llu, \"newest\": %llu, \"bytes\": %llu, \"seconds\": %.6f,"
           " \"cpu_seconds\": %.3f}\n",
           (unsigned long long)files, (unsigned long long)folders, (unsigned long long)newest,
           (unsigned long long)bytes, seconds, bench_cpu_seconds(RUSAGE_SELF));
    return 0;
}
