#include "client/ctl/look.h"

#include <signal.h>
#include <string.h>

#include "shm/stats.h"

int look_open(struct look *look, const struct ctl *ctl, struct error *error) {
    look->ctl = ctl;
    int err = stats_path(ctl->socket, look->path, sizeof look->path);
    return err < 0 ? error_set(error, err, "the path of the socket is too long: %s", ctl->socket) : 0;
}

int look_at(struct look *look, struct stats_snapshot *snapshot, struct error *error) {
    const struct stats_region *region;
    int err = stats_open(look->path, &region, error);
    if (err == -ENOENT)
        return error_set(error, err,
                         "no feedd is running on %s: there is no statistics file %s (systemctl status feedd,"
                         " or --socket PATH)",
                         look->ctl->socket, look->path);
    if (err < 0)
        return err;
    stats_snapshot(region, snapshot);
    stats_close(region);
    feed_names_fill(&look->names, look->ctl, snapshot);
    return 0;
}

uint32_t look_at_loaders(const struct look *look, struct stats_loader_snapshot list[STATS_MAX_LOADERS]) {
    const struct stats_region *region = NULL;
    struct error error = {0};
    if (stats_open(look->path, &region, &error) < 0 || !region)
        return 0;
    uint32_t count = stats_snapshot_loaders(region, list);
    stats_close(region);
    return count;
}

enum daemon_state look_state(const struct stats_snapshot *snapshot) {
    bool exists = kill((pid_t)snapshot->pid, 0) == 0 || errno == EPERM;
    return rates_daemon_state(snapshot, exists);
}
