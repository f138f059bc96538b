#include "daemon/check.h"

#include <grp.h>
#include <libgen.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/scope.h"
#include "daemon/access.h"
#include "daemon/check_images.h"
#include "daemon/config/config.h"
#include "daemon/source/source.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/feeds/cache_room.h"
#include "gpu/gpu.h"
#include "shm/sample_cache.h"

#define OTHER_USER ((uid_t)-1) // than root and the daemon's own

static bool is_member(gid_t group) {
    gid_t groups[1024];
    int count = getgroups((int)(sizeof groups / sizeof *groups), groups);
    if (geteuid() == 0 || getegid() == group)
        return true;
    for (int i = 0; i < count; i++)
        if (groups[i] == group)
            return true;
    return count < 0; // in more groups than fit: nothing is known
}

static int check_group(const char *name, struct error *error) {
    char user[64];
    const struct group *group = getgrnam(name);
    if (!group)
        return error_set(error, -EINVAL, "there is no group named \"%s\"", name);
    if (is_member(group->gr_gid))
        return 0;
    access_user(user, sizeof user);
    return error_set(error, -EPERM, "user %s cannot give the socket to group %s, because it is not a member",
                     user, name);
}

// The daemon makes three files in the socket's folder: the socket, its lock and the statistics.
static int check_socket(const char *path, struct error *error) {
    char obstacle[300];
    struct stat status;
    AUTO_FREE char *copy = strdup(path);
    if (!copy)
        return error_set(error, -ENOMEM, "out of memory");
    const char *folder = dirname(copy);
    if (access_obstacle(folder, W_OK, obstacle, sizeof obstacle))
        return error_set(error, -EACCES, "%s", obstacle);
    if (stat(folder, &status) != 0)
        return error_set(error, -errno, "the folder %s cannot be used: %m", folder);
    if (!S_ISDIR(status.st_mode))
        return error_set(error, -ENOTDIR, "%s is not a folder", folder);
    if (lstat(path, &status) == 0 && !S_ISSOCK(status.st_mode))
        return error_set(error, -EEXIST, "%s exists and is not a socket", path);
    return 0;
}

// If the folder is missing, a running daemon only says so in its log, and has images decoded each time.
static int check_cache_folder(const struct dataset_config *config, const char *folder, struct error *error) {
    char obstacle[300], place[sizeof error->text];
    struct stat status;
    int err = 0;
    if (access_obstacle(folder, W_OK, obstacle, sizeof obstacle))
        err = error_set(error, -EACCES, "%s", obstacle);
    else if (stat(folder, &status) != 0)
        err = error_set(error, -errno, "the folder %s cannot be used: %m", folder);
    else if (!S_ISDIR(status.st_mode))
        err = error_set(error, -ENOTDIR, "%s is not a folder", folder);
    if (!err)
        return 0;
    config_place(config, config_key_line(config, "cache_path"), place, sizeof place);
    return error_prefix(error, "%s[%s %s] cache_path", place, config_kind(config), config->name);
}

static int check_cache_folders(const struct config *config, struct dataset *const *datasets,
                               struct error *error) {
    int err = 0;
    for (size_t i = 0; i < config->dataset_count && !err; i++)
        if (datasets[i]->cache_path && !datasets[i]->of)
            err = check_cache_folder(&config->datasets[i], datasets[i]->cache_path, error);
    return err;
}

// As errors of the text do, although the text is right and the machine is not as it says. Returns `err`.
static int name_option(const struct config *config, uint32_t line, const char *key, int err,
                       struct error *error) {
    if (err && line)
        error_prefix(error, "%s:%u: [feedd] %s", config->file, line, key);
    else if (err)
        error_prefix(error, "%s: [feedd] %s (the default)", config->file, key);
    return err;
}

// A cache that has no room even when it is the only one. Its feeds decode each time.
static void warn_of_cache(const struct config *config, const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    const struct cache_usage none = {0};
    struct sample_cache_plan plan;
    struct error error = {0};
    if (dataset->of || !layout->cache.bytes ||
        !sample_cache_plan(&plan, dataset_cache_entries(layout), layout->cache.bytes, dataset->cache_path))
        return;
    if (cache_room_check(config, geteuid(), plan.memory_bytes, none, &error))
        printf("    warning: every image is decoded each time, because there is no room for the cache: %s\n",
               error.text);
    else if (cache_room_check(config, OTHER_USER, plan.memory_bytes, none, &error))
        printf(
            "    warning: for users other than root and the daemon's own, every image is decoded each time, "
            "because there is no room for the cache: %s\n",
            error.text);
}

static void print(const struct config *config, struct dataset *const *datasets, const char *user) {
    char gpus[512], as[128] = "";
    for (size_t i = 0; i < config->dataset_count; i++) {
        dataset_print(stdout, datasets[i]);
        warn_of_cache(config, datasets[i]);
        check_images(&config->datasets[i], datasets[i]);
    }
    gpu_describe((uint32_t)config->simulated_gpus, gpus, sizeof gpus);
    printf("delivery to GPUs: %s\n", gpus);
    if (user)
        snprintf(as, sizeof as, " (checked as user %s)", user);
    printf("%s: OK%s: %zu dataset%s would be served on %s\n", config->file, as, config->dataset_count,
           config->dataset_count == 1 ? "" : "s", config->socket);
}

static int check_loaded(const struct config *config, const char *user, struct error *error) {
    struct dataset **datasets;
    int err = datasets_open(config, &datasets, NULL, error);
    if (err)
        return err;
    if (config->socket_group)
        err = name_option(config, config->socket_group_line, "socket_group",
                          check_group(config->socket_group, error), error);
    if (!err)
        err = name_option(config, config->socket_line, "socket", check_socket(config->socket, error), error);
    if (!err)
        err = check_cache_folders(config, datasets, error);
    if (!err)
        print(config, datasets, user);
    datasets_close(datasets, config->dataset_count, NULL);
    return err;
}

int check_config(const char *path, const char *user, struct error *error) {
    struct config *config;
    if (!user && geteuid() == 0 && strcmp(path, CHECK_SYSTEM_CONFIG) == 0 && getpwnam(CHECK_SYSTEM_USER))
        user = CHECK_SYSTEM_USER;
    if (user && access_become(user, error) < 0)
        return EXIT_FAILURE;
    if (config_load(path, &config, error) < 0)
        return EX_CONFIG;
    int status = EX_CONFIG;
    if (source_check_config(config, error) == 0)
        status = check_loaded(config, user, error) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    config_free(config);
    return status;
}
