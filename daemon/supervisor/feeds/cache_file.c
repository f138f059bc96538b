#include "daemon/supervisor/feeds/cache_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"

#define NAME_TEXT 128 // a dataset's name has at most 64 bytes
#define ENDING    ".samples"
#define ATTEMPTS  3

// How long to wait for a lock that loaders of a daemon that has ended still have.
#define LOCK_PATIENCE_NS (5 * NS_PER_S)
#define LOCK_PAUSE_NS    (20 * NS_PER_MS)

// ---- Those that nobody wants any more -----------------------------------------------------------------------------

// Of 16 hexadecimal digits.
static uint64_t parse_half(const char *digits) {
    char half[17] = "";
    memcpy(half, digits, 16);
    return strtoull(half, NULL, 16);
}

// "USER.KEY.samples", after the dataset's name.
static bool parse_name(const char *text, struct sample_cache_key *key) {
    static const char decimal[] = "0123456789", hexadecimal[] = "0123456789abcdef";
    const size_t user = strspn(text, decimal);
    const char *digits = text + user + 1;
    if (!user || text[user] != '.' || strspn(digits, hexadecimal) != 32 || strcmp(digits + 32, ENDING) != 0)
        return false;
    *key = (struct sample_cache_key){.high = parse_half(digits), .low = parse_half(digits + 16)};
    return true;
}

static bool is_wanted(const struct cache_file *file, const struct sample_cache_key *key) {
    for (size_t i = 0; i < file->wanted_count; i++)
        if (file->wanted[i].low == key->low && file->wanted[i].high == key->high)
            return true;
    return false;
}

// Unless somebody still uses it.
static void remove_unused(int folder, const char *name) {
    AUTO_CLOSE int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, name, 0);
}

static void remove_others(const struct cache_file *file, int folder) {
    const size_t length = strlen(file->dataset);
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    struct sample_cache_key key;
    while (directory && (entry = readdir(directory))) {
        const char *name = entry->d_name;
        if (strncmp(name, file->dataset, length) == 0 && name[length] == '.' &&
            parse_name(name + length + 1, &key) && !is_wanted(file, &key))
            remove_unused(folder, name);
    }
    if (directory)
        closedir(directory);
    else
        close_fd(&copy);
}

// ---- The file -------------------------------------------------------------------------------------------------------

static int check(const struct cache_file *file, const char *name, const struct stat *status,
                 struct error *error) {
    // With another name, it may be a file of something else, of which nothing would be left.
    if (S_ISREG(status->st_mode) && status->st_nlink > 1)
        return error_set(error, -EPERM,
                         "found %s/%s (cache_path) with %" PRIu64 " hard links, wanted one: remove it",
                         file->folder, name, (uint64_t)status->st_nlink);
    if (S_ISREG(status->st_mode) && !(status->st_mode & (S_IWGRP | S_IWOTH)) &&
        (status->st_uid == geteuid() || status->st_uid == 0))
        return 0;
    return error_set(
        error, -EPERM,
        "found %s/%s (cache_path), wanted a file of the daemon's own user that nobody else can write to:"
        " remove it",
        file->folder, name);
}

// The lock ends with the last process that has the file open. Loaders end soon after their daemon, but a new one may be
// faster.
static int lock(int fd) {
    const uint64_t until = monotonic_ns() + LOCK_PATIENCE_NS;
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK || monotonic_ns() >= until)
            return -errno;
        nanosleep(&pause, NULL);
    }
    return 0;
}

// With its lock. 0 and *fd -1: it was removed meanwhile.
static int open_locked(const struct cache_file *file, int folder, const char *name, int *fd,
                       struct stat *status, struct error *error) {
    *fd = -1;
    AUTO_CLOSE int opened =
        openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (opened < 0 || fstat(opened, status) < 0)
        return error_set(error, -errno, "cannot open %s/%s (cache_path): %m", file->folder, name);
    int err = check(file, name, status, error);
    if (err)
        return err;
    err = lock(opened);
    if (err)
        return error_set(error, err, "cannot lock %s/%s (cache_path), which another daemon may be using: %s",
                         file->folder, name, strerror(-err));
    if (fstat(opened, status) < 0 || status->st_nlink == 0)
        return 0;
    *fd = opened;
    opened = -1;
    return 0;
}

// Not begun where it cannot end well: a file system that is filled up for a moment disturbs others.
static int reserve(int fd, uint64_t bytes) {
    struct statvfs status;
    if (ftruncate(fd, 0) < 0 || fstatvfs(fd, &status) < 0)
        return -errno;
    if (bytes / status.f_frsize >= status.f_bavail)
        return -ENOSPC;
    return fallocate(fd, 0, 0, (off_t)bytes) < 0 ? -errno : 0;
}

static int make(const struct cache_file *file, int fd, struct error *error) {
    const struct sample_cache_plan *plan = &file->plan;
    int err = reserve(fd, plan->file_bytes);
    if (!err)
        err = sample_cache_write_head(fd, plan, &file->key);
    if (!err && fdatasync(fd) < 0)
        err = -errno;
    if (!err)
        return 0;
    return error_set(error, err, "cannot reserve %" PRIu64 " MiB in %s (cache_path): %s",
                     mib_up(plan->file_bytes), file->folder, strerror(-err));
}

static int open_file(const struct cache_file *file, int *file_fd, struct error *error) {
    char name[NAME_TEXT];
    struct stat status = {0};
    AUTO_CLOSE int fd = -1;
    AUTO_CLOSE int folder = open(file->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return error_set(error, -errno, "cannot open the folder %s (cache_path): %m", file->folder);
    if (file->removes_others)
        remove_others(file, folder);
    snprintf(name, sizeof name, "%s.%u.%016" PRIx64 "%016" PRIx64 ENDING, file->dataset, (unsigned)file->user,
             file->key.high, file->key.low);
    for (int i = 0; i < ATTEMPTS && fd < 0; i++) {
        int err = open_locked(file, folder, name, &fd, &status, error);
        if (err)
            return err;
    }
    if (fd < 0)
        return error_set(error, -EBUSY, "%s/%s (cache_path) is removed again and again", file->folder, name);
    const int fits = (uint64_t)status.st_size == file->plan.file_bytes
                         ? sample_cache_head_fits(fd, &file->plan, &file->key)
                         : 0;
    if (fits < 0)
        return error_set(error, fits, "cannot read the head of %s/%s (cache_path): %s", file->folder, name,
                         strerror(-fits));
    int err = fits ? 0 : make(file, fd, error);
    if (err) {
        unlinkat(folder, name, 0);
        return err;
    }
    *file_fd = fd;
    fd = -1;
    return 0;
}

int cache_file_open(const struct cache_file *file, int *memory_fd, int *file_fd, struct error *error) {
    int err = open_file(file, file_fd, error);
    if (!err)
        err = sample_cache_create(&file->plan, memory_fd, error);
    if (!err)
        err = sample_cache_continue(&file->plan, *memory_fd, *file_fd, error);
    if (err) {
        close_fd(memory_fd);
        close_fd(file_fd);
    }
    return err;
}
