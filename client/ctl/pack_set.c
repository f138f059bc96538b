#include "client/ctl/pack_set.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <xxhash.h>

#include "base/dtype.h"
#include "base/read_at.h"
#include "base/sizes.h"
#include "client/ctl/text.h"

#define USUAL_SHARD_BYTES (1ull << 30)
#define MANIFEST_BYTES    (64u << 10) // more than 16 fields take
#define MANIFEST_VERSION  1
#define MANIFEST          ".pack.json"
#define ENDING            ".feed"
#define DIGITS            5

// ---- Opening -------------------------------------------------------------------------------------------------

static int refuse_name(const char *file, struct error *error) {
    return error_set(
        error, -EINVAL,
        "found \"%s\", wanted a name that shards can begin with, such as /data/wds: at most %u bytes,"
        " without *, ?, [, ], \\ and control characters",
        file, PACK_NAME_BYTES - 33);
}

// The folder's path without links, and what follows it.
static int split(struct pack_set *set, const char *file, struct error *error) {
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    const size_t length = strlen(name);
    if (length == 0 || length >= sizeof set->name || strpbrk(name, "*?[]\\"))
        return refuse_name(file, error);
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return refuse_name(file, error);
    memcpy(set->name, name, length + 1);
    AUTO_FREE char *folder = slash ? strndup(file, slash == file ? 1 : (size_t)(slash - file)) : strdup(".");
    if (!folder)
        return error_set(error, -ENOMEM, "out of memory");
    set->folder_path = realpath(folder, NULL);
    return set->folder_path ? 0 : error_set(error, -errno, "cannot open the folder %s: %m", folder);
}

static int lock(struct pack_set *set, struct error *error) {
    struct stat status;
    const int err = flock(set->manifest, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno;
    if (err == -EWOULDBLOCK)
        return error_set(error, -EBUSY, "another feedctl pack is writing %s/%s", set->folder_path, set->name);
    if (err)
        return error_set(error, err, "cannot lock %s/%s: %s", set->folder_path, set->name, strerror(-err));
    // One that ends without having written anything removes its manifest.
    if (fstat(set->manifest, &status) == 0 && status.st_nlink == 0)
        return error_set(error, -EBUSY, "another feedctl pack has just ended: try again");
    return 0;
}

static bool is_folder(const struct pack_set *set, const char *name) {
    struct stat status;
    return fstatat(set->folder, name, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

int pack_set_open(struct pack_set *set, const char *file, struct error *error) {
    char manifest[PACK_NAME_BYTES];
    *set = (struct pack_set){.folder = -1, .manifest = -1};
    int err = split(set, file, error);
    if (err)
        return err;
    set->folder = open(set->folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (set->folder < 0)
        return error_set(error, -errno, "cannot open the folder %s: %m", set->folder_path);
    snprintf(manifest, sizeof manifest, "%s" MANIFEST, set->name);
    if (is_folder(set, set->name) && faccessat(set->folder, manifest, F_OK, 0) != 0)
        return error_set(error, -EISDIR,
                         "%s is a folder, wanted a name that shards can begin with, such as %s/train", file,
                         file);
    set->manifest =
        openat(set->folder, manifest, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (set->manifest < 0)
        return error_set(error, -errno, "cannot write %s/%s: %m", set->folder_path, manifest);
    return lock(set, error);
}

void pack_set_close(struct pack_set *set) {
    struct stat status;
    char manifest[PACK_NAME_BYTES];
    snprintf(manifest, sizeof manifest, "%s" MANIFEST, set->name);
    // Only a program that has the lock may remove it. It is asked for again: the first time may have failed.
    if (set->manifest >= 0 && flock(set->manifest, LOCK_EX | LOCK_NB) == 0 &&
        fstat(set->manifest, &status) == 0 && status.st_nlink && status.st_size == 0)
        unlinkat(set->folder, manifest, 0);
    close_fd(&set->manifest);
    close_fd(&set->folder);
    free(set->folder_path);
    set->folder_path = NULL;
}

// ---- Names of shards -----------------------------------------------------------------------------------------

// The number in NAME-NUMBER.feed; -1: it is not a shard's name.
static int64_t number_of(const struct pack_set *set, const char *name) {
    const size_t length = strlen(set->name);
    if (strncmp(name, set->name, length) != 0 || name[length] != '-')
        return -1;
    const char *digits = name + length + 1;
    const size_t count = strspn(digits, "0123456789");
    if (count != DIGITS || strcmp(digits + count, ENDING) != 0)
        return -1;
    return strtol(digits, NULL, 10);
}

// The highest number of a shard that is there; -1: none is.
static int highest(const struct pack_set *set, int64_t *number, struct error *error) {
    int fd = openat(set->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    *number = -1;
    if (!folder) {
        int err = error_set(error, -errno, "cannot read the folder %s: %m", set->folder_path);
        close_fd(&fd);
        return err;
    }
    errno = 0;
    while ((entry = readdir(folder))) {
        int64_t found = number_of(set, entry->d_name);
        *number = found > *number ? found : *number;
    }
    int err = errno ? error_set(error, -errno, "cannot read the folder %s: %m", set->folder_path) : 0;
    closedir(folder);
    return err;
}

int pack_set_clear(struct pack_set *set, struct error *error) {
    char name[PACK_NAME_BYTES];
    int64_t number;
    int err = highest(set, &number, error);
    if (err)
        return err;
    // From the last one on: if this is interrupted, what is left is a part that can be continued.
    for (; number >= 0; number--) {
        pack_shard_name(set->name, (uint32_t)number, name);
        if (unlinkat(set->folder, name, 0) != 0 && errno != ENOENT)
            return error_set(error, -errno, "cannot remove %s/%s: %m", set->folder_path, name);
    }
    if (fsync(set->folder) != 0 || ftruncate(set->manifest, 0) != 0 || fsync(set->manifest) != 0)
        return error_set(error, -errno, "cannot write %s/%s" MANIFEST ": %m", set->folder_path, set->name);
    return 0;
}

// ---- The manifest --------------------------------------------------------------------------------------------

static json_t *field_json(const struct packed_field *field) {
    json_t *shape = field->ragged ? json_null() : json_array();
    for (uint32_t k = 0; k < field->dimensions && !field->ragged; k++)
        json_array_append_new(shape, ctl_json_word(field->shape[k]));
    return json_pack("{s:s, s:s, s:o}", "name", field->name, "dtype", dtype_name(field->dtype), "shape",
                     shape);
}

// What is compared, and hashed into the shards.
static json_t *identity_json(const struct pack_identity *identity) {
    char fingerprint[CTL_TEXT];
    json_t *fields = json_array();
    for (uint32_t i = 0; i < identity->field_count; i++)
        json_array_append_new(fields, field_json(&identity->fields[i]));
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, identity->fingerprint);
    return json_pack("{s:i, s:o, s:s, s:o, s:o, s:o}", "version", MANIFEST_VERSION, "fields", fields,
                     "fingerprint", fingerprint, "samples", ctl_json_word(identity->samples), "seed",
                     ctl_json_word(identity->seed), "shard_size", ctl_json_word(identity->shard_bytes));
}

static uint64_t id_of(const json_t *json) {
    AUTO_FREE char *text = json_dumps(json, JSON_SORT_KEYS | JSON_COMPACT);
    return text ? XXH3_64bits(text, strlen(text)) : 0;
}

// *json: NULL if there is none, or if it was cut before there was any shard.
static int read_manifest(const struct pack_set *set, json_t **json, struct error *error) {
    int64_t number = -1;
    AUTO_FREE char *text = malloc(MANIFEST_BYTES);
    if (!text)
        return error_set(error, -ENOMEM, "out of memory");
    ssize_t got = read_at(set->manifest, text, MANIFEST_BYTES, 0);
    if (got < 0)
        return error_set(error, (int)got, "cannot read %s/%s" MANIFEST ": %s", set->folder_path, set->name,
                         strerror((int)-got));
    *json = json_loadb(text, (size_t)got, 0, NULL);
    int err = *json || !got ? 0 : highest(set, &number, error);
    if (err || number < 0)
        return err;
    return error_set(error, -EINVAL,
                     "%s/%s" MANIFEST
                     ": found something that feedctl pack has not written; --force begins again,"
                     " which removes all shards",
                     set->folder_path, set->name);
}

static int refuse_other(const struct pack_set *set, const char *what, struct error *error) {
    return error_set(error, -ESTALE,
                     "%s/%s was begun with %s; --force begins again, which removes all shards",
                     set->folder_path, set->name, what);
}

static int compare(const struct pack_set *set, const json_t *found, const json_t *wanted,
                   struct error *error) {
    static const struct {
        const char *key, *what;
    } parts[] = {{"version", "another version of feedctl"},
                 {"fields", "other fields"},
                 {"samples", "another number of samples"},
                 {"fingerprint", "another dataset, or its files or settings have changed since"},
                 {"seed", "another --seed"},
                 {"shard_size", "another --shard-size"}};
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (!json_equal(json_object_get(found, parts[i].key), json_object_get(wanted, parts[i].key)))
            return refuse_other(set, parts[i].what, error);
    return 0;
}

static uint64_t shard_bytes_of(const json_t *manifest) {
    const char *text = json_string_value(json_object_get(manifest, "shard_size"));
    return text ? strtoull(text, NULL, 10) : 0;
}

int pack_set_begin(struct pack_set *set, const struct pack_identity *identity, struct error *error) {
    if (set->begun)
        return 0;
    json_t *json = identity_json(identity);
    json_object_set_new(json, "dataset", ctl_json_text(identity->dataset));
    AUTO_FREE char *text = json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    if (!text)
        return error_set(error, -ENOMEM, "out of memory");
    const size_t bytes = strlen(text);
    text[bytes] = '\n'; // instead of its end
    ssize_t wrote = ftruncate(set->manifest, 0) == 0 ? pwrite(set->manifest, text, bytes + 1, 0) : -1;
    if (wrote == (ssize_t)bytes + 1 && fsync(set->manifest) == 0 && fsync(set->folder) == 0) {
        set->begun = true;
        return 0;
    }
    int err = wrote < 0 || wrote == (ssize_t)bytes + 1 ? -errno : -ENOSPC;
    if (ftruncate(set->manifest, 0) != 0) // it is then removed
        err = -errno;
    return error_set(error, err, "cannot write %s/%s" MANIFEST ": %s", set->folder_path, set->name,
                     strerror(-err));
}

// ---- What is there -------------------------------------------------------------------------------------------

void pack_set_count(struct pack_set *set, const struct packed_header *header, uint64_t bytes) {
    set->shards = header->number + 1;
    set->position = header->end_position;
    set->samples += header->samples;
    set->bytes += bytes;
    set->complete = header->last;
}

// 1: the next shard is there, complete and of this set; 0: it is not there.
static int find_shard(struct pack_set *set, struct error *error) {
    char name[PACK_NAME_BYTES];
    struct packed_header header;
    struct stat status;
    struct error why = {0};
    pack_shard_name(set->name, set->shards, name);
    AUTO_CLOSE int fd = openat(set->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &status) != 0)
        return error_set(error, -errno, "cannot open %s/%s: %m", set->folder_path, name);
    ssize_t got = S_ISREG(status.st_mode) ? read_at(fd, &header, sizeof header, 0) : 0;
    if (got < 0)
        return error_set(error, (int)got, "cannot read %s/%s: %s", set->folder_path, name,
                         strerror((int)-got));
    bool good = got == (ssize_t)sizeof header && packed_check(&header, (uint64_t)status.st_size, &why) == 0;
    if (!good || header.set != set->id || header.number != set->shards ||
        header.first_position != set->position)
        return error_set(
            error, -EINVAL,
            "%s/%s is not a shard of this set%s%s; --force begins again, which removes all shards",
            set->folder_path, name, *why.text ? ": " : "", why.text);
    pack_set_count(set, &header, (uint64_t)status.st_size);
    return 1;
}

static int find_shards(struct pack_set *set, struct error *error) {
    int64_t number;
    int err = highest(set, &number, error);
    for (int found = set->begun; found && !err && !set->complete;) {
        found = find_shard(set, error);
        err = found < 0 ? found : 0;
    }
    if (err || number < (int64_t)set->shards)
        return err;
    return error_set(error, -EEXIST,
                     "%s/%s-%05" PRId64 ENDING
                     " is not a shard of this set; --force begins again, which removes all"
                     " shards",
                     set->folder_path, set->name, number);
}

int pack_set_find(struct pack_set *set, struct pack_identity *identity, struct error *error) {
    json_t *manifest = NULL;
    int err = read_manifest(set, &manifest, error);
    if (err)
        return err;
    set->begun = manifest;
    if (!identity->shard_bytes)
        identity->shard_bytes = manifest ? shard_bytes_of(manifest) : USUAL_SHARD_BYTES;
    json_t *wanted = identity_json(identity);
    set->id = id_of(wanted);
    if (manifest)
        err = compare(set, manifest, wanted, error);
    json_decref(wanted);
    json_decref(manifest);
    return err ? err : find_shards(set, error);
}
