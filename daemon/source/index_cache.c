#include "daemon/source/index_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/sizes.h"
#include "daemon/source/builder_files.h"
#include "daemon/source/index_writer.h"

#define MAGIC       0x3158444944454546u // "FEEDIDX1"
#define KEY_TEXT    33
#define ABANDONED_S 3600
#define NAME_TEXT   128 // of a file: a dataset's name has at most 64 bytes

// The start of a kept index; u64[file_count] samples of each file follow, and then the index.
struct head {
    uint64_t magic;
    struct index_key key;
    uint64_t index_bytes, index_hash;
    uint64_t file_count;
    uint64_t counts_hash;
};

struct index_key index_key_add(struct index_key key, const void *part, size_t bytes) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(part, bytes, key.low);
    return (struct index_key){hash.low64, hash.high64 ^ (key.high << 1 | key.high >> 63)};
}

int index_key_add_file(struct index_key *key, const struct source_file *file) {
    struct stat status;
    if (fstat(file->fd, &status) != 0)
        return -errno;
    const uint64_t state[] = {(uint64_t)status.st_ino,         (uint64_t)status.st_size,
                              (uint64_t)status.st_mtim.tv_sec, (uint64_t)status.st_mtim.tv_nsec,
                              (uint64_t)status.st_ctim.tv_sec, (uint64_t)status.st_ctim.tv_nsec};
    *key = index_key_add(*key, file->path, strlen(file->path) + 1);
    *key = index_key_add(*key, state, sizeof state);
    return 0;
}

int index_cache_open(struct index_cache *cache, struct builder *builder, struct index_key key) {
    const char *folder = builder->config->index_folder;
    *cache = (struct index_cache){.builder = builder, .key = key};
    if (!folder)
        folder = getenv("CACHE_DIRECTORY"); // systemd's, which may be a list
    if (!folder || !*folder)
        return 0;
    AUTO_FREE char *first = strndup(folder, strcspn(folder, builder->config->index_folder ? "" : ":"));
    cache->folder = first ? builder_absolute(builder, first) : NULL;
    return cache->folder ? 0 : builder_out_of_memory(builder);
}

void index_cache_close(struct index_cache *cache) {
    free(cache->folder);
    cache->folder = NULL;
}

// Views of a dataset share its index.
static void name_file(const struct index_cache *cache, const char *ending, char name[NAME_TEXT]) {
    const struct dataset_config *config = cache->builder->config;
    snprintf(name, NAME_TEXT, "%s.%016" PRIx64 "%016" PRIx64 ".%s", config->view ? config->of : config->name,
             cache->key.high, cache->key.low, ending);
}

static bool read_all(int fd, void *memory, size_t bytes, uint64_t offset) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, (char *)memory + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static bool write_all(int fd, const void *memory, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t wrote = write(fd, (const char *)memory + done, bytes - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        done += (size_t)wrote;
    }
    return true;
}

// ---- Loading -----------------------------------------------------------------------------------------------

static int open_kept(const struct index_cache *cache, uint64_t *bytes) {
    char name[NAME_TEXT];
    struct stat status;
    AUTO_CLOSE int folder = open(cache->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    name_file(cache, "index", name);
    int fd = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    bool ours = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                !(status.st_mode & (S_IWGRP | S_IWOTH)) && (status.st_uid == geteuid() || status.st_uid == 0);
    *bytes = (uint64_t)status.st_size;
    if (!ours)
        close_fd(&fd);
    return fd;
}

static bool read_head(const struct index_cache *cache, int fd, uint64_t bytes, uint64_t *counts,
                      uint32_t file_count, struct head *head) {
    return bytes >= sizeof *head && read_all(fd, head, sizeof *head, 0) && head->magic == MAGIC &&
           memcmp(&head->key, &cache->key, sizeof head->key) == 0 && head->file_count == file_count &&
           head->index_bytes >= sizeof(struct dataset_index) &&
           bytes - sizeof *head == file_count * sizeof *counts + head->index_bytes &&
           read_all(fd, counts, file_count * sizeof *counts, sizeof *head) &&
           XXH3_64bits(counts, file_count * sizeof *counts) == head->counts_hash;
}

// From the file into the dataset's memory; its start is written by the writer.
static int copy_index(struct builder *builder, int fd, uint64_t from, uint64_t samples) {
    uint64_t bytes = builder->dataset->layout->index_bytes;
    AUTO_FREE struct index_writer *writer = calloc(1, sizeof *writer);
    AUTO_FREE uint8_t *buffer = malloc(INDEX_BUFFER);
    if (!writer || !buffer)
        return builder_out_of_memory(builder);
    int err = index_writer_open(writer, builder, samples);
    for (uint64_t at = sizeof(struct dataset_index); at < bytes && !err;) {
        size_t count = min_u64(bytes - at, INDEX_BUFFER);
        if (!read_all(fd, buffer, count, from + at))
            break; // the hash will differ
        err = index_write(writer, buffer, count);
        at += count;
    }
    if (!err)
        err = index_writer_finish(writer);
    index_writer_close(writer);
    return err;
}

int index_cache_load(struct index_cache *cache, const struct index_field *fields, uint32_t field_count,
                     uint64_t *counts, uint32_t file_count) {
    struct dataset *dataset = cache->builder->dataset;
    struct head head;
    uint64_t bytes = 0, samples = 0;
    AUTO_CLOSE int fd = cache->folder ? open_kept(cache, &bytes) : -1;
    if (fd < 0 || !read_head(cache, fd, bytes, counts, file_count, &head))
        return 0;
    for (uint32_t i = 0; i < file_count; i++)
        if (counts[i] == 0 || __builtin_add_overflow(samples, counts[i], &samples))
            return 0;
    if (samples > INDEX_MAX_SAMPLES)
        return 0;
    builder_index_place(cache->builder, samples, fields, field_count);
    if (dataset->layout->index_bytes != head.index_bytes)
        return 0;
    int err = copy_index(cache->builder, fd, sizeof head + file_count * sizeof *counts, samples);
    if (err || dataset->layout->index_hash == head.index_hash)
        return err ? err : 1;
    close_fd(&dataset->index_fd); // damaged
    return 0;
}

// ---- Storing -----------------------------------------------------------------------------------------------

static bool copy_out(const struct index_cache *cache, int fd) {
    const struct dataset *dataset = cache->builder->dataset;
    AUTO_FREE uint8_t *buffer = malloc(INDEX_BUFFER);
    for (uint64_t at = 0; buffer && at < dataset->layout->index_bytes;) {
        size_t count = min_u64(dataset->layout->index_bytes - at, INDEX_BUFFER);
        if (!read_all(dataset->index_fd, buffer, count, at) || !write_all(fd, buffer, count))
            return false;
        at += count;
    }
    return buffer != NULL;
}

static bool write_kept(const struct index_cache *cache, int fd, const uint64_t *counts, uint32_t file_count) {
    const struct dataset_layout *layout = cache->builder->dataset->layout;
    const struct head head = {.magic = MAGIC,
                              .key = cache->key,
                              .index_bytes = layout->index_bytes,
                              .index_hash = layout->index_hash,
                              .file_count = file_count,
                              .counts_hash = XXH3_64bits(counts, file_count * sizeof *counts)};
    return write_all(fd, &head, sizeof head) && write_all(fd, counts, file_count * sizeof *counts) &&
           copy_out(cache, fd) && fsync(fd) == 0;
}

// Whether somebody who was killed has left it there.
static bool is_abandoned(int folder, const char *name) {
    struct stat status;
    return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           status.st_mtime + ABANDONED_S < time(NULL);
}

// Files of this dataset with another key, and unfinished ones.
static void remove_others(int folder, const char *name) {
    const size_t key_at = strlen(name) - (KEY_TEXT - 1) - strlen(".index"), key_end = key_at + KEY_TEXT - 1;
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        const char *other = entry->d_name;
        if (strncmp(other, name, key_at) != 0 || strspn(other + key_at, "0123456789abcdef") != KEY_TEXT - 1 ||
            other[key_end] != '.' || strcmp(other, name) == 0)
            continue;
        bool finished = strcmp(other + key_end, ".index") == 0;
        if (finished || is_abandoned(folder, other))
            unlinkat(folder, other, 0);
    }
    if (directory)
        closedir(directory);
    else
        close_fd(&copy);
}

void index_cache_store(struct index_cache *cache, const uint64_t *counts, uint32_t file_count) {
    char name[NAME_TEXT], temporary[NAME_TEXT], unfinished[16];
    if (!cache->folder)
        return;
    name_file(cache, "index", name);
    snprintf(unfinished, sizeof unfinished, "%d", (int)getpid());
    name_file(cache, unfinished, temporary);
    errno = 0;
    AUTO_CLOSE int folder = open(cache->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0)
        unlinkat(folder, temporary, 0); // of an earlier process with this number
    AUTO_CLOSE int fd =
        folder < 0 ? -1
                   : openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd >= 0 && write_kept(cache, fd, counts, file_count) &&
        renameat(folder, temporary, folder, name) == 0) {
        remove_others(folder, name);
        return;
    }
    int err = errno;
    if (fd >= 0)
        unlinkat(folder, temporary, 0);
    snprintf(cache->problem, sizeof cache->problem, "%s", strerror(err ? err : ENOMEM));
}
