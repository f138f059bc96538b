// Communication with systemd. When systemd did not start us, all of it does nothing; without libsystemd, there is
// neither a watchdog nor a socket that is passed.
#ifndef FEEDD_DAEMON_SUPERVISOR_NOTIFY_H
#define FEEDD_DAEMON_SUPERVISOR_NOTIFY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// These never wait. What a manager that does not read has no room for is kept for notify_retry.
void notify_ready(size_t datasets, const char *socket_path);
void notify_status(const char *format, ...) PRINTF_LIKE(1, 2);
void notify_reloading(void);
void notify_stopping(void);
// Whether it was sent; if not, try again on the next tick.
bool notify_watchdog(void);

// The tick: sends what there was no room for.
void notify_retry(void);

// How often the watchdog expects a sign of life; 0: never.
uint64_t notify_watchdog_interval_ns(void);

// A socket passed by the service manager, or -1.
int notify_listen_fd(void);

#endif
