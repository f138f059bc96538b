#include "daemon/config/config_file.h"

#include <fcntl.h>
#include <libgen.h>
#include <string.h>

#include "base/scope.h"
#include "daemon/access.h"

#define CONFIG_MAX_BYTES (4u << 20)

int config_file_read(const char *path, char **text, struct error *error) {
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        char reason[300];
        int err = errno;
        return error_set(error, -err, "%s: the configuration cannot be opened: %s", path,
                         access_reason(err, path, reason, sizeof reason));
    }
    AUTO_FREE char *buffer = malloc(CONFIG_MAX_BYTES + 1);
    if (!buffer)
        return error_set(error, -ENOMEM, "%s: out of memory", path);
    size_t bytes = 0;
    while (bytes <= CONFIG_MAX_BYTES) {
        ssize_t got = read(fd, buffer + bytes, CONFIG_MAX_BYTES + 1 - bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(error, -errno, "%s: the configuration cannot be read: %s", path,
                             strerror(errno));
        if (got == 0)
            break;
        bytes += (size_t)got;
    }
    if (bytes > CONFIG_MAX_BYTES)
        return error_set(error, -EFBIG, "%s: found more than %u bytes, wanted a configuration", path,
                         CONFIG_MAX_BYTES);
    buffer[bytes] = '\0';
    if (strlen(buffer) != bytes)
        return error_set(error, -EINVAL, "%s: found a NUL byte, wanted text", path);
    *text = buffer;
    buffer = NULL;
    return 0;
}

char *config_file_folder(const char *path) {
    AUTO_FREE char *copy = strdup(path);
    return copy ? realpath(dirname(copy), NULL) : NULL;
}
