// What systemd is told and asked. Without libsystemd, or outside of systemd, all of it does nothing.
#include <inttypes.h>

#include "base/time.h"
#include "daemon/supervisor/supervisor.h"

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

int notify_listen_fd(void) {
    return sd_listen_fds(1) >= 1 ? SD_LISTEN_FDS_START : -1;
}

void notify_ready(const struct supervisor *supervisor) {
    sd_notifyf(0, "READY=1\nSTATUS=%zu dataset%s on %s", supervisor->dataset_count,
               supervisor->dataset_count == 1 ? "" : "s", supervisor->socket_path);
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
void notify_ready(const struct supervisor *supervisor) {
    (void)supervisor;
}
void notify_reloading(void) {}
void notify_stopping(void) {}
void notify_watchdog(void) {}
uint64_t notify_watchdog_interval_ns(void) {
    return 0;
}

#endif
