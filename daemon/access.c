#include "daemon/access.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sentence.h"

#define LINKS_MOST 8u // symbolic links followed on one path

void access_user(char *text, size_t bytes) {
    char room[1024];
    struct passwd entry, *found = NULL;
    getpwuid_r(geteuid(), &entry, room, sizeof room, &found);
    if (found)
        snprintf(text, bytes, "%s", found->pw_name);
    else
        snprintf(text, bytes, "%u", geteuid());
}

static bool is_denied(const char *path, int mode) {
    return faccessat(AT_FDCWD, path, mode, AT_EACCESS) != 0 && errno == EACCES;
}

// Where the symbolic link `path` leads, with `rest` of the path after it. False if it is not a link.
static bool follow(const char *path, const char *rest, char target[PATH_MAX]) {
    char link[PATH_MAX];
    ssize_t length = readlink(path, link, sizeof link - 1);
    if (length < 0)
        return false;
    link[length] = '\0';
    const char *slash = *link == '/' ? NULL : strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0;
    return snprintf(target, PATH_MAX, "%.*s%s%s", folder, path, link, rest) < PATH_MAX;
}

static const char *mode_word(int mode) {
    return mode == X_OK ? "searchable" : mode == W_OK ? "writable" : "readable";
}

static bool find_obstacle(const char *path, int mode, uint32_t links, char *text, size_t bytes) {
    char part[PATH_MAX], target[PATH_MAX], user[64];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part)
        return false;
    for (size_t end = 1; end <= length; end++) {
        if (path[end] != '/' && path[end] != '\0')
            continue;
        int wanted = end < length ? X_OK : mode;
        snprintf(part, sizeof part, "%.*s", (int)end, path);
        if (!is_denied(part, wanted))
            continue;
        if (links > 0 && follow(part, path + end, target) &&
            find_obstacle(target, mode, links - 1, text, bytes))
            return true;
        access_user(user, sizeof user);
        sentence_write(text, bytes, "%s is not %s by user %s", part, mode_word(wanted), user);
        return true;
    }
    return false;
}

bool access_obstacle(const char *path, int mode, char *text, size_t bytes) {
    return find_obstacle(path, mode, LINKS_MOST, text, bytes);
}

const char *access_hint(const char *path) {
    const char *brace = strchr(path, '{');
    if (*path == '~' || strstr(path, "/~"))
        return "; ~ is not expanded here: write the whole path";
    if (strchr(path, '$'))
        return "; variables such as $HOME are not expanded here: write the whole path";
    return brace && strchr(brace, '}') ? "; braces are not expanded here: write a pattern with * or ?" : "";
}

const char *access_reason(int code, const char *path, char *text, size_t bytes) {
    char obstacle[PATH_MAX];
    if (code == EACCES && access_obstacle(path, R_OK, obstacle, sizeof obstacle))
        sentence_write(text, bytes, "%s: %s", strerror(code), obstacle);
    else
        snprintf(text, bytes, "%s%s", strerror(code), code == ENOENT ? access_hint(path) : "");
    return text;
}

int access_become(const char *name, struct error *error) {
    const struct passwd *user = getpwnam(name);
    if (!user)
        return error_set(error, -EINVAL, "there is no user named \"%s\"", name);
    if (user->pw_uid == geteuid())
        return 0;
    if (geteuid() != 0)
        return error_set(error, -EPERM, "only root can check as user %s", name);
    if (initgroups(name, user->pw_gid) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)
        return error_set(error, -errno, "cannot become user %s: %m", name);
    return 0;
}
