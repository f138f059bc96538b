#include "daemon/config/config_include.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/scope.h"
#include "daemon/access.h"
#include "daemon/config/config_file.h"
#include "daemon/config/config_parse.h"

// What glob() could not list. One thread at a time reads a configuration, but tests read several.
static _Thread_local struct {
    char path[PATH_MAX];
    int code;
} unlisted;

// A folder that is not there has no files; others that cannot be listed may have some.
static int note_unlisted(const char *path, int code) {
    if (code == ENOENT)
        return 0;
    snprintf(unlisted.path, sizeof unlisted.path, "%s", path);
    unlisted.code = code;
    return 1;
}

// The pattern with the folder in front of it, in which no character means anything.
static char *whole_pattern(const char *folder, const char *pattern) {
    if (*pattern == '/')
        return strdup(pattern);
    char *whole = malloc(2 * strlen(folder) + 1 + strlen(pattern) + 1), *end = whole;
    if (!whole)
        return NULL;
    for (const char *at = folder; *at; at++) {
        if (strchr("*?[\\", *at))
            *end++ = '\\';
        *end++ = *at;
    }
    *end++ = '/';
    memcpy(end, pattern, strlen(pattern) + 1);
    return whole;
}

static int by_bytes(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static int find_files(const char *pattern, glob_t *found, struct error *error) {
    char reason[300];
    int result = glob(pattern, GLOB_NOSORT, note_unlisted, found);
    if (result == GLOB_NOSPACE)
        return error_set(error, -ENOMEM, "out of memory");
    if (result == GLOB_ABORTED)
        return error_set(error, -unlisted.code, "%s cannot be listed: %s", unlisted.path,
                         access_reason(unlisted.code, unlisted.path, reason, sizeof reason));
    if (result == GLOB_NOMATCH)
        return strpbrk(pattern, "*?[") ? 0 : error_set(error, -ENOENT, "there is no file %s", pattern);
    qsort(found->gl_pathv, found->gl_pathc, sizeof *found->gl_pathv, by_bytes); // glob would sort by locale
    return 0;
}

// A pattern may match what makes its reader wait, such as a pipe.
static int check_file(const char *path, struct error *error) {
    struct stat status;
    if (stat(path, &status) < 0 || S_ISREG(status.st_mode))
        return 0; // who reads it says more
    return error_set(error, -EINVAL, "%s: found something that is not a file, wanted a configuration", path);
}

static int include_file(struct config *config, const char *path, struct config_lines **lines,
                        struct error *error) {
    int err = check_file(path, error);
    if (err)
        return err;
    AUTO_FREE char *text = NULL;
    err = config_file_read(path, &text, error);
    if (err)
        return err;
    struct config_included *more =
        reallocarray(config->included, config->included_count + 1, sizeof *config->included);
    if (!more)
        return error_set(error, -ENOMEM, "%s: out of memory", path);
    config->included = more;
    struct config_included *file = &more[config->included_count++];
    *file = (struct config_included){strdup(path), config_file_folder(path)};
    if (!file->path || !file->folder)
        return error_set(error, -ENOMEM, "%s: out of memory", path);
    return config_parse(config, &(struct config_text){file->path, file->folder, text, true}, lines, error);
}

int config_include(struct config *config, struct config_lines **lines, struct error *error) {
    const uint32_t line = (*lines)[0].option[FEEDD_include];
    glob_t found = {0};
    AUTO_FREE char *pattern = whole_pattern(config->folder, config->include);
    int err = pattern ? find_files(pattern, &found, error) : error_set(error, -ENOMEM, "out of memory");
    if (err)
        error_prefix(error, "%s:%u: [feedd] include", config->file, line);
    for (size_t i = 0; i < found.gl_pathc && !err; i++)
        err = include_file(config, found.gl_pathv[i], lines, error);
    globfree(&found);
    return err;
}
