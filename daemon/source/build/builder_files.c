#include "daemon/source/build/builder_files.h"

#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/read_at.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/access.h"

void path_list_release(struct path_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (struct path_list){0};
}

char *builder_absolute(const struct builder *builder, const char *path) {
    const char *folder = builder->config->folder;
    char *absolute = NULL;
    if (*path == '/' || !folder)
        return strdup(path);
    return asprintf(&absolute, "%s/%s", folder, path) < 0 ? NULL : absolute;
}

// The length of the leading folders that exist as they are written, whatever their characters.
static size_t existing_part(char *path) {
    struct stat status;
    size_t end = 0, known = 0;
    while (path[end]) {
        end += strspn(path + end, "/");
        end += strcspn(path + end, "/");
        char next = path[end];
        path[end] = '\0';
        bool exists = lstat(path, &status) == 0;
        path[end] = next;
        if (!exists)
            break;
        known = end;
    }
    return known;
}

// For glob(): characters that mean something in a pattern are escaped in the first `literal` bytes.
static char *pattern_of(const char *path, size_t literal) {
    char *pattern = malloc(literal + strlen(path) + 1), *to = pattern;
    if (!pattern)
        return NULL;
    for (; literal > 0; literal--, path++) {
        if (strchr("*?[]\\", *path))
            *to++ = '\\';
        *to++ = *path;
    }
    memcpy(to, path, strlen(path) + 1);
    return pattern;
}

static int by_bytes(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static int take_matches(struct path_list *list, const glob_t *found) {
    list->paths = calloc(found->gl_pathc, sizeof *list->paths);
    if (!list->paths)
        return -ENOMEM;
    for (; list->count < found->gl_pathc; list->count++) {
        list->paths[list->count] = strdup(found->gl_pathv[list->count]);
        if (!list->paths[list->count])
            return -ENOMEM;
    }
    qsort(list->paths, list->count, sizeof *list->paths, by_bytes); // glob would sort by locale
    return 0;
}

static _Thread_local char glob_failed_path[PATH_MAX];

// A folder that cannot be read ends the search: no data may be left out silently.
static int note_glob_error(const char *path, int code) {
    snprintf(glob_failed_path, sizeof glob_failed_path, "%s", path);
    errno = code;
    return 1;
}

static int expand_pattern(struct builder *builder, char *path, struct path_list *list) {
    glob_t found;
    AUTO_FREE char *pattern = pattern_of(path, existing_part(path));
    if (!pattern)
        return builder_out_of_memory(builder);
    int result = glob(pattern, GLOB_NOSORT, note_glob_error, &found);
    int err = errno;
    char reason[300];
    if (result == GLOB_ABORTED)
        err = builder_refuse(builder, -err, glob_failed_path,
                             "the folder cannot be read for pattern \"%s\": %s", path,
                             access_reason(err, glob_failed_path, reason, sizeof reason));
    else if (result == GLOB_NOMATCH)
        err =
            builder_refuse(builder, -ENOENT, NULL, "found no file that matches \"%s\", wanted at least one%s",
                           path, access_hint(path));
    else if (result != 0 || take_matches(list, &found))
        err = builder_out_of_memory(builder);
    else
        err = 0;
    globfree(&found);
    return err;
}

int builder_expand(struct builder *builder, const char *text, struct path_list *list) {
    *list = (struct path_list){0};
    AUTO_FREE char *path = builder_absolute(builder, text);
    if (!path)
        return builder_out_of_memory(builder);
    // A path that exists is not a pattern, whatever its characters.
    struct stat status;
    if (strpbrk(text, "*?[") && lstat(path, &status) != 0)
        return expand_pattern(builder, path, list);
    list->paths = malloc(sizeof *list->paths);
    if (!list->paths)
        return builder_out_of_memory(builder);
    list->paths[0] = path;
    list->count = 1;
    path = NULL;
    return 0;
}

static const char *kind_name(mode_t mode) {
    if (S_ISDIR(mode))
        return "a folder";
    if (S_ISFIFO(mode))
        return "a FIFO";
    if (S_ISCHR(mode) || S_ISBLK(mode))
        return "a device";
    return "a special file";
}

int builder_refuse_open(struct builder *builder, int code, const char *path) {
    struct rlimit limit = {0};
    char reason[300];
    if (code != -EMFILE)
        return builder_refuse(builder, code, path, "the file cannot be opened: %s",
                              access_reason(-code, path, reason, sizeof reason));
    getrlimit(RLIMIT_NOFILE, &limit);
    return builder_refuse(builder, -EMFILE, path,
                          "the file cannot be opened, because this process may have only %" PRIu64
                          " files open at once; raise LimitNOFILE or ulimit -n (a reload opens all files"
                          " beside those that are open)",
                          (uint64_t)limit.rlim_cur);
}

_Atomic uint64_t source_progress;

int builder_open(struct builder *builder, const char *path, struct source_file *file) {
    *file = SOURCE_FILE_NONE;
    atomic_fetch_add_explicit(&source_progress, 1, memory_order_relaxed);
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0)
        return builder_refuse_open(builder, -errno, path);
    if (!S_ISREG(status.st_mode))
        return builder_refuse(builder, -EINVAL, path, "found %s, wanted a regular file",
                              kind_name(status.st_mode));
    if (status.st_size == 0)
        return builder_refuse(builder, -EINVAL, path, "found an empty file, wanted data");
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0)
        return builder_refuse_open(builder, -errno, path);
    file->path = strdup(path);
    if (!file->path)
        return builder_out_of_memory(builder);
    file->size = (uint64_t)status.st_size;
    file->fd = fd;
    fd = -1;
    return 0;
}

int builder_open_flat(struct builder *builder, const char *path, const struct builder_unit *unit,
                      struct source_file *file, uint64_t *count) {
    uint64_t header = builder->config->header_bytes;
    int err = builder_open(builder, path, file);
    if (err)
        return err;
    if (file->size <= header)
        return builder_refuse(builder, -EINVAL, path,
                              "found %" PRIu64 " bytes, wanted more than header_bytes = %" PRIu64, file->size,
                              header);
    uint64_t bytes = file->size - header;
    if (bytes % unit->bytes != 0)
        return builder_refuse(builder, -EINVAL, path,
                              "found %" PRIu64 " bytes of %s, wanted a multiple of %s (%" PRIu64
                              " bytes are left over)",
                              bytes, unit->what, unit->size, bytes % unit->bytes);
    *count = bytes / unit->bytes;
    return 0;
}

int builder_read(struct builder *builder, const struct source_file *file, void *buffer, size_t bytes,
                 uint64_t offset, const char *what) {
    ssize_t got = read_at(file->fd, buffer, bytes, offset);
    if (got < 0)
        return builder_refuse(builder, (int)got, file->path,
                              "%zu bytes at offset %" PRIu64 " cannot be read: %s", bytes, offset,
                              strerror((int)-got));
    if ((size_t)got < bytes)
        return builder_refuse(builder, -ENODATA, file->path,
                              "found the end of the file at byte %" PRIu64
                              ", wanted %s: %zu bytes at offset %" PRIu64,
                              offset + (uint64_t)got, what, bytes, offset);
    atomic_fetch_add_explicit(&source_progress, 1, memory_order_relaxed);
    return 0;
}

const char *builder_compression(const uint8_t head[4]) {
    static const struct {
        const char *name;
        uint8_t bytes;
        uint8_t magic[4];
    } kinds[] = {{"gzip", 2, {0x1f, 0x8b}},
                 {"bzip2", 3, {'B', 'Z', 'h'}},
                 {"zip", 4, {'P', 'K', 3, 4}},
                 {"xz", 4, {0xfd, '7', 'z', 'X'}},
                 {"zstd", 4, {0x28, 0xb5, 0x2f, 0xfd}}};
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (memcmp(head, kinds[i].magic, kinds[i].bytes) == 0)
            return kinds[i].name;
    return NULL;
}
