#include "client/lib/own_window.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int refuse(struct error *error, const char *what) {
    return error_set(error, -EPROTO, "feedd describes an invalid shuffle window: %s", what);
}

static int read_groups(struct own_window *window, const Feedd__Window *about, int fd, struct error *error) {
    struct error cause = {0};
    if (about->bytes < window_groups_bytes(1) || about->bytes > window_groups_bytes(WINDOW_MAX_GROUPS))
        return refuse(error, "there are too few groups, or too many");
    window->groups = malloc(about->bytes);
    if (!window->groups)
        return error_set(error, -ENOMEM, "out of memory");
    if (about->offset > INT64_MAX - about->bytes ||
        pread(fd, window->groups, about->bytes, (off_t)about->offset) != (ssize_t)about->bytes)
        return refuse(error, "its groups cannot be read");
    if (window_groups_check(window->groups, about->bytes, about->stored, &cause))
        return refuse(error, cause.text);
    return 0;
}

int own_window_open(struct own_window *window, uint64_t samples, uint64_t seed, const Feedd__Window *about,
                    int fd, struct error *error) {
    if (!about || fd < 0)
        return refuse(error, "its groups are missing");
    if (samples > about->stored || about->first > about->stored - samples)
        return refuse(error, "it has samples that the dataset does not have");
    int err = read_groups(window, about, fd, error);
    if (!err && window_order_open(window->groups, about->first, samples, seed, &window->order))
        err = error_set(error, -ENOMEM, "out of memory");
    return err;
}

void own_window_close(struct own_window *window) {
    window_order_close(window->order);
    free(window->groups);
    *window = (struct own_window){0};
}
