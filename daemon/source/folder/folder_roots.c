#include "daemon/source/folder/folder_roots.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "daemon/access.h"
#include "daemon/dataset/folder_file.h"
#include "daemon/source/build/builder_files.h"

void folder_roots_close(struct folder_roots *roots) {
    for (uint32_t i = 0; i < roots->count; i++) {
        close_fd(&roots->roots[i].fd);
        free(roots->roots[i].path);
        free(roots->roots[i].real);
    }
    free(roots->roots);
    *roots = (struct folder_roots){0};
}

static int add_root(struct builder *builder, struct folder_roots *roots, const char *path) {
    char reason[300];
    struct folder_root *grown = reallocarray(roots->roots, roots->count + 1, sizeof *grown);
    if (!grown)
        return builder_out_of_memory(builder);
    roots->roots = grown;
    struct folder_root *root = &grown[roots->count++];
    *root = (struct folder_root){.fd = folder_open(path), .path = strdup(path)};
    if (root->fd < 0)
        return builder_refuse(builder, root->fd, path, "the folder cannot be opened: %s",
                              access_reason(-root->fd, path, reason, sizeof reason));
    root->real = realpath(path, NULL);
    if (!root->path || (!root->real && errno == ENOMEM))
        return builder_out_of_memory(builder);
    if (!root->real)
        return builder_refuse(builder, -errno, path, "the folder cannot be found: %m");
    return 0;
}

int folder_roots_open(struct builder *builder, struct folder_roots *roots) {
    const struct dataset_config *config = builder->config;
    AUTO_FREE char *path = builder_absolute(builder, config->path);
    AUTO_PATHS struct path_list list = {0};
    builder->key = "path";
    int err = path ? add_root(builder, roots, path) : builder_out_of_memory(builder);
    if (!config->links || err)
        return err;
    builder->key = "links";
    err = builder_expand(builder, config->links, &list);
    for (size_t i = 0; i < list.count && !err; i++)
        err = add_root(builder, roots, list.paths[i]);
    builder->key = "path";
    return err;
}

// The part of a path that is beneath a folder; NULL: it is not.
static const char *beneath(const char *real, const char *path) {
    size_t length = strcmp(real, "/") == 0 ? 0 : strlen(real);
    if (strncmp(real, path, length) != 0 || (path[length] != '/' && path[length] != '\0'))
        return NULL;
    return path + length + strspn(path + length, "/");
}

static int find_root(const struct folder_roots *roots, struct folder_place *place) {
    for (uint32_t i = 0; i < roots->count; i++) {
        const char *path = beneath(roots->roots[i].real, place->path);
        if (!path)
            continue;
        place->root = i;
        memmove(place->path, path, strlen(path) + 1);
        return 0;
    }
    return -EXDEV;
}

// The kernel has followed the links, and says where to.
static int follow(const struct folder_roots *roots, int folder, const char *name,
                  struct folder_place *place) {
    char self[64];
    AUTO_CLOSE int fd = openat(folder, name, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &place->status) < 0)
        return -errno;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(self, place->path, sizeof place->path);
    if (length < 0 || length == sizeof place->path)
        return length < 0 ? -errno : -ENAMETOOLONG;
    place->path[length] = '\0';
    place->linked = true;
    return find_root(roots, place);
}

int folder_roots_find(const struct folder_roots *roots, int folder, const char *name,
                      struct folder_place *place) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = folder_file_how.resolve};
    AUTO_CLOSE int fd = folder_openat2(folder, name, &how);
    place->linked = false;
    if (fd < 0)
        return fd == -ELOOP || fd == -EXDEV ? follow(roots, folder, name, place) : fd;
    return fstat(fd, &place->status) < 0 ? -errno : 0;
}
