#include "daemon/source/index/index_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/read_at.h"
#include "base/sentence.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_files.h"
#include "daemon/source/build/index_extents.h"
#include "daemon/source/build/index_writer.h"
#include "daemon/source/source.h"

#define MAGIC       0x3358444944454546u // "FEEDIDX3"
#define KEY_TEXT    33
#define ABANDONED_S 3600
#define NAME_TEXT   128 // of a file: a dataset's name has at most 64 bytes

// The start of a kept index; u64[file_count] samples of each file follow, then the index, and then the notes.
struct head {
    uint64_t magic;
    struct index_key key;
    uint64_t index_bytes, index_hash;
    uint64_t file_count;
    uint64_t counts_hash;
    uint64_t notes_bytes, notes_hash;
    uint64_t blocks;
    uint64_t coded_columns; // bits: those that are columns of blocks
};

struct index_key index_key_add(struct index_key key, const void *part, size_t bytes) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(part, bytes, key.low);
    return (struct index_key){hash.low64, hash.high64 ^ (key.high << 1 | key.high >> 63)};
}

int index_file_state(const struct source_file *file, struct index_file_state *state) {
    struct stat status;
    if (fstat(file->fd, &status) != 0)
        return -errno;
    *state = (struct index_file_state){.inode = status.st_ino,
                                       .bytes = (uint64_t)status.st_size,
                                       .written_s = status.st_mtim.tv_sec,
                                       .written_ns = status.st_mtim.tv_nsec,
                                       .changed_s = status.st_ctim.tv_sec,
                                       .changed_ns = status.st_ctim.tv_nsec};
    return 0;
}

struct index_key index_key_add_file(struct index_key key, const struct source_file *file,
                                    const struct index_file_state *state) {
    key = index_key_add(key, file->path, strlen(file->path) + 1);
    return index_key_add(key, state, sizeof *state);
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
    if (cache->claimed)
        index_claim_end(&cache->claim);
    cache->claimed = false;
    free(cache->folder);
    free(cache->notes);
    cache->folder = NULL;
    cache->notes = NULL;
    cache->notes_bytes = 0;
}

// Views of a dataset share its index.
static void name_file(const struct index_cache *cache, const char *ending, char name[NAME_TEXT]) {
    const struct dataset_config *config = cache->builder->config;
    snprintf(name, NAME_TEXT, "%s.%016" PRIx64 "%016" PRIx64 ".%s", config->view ? config->of : config->name,
             cache->key.high, cache->key.low, ending);
}

void index_cache_describe(const struct index_cache *cache, bool known, double seconds,
                          struct dataset *dataset) {
    char *note = dataset->index_note;
    size_t room = sizeof dataset->index_note;
    int used = snprintf(note, room, "index of %" PRIu64 " KiB, %s in %.2f s",
                        dataset->layout->index_bytes >> 10, known ? "read" : "made", seconds);
    if (known || used < 0 || (size_t)used >= room)
        return;
    note += used;
    room -= (size_t)used;
    if (!cache->folder)
        snprintf(note, room, ", not kept: index_folder is not set");
    else if (*cache->problem)
        sentence_write(note, room, ", not kept in %s: %s", cache->folder, cache->problem);
    else
        sentence_write(note, room, ", kept in %s", cache->folder);
}

static bool read_all(int fd, void *memory, size_t bytes, uint64_t offset) {
    return read_at(fd, memory, bytes, offset) == (ssize_t)bytes;
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
    atomic_fetch_add_explicit(&source_progress, 1, memory_order_relaxed);
    return true;
}

// ---- Loading -----------------------------------------------------------------------------------------------

// A descriptor, or negative errno.
static int open_kept(const struct index_cache *cache, uint64_t *bytes) {
    char name[NAME_TEXT];
    struct stat status = {0};
    AUTO_CLOSE int folder = open(cache->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    name_file(cache, "index", name);
    int fd = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    bool ours = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                !(status.st_mode & (S_IWGRP | S_IWOTH)) && (status.st_uid == geteuid() || status.st_uid == 0);
    *bytes = (uint64_t)status.st_size;
    if (ours)
        return fd;
    close(fd);
    return -EPERM;
}

static bool read_head(const struct index_cache *cache, int fd, uint64_t bytes, uint64_t *counts,
                      uint32_t file_count, struct head *head) {
    return bytes >= sizeof *head && read_all(fd, head, sizeof *head, 0) && head->magic == MAGIC &&
           memcmp(&head->key, &cache->key, sizeof head->key) == 0 && head->file_count == file_count &&
           head->index_bytes >= sizeof(struct dataset_index) && head->index_bytes <= bytes &&
           head->notes_bytes <= bytes &&
           bytes - sizeof *head == file_count * sizeof *counts + head->index_bytes + head->notes_bytes &&
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

static bool read_notes(struct index_cache *cache, int fd, uint64_t from, const struct head *head) {
    free(cache->notes);
    cache->notes = malloc(max_u64(head->notes_bytes, 1));
    cache->notes_bytes = head->notes_bytes;
    return cache->notes && read_all(fd, cache->notes, head->notes_bytes, from) &&
           XXH3_64bits(cache->notes, head->notes_bytes) == head->notes_hash;
}

// Only a column of extents can have become one of blocks.
static bool may_be_coded(const struct head *head, const struct index_field *fields, uint32_t field_count) {
    uint64_t coded = head->coded_columns;
    for (uint32_t i = 0; i < field_count; i++)
        if (fields[i].column.kind == COLUMN_EXTENTS)
            coded &= ~(UINT64_C(1) << i);
    return !coded && head->blocks <= BLOCK_MAX_COUNT && !head->blocks == !head->coded_columns;
}

// In a folder, what follows the columns is text; otherwise, which samples are incomplete.
static bool place(const struct index_cache *cache, uint64_t samples, const struct head *head,
                  const struct index_field *fields, uint32_t field_count) {
    struct dataset_layout *layout = cache->builder->dataset->layout;
    const uint64_t bytes = head->index_bytes;
    if (!fields) {
        layout->index_bytes = bytes;
        layout->blocks.count = head->blocks;
        return head->blocks <= BLOCK_MAX_COUNT && !head->coded_columns;
    }
    if (!may_be_coded(head, fields, field_count) || (layout->folder_count && head->blocks))
        return false;
    builder_index_place(cache->builder, samples, fields, field_count, head->blocks,
                        (uint32_t)head->coded_columns);
    if (layout->folder_count && bytes > layout->index_bytes) {
        layout->text_bytes = bytes - layout->index_bytes;
        layout->index_bytes = bytes;
    } else if (bytes == layout->index_bytes + builder_index_mark_bytes(samples)) {
        layout->incomplete_offset = layout->index_bytes;
        layout->index_bytes = bytes;
    }
    return layout->index_bytes == bytes;
}

static int load(struct index_cache *cache, const struct index_field *fields, uint32_t field_count,
                const struct source_file *files, uint64_t *counts, uint32_t file_count) {
    struct dataset *dataset = cache->builder->dataset;
    struct head head;
    uint64_t bytes = 0, samples = 0;
    AUTO_CLOSE int fd = cache->folder ? open_kept(cache, &bytes) : -ENOENT;
    // The index may exist, and a new one takes long to make. A builder that makes none leaves this to one that does.
    if (error_is_lack(fd) && !cache->builder->known_index_only)
        return builder_refuse_open(cache->builder, fd, cache->folder);
    if (fd < 0 || !read_head(cache, fd, bytes, counts, file_count, &head))
        return 0;
    for (uint32_t i = 0; i < file_count; i++)
        if (__builtin_add_overflow(samples, counts[i], &samples))
            return 0;
    if (samples == 0 || samples > INDEX_MAX_SAMPLES)
        return 0;
    const uint64_t from = sizeof head + file_count * sizeof *counts;
    if (!place(cache, samples, &head, fields, field_count) ||
        !read_notes(cache, fd, from + head.index_bytes, &head))
        return 0;
    int err = copy_index(cache->builder, fd, from, samples);
    bool fits = dataset->layout->index_hash == head.index_hash;
    if (!err && fits && files)
        err = index_extents_check(cache->builder, files, counts, file_count, &fits);
    if (err || fits)
        return err ? err : 1;
    builder_index_discard(cache->builder); // damaged
    return 0;
}

int index_cache_claim(struct index_cache *cache) {
    if (cache->builder->known_index_only)
        return builder_refuse(cache->builder, -EINPROGRESS, NULL, "its index has not been built yet");
    if (cache->claimed)
        return 0;
    cache->claimed = true;
    return index_claim_begin(&cache->claim, cache->key);
}

int index_cache_load(struct index_cache *cache, const struct index_field *fields, uint32_t field_count,
                     const struct source_file *files, uint64_t *counts, uint32_t file_count) {
    int known = load(cache, fields, field_count, files, counts, file_count);
    if (known)
        return known;
    int waited = index_cache_claim(cache);
    return waited > 0 ? load(cache, fields, field_count, files, counts, file_count) : waited;
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

static uint64_t coded_columns(const struct dataset_layout *layout) {
    uint64_t coded = 0;
    for (uint32_t i = 0; i < layout->column_count; i++)
        if (layout->columns[i].kind == COLUMN_BLOCKS)
            coded |= UINT64_C(1) << i;
    return coded;
}

static bool write_kept(const struct index_cache *cache, int fd, const uint64_t *counts, uint32_t file_count) {
    const struct dataset_layout *layout = cache->builder->dataset->layout;
    const struct head head = {.magic = MAGIC,
                              .key = cache->key,
                              .index_bytes = layout->index_bytes,
                              .index_hash = layout->index_hash,
                              .file_count = file_count,
                              .counts_hash = XXH3_64bits(counts, file_count * sizeof *counts),
                              .blocks = layout->blocks.count,
                              .coded_columns = coded_columns(layout),
                              .notes_bytes = cache->notes_bytes,
                              .notes_hash = XXH3_64bits(cache->notes, cache->notes_bytes)};
    return write_all(fd, &head, sizeof head) && write_all(fd, counts, file_count * sizeof *counts) &&
           copy_out(cache, fd) && write_all(fd, cache->notes, cache->notes_bytes) && fsync(fd) == 0;
}

// "KEY.index", or "KEY.NUMBER" of one that is being written.
static bool is_kept_name(const char *text, bool *finished) {
    static const char digits[] = "0123456789abcdef";
    size_t key = strspn(text, digits);
    const char *ending = text + key + 1;
    *finished = key == KEY_TEXT - 1 && strcmp(text + key, ".index") == 0;
    return *finished ||
           (key == KEY_TEXT - 1 && text[key] == '.' && *ending && !ending[strspn(ending, digits)]);
}

// Whether a process that was killed has left it there.
static bool is_abandoned(int folder, const char *name) {
    struct stat status;
    return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           status.st_mtime + ABANDONED_S < time(NULL);
}

// Files of this dataset with another key, and unfinished ones.
static void remove_others(int folder, const char *name) {
    const size_t key_at = strlen(name) - (KEY_TEXT - 1) - strlen(".index");
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    bool finished;
    while (directory && (entry = readdir(directory))) {
        const char *other = entry->d_name;
        if (strncmp(other, name, key_at) != 0 || !is_kept_name(other + key_at, &finished) ||
            strcmp(other, name) == 0)
            continue;
        if (finished || is_abandoned(folder, other))
            unlinkat(folder, other, 0);
    }
    if (directory)
        closedir(directory);
    else
        close_fd(&copy);
}

// By chance, since daemons that share the folder may have the same process number: in containers, or on other machines.
static int create_unfinished(const struct index_cache *cache, int folder, char name[NAME_TEXT]) {
    uint64_t number;
    char ending[17];
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
        return -1;
    snprintf(ending, sizeof ending, "%016" PRIx64, number);
    name_file(cache, ending, name);
    return openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

void index_cache_store(struct index_cache *cache, const uint64_t *counts, uint32_t file_count) {
    char name[NAME_TEXT], temporary[NAME_TEXT];
    if (!cache->folder)
        return;
    name_file(cache, "index", name);
    errno = 0;
    AUTO_CLOSE int folder = open(cache->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int fd = folder < 0 ? -1 : create_unfinished(cache, folder, temporary);
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
