#include <inttypes.h>

#include "base/time.h"
#include "daemon/supervisor/notify.h"

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

int notify_listen_fd(void) {
    return sd_listen_fds(1) >= 1 ? SD_LISTEN_FDS_START : -1;
}

void notify_ready(size_t datasets, const char *socket_path) {
    sd_notifyf(0, "READY=1\nSTATUS=%zu dataset%s on %s", datasets, datasets == 1 ? "" : "s", socket_path);
}

void notify_reloading(void) {
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, monotonic_ns() / 1000);
}

void notify_stopping(void) {
    sd_notify(0, "STOPPING=1");
}

void notify_watchdog(void) {
    sd_notify(0, "WATCHDOG=1");
}

uint64_t notify_watchdog_interval_ns(void) {
    uint64_t microseconds = 0;
    return sd_watchdog_enabled(0, &microseconds) > 0 ? microseconds * 1000 / 2 : 0;
}

#else

int notify_listen_fd(void) {
    return -1;
}
void notify_ready(size_t datasets, const char *socket_path) {
    (void)datasets;
    (void)socket_path;
}
void notify_reloading(void) {}
void notify_stopping(void) {}
void notify_watchdog(void) {}
uint64_t notify_watchdog_interval_ns(void) {
    return 0;
}

#endif
