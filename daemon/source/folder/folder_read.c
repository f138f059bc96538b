#include "daemon/source/folder/folder_read.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/sentence.h"
#include "base/sizes.h"
#include "daemon/access.h"
#include "daemon/dataset/folder_file.h"
#include "daemon/source/source.h"

#define ENTRIES_BYTES (128u << 10) // asked for at a time

// As the kernel writes them.
struct entry {
    uint64_t inode;
    int64_t next;
    uint16_t bytes; // of the entry
    uint8_t kind;
    char name[];
};

// A directory at work.
struct reading {
    const struct folder_tree *tree;
    struct tree_folder *folder;
    struct tree_folder **found;
    struct error *error;
    int fd;
    struct folder_place place;
    _Alignas(8) char entries[ENTRIES_BYTES];
};

bool folder_takes(const char *extensions, const char *name) {
    size_t length = strlen(name);
    for (const char *at = extensions; at && *at;) {
        size_t bytes = strcspn(at, "|");
        if (bytes < length && name[length - bytes - 1] == '.' &&
            strncasecmp(at, name + length - bytes, bytes) == 0)
            return true;
        at += bytes + (at[bytes] == '|');
    }
    return !extensions;
}

// The sentence names what it is about by its path from the dataset's folder.
static int refuse(const struct reading *reading, int code, const char *name, const char *sentence) {
    const char *parent = reading->folder->shown;
    return error_set(reading->error, code, "%s/%s%s%s: %s", reading->tree->roots->roots[0].path, parent,
                     *parent && *name ? "/" : "", name, sentence);
}

static int out_of_memory(const struct reading *reading) {
    return error_set(reading->error, -ENOMEM, "out of memory");
}

static char *join(const char *parent, const char *name) {
    char *path = NULL;
    return asprintf(&path, "%s%s%s", parent, *parent ? "/" : "", name) < 0 ? NULL : path;
}

static bool is_too_long(const struct tree_folder *folder, const char *name) {
    return max_u64(strlen(folder->shown), strlen(folder->real)) + strlen(name) + 2 > PATH_MAX;
}

// ---- Files -------------------------------------------------------------------------------------------------

static bool grow(void *array, uint64_t *room, uint64_t needed, size_t bytes) {
    if (needed <= *room)
        return true;
    uint64_t more = max_u64(needed, *room ? *room * 2 : 64);
    void *grown = reallocarray(*(void **)array, more, bytes);
    if (!grown)
        return false;
    *(void **)array = grown;
    *room = more;
    return true;
}

static bool keep_name(struct tree_folder *folder, const char *name, uint64_t *place) {
    size_t bytes = strlen(name) + 1;
    if (!grow(&folder->names, &folder->names_room, folder->names_used + bytes, 1))
        return false;
    memcpy(folder->names + folder->names_used, name, bytes);
    *place = folder->names_used;
    folder->names_used += bytes;
    return true;
}

static int add_file(struct reading *reading, const char *name, uint64_t bytes, int64_t written_ns) {
    struct tree_folder *folder = reading->folder;
    const struct folder_place *place = &reading->place;
    struct tree_file file = {.written_ns = written_ns, .root = folder->root, .bytes = (uint32_t)bytes};
    if (bytes > UINT32_MAX)
        return refuse(reading, -EFBIG, name, "found a file of 4 GiB or more, wanted smaller ones");
    if (is_too_long(folder, name))
        return refuse(reading, -ENAMETOOLONG, name,
                      "found a path of 4096 bytes or more, wanted a shorter one");
    if (!grow(&folder->files, &folder->file_room, folder->file_count + 1, sizeof file) ||
        !keep_name(folder, name, &file.name))
        return out_of_memory(reading);
    file.real = file.name;
    if (place->linked) {
        file.root = place->root;
        if (!keep_name(folder, place->path, &file.real))
            return out_of_memory(reading);
    }
    folder->files[folder->file_count++] = file;
    return 0;
}

// ---- Directories -------------------------------------------------------------------------------------------

// A link may lead back to where it came from, and then paths never end.
static bool is_above(const struct tree_folder *folder, const struct stat *status) {
    for (; folder; folder = folder->parent)
        if (folder->status.st_ino == status->st_ino && folder->status.st_dev == status->st_dev)
            return true;
    return false;
}

static int add_folder(struct reading *reading, const char *name) {
    struct tree_folder *parent = reading->folder;
    const struct folder_place *place = &reading->place;
    if (place->linked && is_above(parent, &place->status))
        return refuse(reading, -ELOOP, name, "found a link to a folder that it is in, wanted none");
    if (is_too_long(parent, name))
        return refuse(reading, -ENAMETOOLONG, name,
                      "found a path of 4096 bytes or more, wanted a shorter one");
    struct tree_folder *folder = calloc(1, sizeof *folder);
    if (!folder)
        return out_of_memory(reading);
    folder->next = *reading->found;
    *reading->found = folder; // which frees it
    folder->parent = parent;
    folder->shown = join(parent->shown, name);
    folder->real = place->linked ? strdup(place->path) : join(parent->real, name);
    folder->root = place->linked ? place->root : parent->root;
    if (!folder->shown || !folder->real)
        return out_of_memory(reading);
    folder->class_name = folder->shown;
    folder->class_length = strcspn(folder->shown, "/");
    return 0;
}

static int refuse_outside(const struct reading *reading, const char *name) {
    char sentence[300];
    sentence_write(
        sentence, sizeof sentence,
        "found a symbolic link to %s, wanted it to stay in the folder, or links = FOLDER to allow this",
        reading->place.path);
    return refuse(reading, -EXDEV, name, sentence);
}

// Finds out what is unknown: a link, or anything on a file system that does not say.
static int look(struct reading *reading, const char *name, uint8_t *kind) {
    int err = folder_roots_find(reading->tree->roots, reading->fd, name, &reading->place);
    if (err == -EXDEV)
        return refuse_outside(reading, name);
    if (err)
        return refuse(reading, err, name,
                      *kind == DT_LNK && err == -ENOENT ? "found a symbolic link to nothing, wanted a file"
                                                        : strerror(-err));
    *kind = IFTODT(reading->place.status.st_mode);
    return 0;
}

// ---- Entries -----------------------------------------------------------------------------------------------

static int add_regular(struct reading *reading, const char *name) {
    const struct stat *linked = &reading->place.status;
    struct statx status;
    if (reading->place.linked)
        return add_file(reading, name, (uint64_t)linked->st_size,
                        folder_written_ns(linked->st_mtim.tv_sec, (uint32_t)linked->st_mtim.tv_nsec));
    if (statx(reading->fd, name, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_SIZE | STATX_MTIME, &status) < 0)
        return refuse(reading, -errno, name, strerror(errno));
    if (!S_ISREG(status.stx_mode))
        return refuse(reading, -EAGAIN, name, "found it replaced by something else meanwhile");
    return add_file(reading, name, status.stx_size,
                    folder_written_ns(status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec));
}

static int take(struct reading *reading, const struct entry *entry) {
    const char *name = entry->name;
    uint8_t kind = entry->kind;
    reading->place.linked = false;
    if (*name == '.')
        return 0;
    int err = kind == DT_UNKNOWN || kind == DT_LNK ? look(reading, name, &kind) : 0;
    if (err)
        return err;
    if (kind == DT_DIR)
        return add_folder(reading, name);
    bool wanted = folder_takes(reading->tree->extensions, name);
    if (!wanted || (reading->tree->needs_class && !reading->folder->class_length))
        return 0;
    if (kind != DT_REG)
        return refuse(reading, -EINVAL, name, "found a FIFO, socket or device, wanted regular files");
    return add_regular(reading, name);
}

static int take_all(struct reading *reading) {
    for (;;) {
        long got = syscall(SYS_getdents64, reading->fd, reading->entries, ENTRIES_BYTES);
        if (got < 0)
            return refuse(reading, -errno, "", strerror(errno));
        if (got == 0)
            return 0;
        for (long at = 0; at < got;) {
            const struct entry *entry = (const struct entry *)(const void *)(reading->entries + at);
            int err = take(reading, entry);
            if (err)
                return err;
            at += entry->bytes;
        }
        atomic_fetch_add_explicit(&source_progress, 1, memory_order_relaxed);
    }
}

static int by_name(const void *left, const void *right, void *names) {
    return strcmp((const char *)names + ((const struct tree_file *)left)->name,
                  (const char *)names + ((const struct tree_file *)right)->name);
}

static int refuse_folder(struct reading *reading, int code) {
    char reason[300];
    AUTO_FREE char *path =
        join(reading->tree->roots->roots[reading->folder->root].path, reading->folder->real);
    return refuse(reading, -code, "",
                  path ? access_reason(code, path, reason, sizeof reason) : strerror(code));
}

int folder_read(const struct folder_tree *tree, struct tree_folder *folder, struct tree_folder **found,
                struct error *error) {
    AUTO_FREE struct reading *reading = malloc(sizeof *reading);
    if (!reading)
        return error_set(error, -ENOMEM, "out of memory");
    reading->tree = tree;
    reading->folder = folder;
    reading->found = found;
    reading->error = error;
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = folder_file_how.resolve};
    AUTO_CLOSE int fd =
        folder_openat2(tree->roots->roots[folder->root].fd, *folder->real ? folder->real : ".", &how);
    if (fd < 0 || fstat(fd, &folder->status) < 0)
        return refuse_folder(reading, fd < 0 ? -fd : errno);
    reading->fd = fd;
    int err = take_all(reading);
    if (!err && folder->file_count)
        qsort_r(folder->files, folder->file_count, sizeof *folder->files, by_name, folder->names);
    return err;
}
