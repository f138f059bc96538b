// Messages of the daemon's processes: to stderr, with level, role and pid, or under systemd with the journal's priority
// prefix. Repeated messages are limited.
//
// Writing never waits for a reader. Lines for which a pipe, socket or terminal has no room are dropped and counted, and
// the next line that gets through is preceded by a note of how many were dropped.
#ifndef FEEDD_DAEMON_LOG_H
#define FEEDD_DAEMON_LOG_H

#include <stdbool.h>

#include "base/scope.h"

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG
};

// Determines what stderr is now. `role` is "feedd", "loader 7", ...; copied.
void log_open(const char *role, enum log_level level);
// Another role, while stderr is what it was.
void log_rename(const char *role);
// Whether messages go to the journal, and so need a priority prefix.
bool log_is_journal(void);
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
void log_write(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

#define log_error(...)   log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
