#include "daemon/log.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/sizes.h"
#include "base/time.h"

#define LOG_TEXT         1024
#define REPEAT_WINDOW_NS (5 * NS_PER_S)
#define REPEAT_BURST     10u

static struct {
    char role[32];
    enum log_level level;
    bool journal; // stderr goes to the journal, which stamps time and pid itself
    char last[LOG_TEXT];
    uint64_t window_start_ns;
    uint32_t repeats, suppressed;
} logger = {.role = "feedd", .level = LOG_LEVEL_INFO};

// $JOURNAL_STREAM names the device and inode of the journal's socket; stderr may have been redirected since.
static bool goes_to_journal(void) {
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat status;
    unsigned long long device = 0, inode = 0;
    char *end = NULL;
    if (!stream || fstat(STDERR_FILENO, &status) < 0)
        return false;
    device = strtoull(stream, &end, 10);
    if (*end != ':')
        return false;
    inode = strtoull(end + 1, &end, 10);
    return *end == 0 && status.st_dev == device && status.st_ino == inode;
}

void log_open(const char *role, enum log_level level) {
    snprintf(logger.role, sizeof logger.role, "%s", role);
    logger.level = level;
    logger.journal = goes_to_journal();
}

bool log_is_journal(void) {
    return logger.journal;
}

void log_set_level(enum log_level level) {
    logger.level = level;
}
enum log_level log_get_level(void) {
    return logger.level;
}

static void emit(enum log_level level, const char *text) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    static const int journal_priority[] = {3, 4, 6, 7};
    char line[LOG_TEXT + 128];
    int used;
    if (logger.journal) {
        used = snprintf(line, sizeof line, "<%d>%s: %s\n", journal_priority[level], logger.role, text);
    } else {
        struct timespec now;
        struct tm broken;
        char stamp[32];
        clock_gettime(CLOCK_REALTIME, &now);
        localtime_r(&now.tv_sec, &broken);
        strftime(stamp, sizeof stamp, "%F %T", &broken);
        used = snprintf(line, sizeof line, "%s.%03ld %s[%d] %s: %s\n", stamp, now.tv_nsec / 1000000,
                        logger.role, (int)getpid(), names[level], text);
    }
    size_t bytes = used < 0 ? 0 : min_u64((uint64_t)used, sizeof line - 1);
    // One write a line, so that lines of several processes do not mix. Nowhere to go when it fails.
    if (bytes && write(STDERR_FILENO, line, bytes) < 0)
        return;
}

// The same message over and over: REPEAT_BURST of it in a window, then a count.
static bool suppress(enum log_level level, const char *text) {
    uint64_t now = monotonic_ns();
    bool same = strcmp(logger.last, text) == 0;
    if (same && now - logger.window_start_ns < REPEAT_WINDOW_NS) {
        if (++logger.repeats < REPEAT_BURST)
            return false;
        logger.suppressed++;
        return true;
    }
    if (logger.suppressed) {
        char note[64];
        snprintf(note, sizeof note, "the message before came %u more times", logger.suppressed);
        emit(level, note);
    }
    memcpy(logger.last, text, strlen(text) + 1);
    logger.window_start_ns = now;
    logger.repeats = logger.suppressed = 0;
    return false;
}

void log_write(enum log_level level, const char *format, ...) {
    if (level > logger.level)
        return;
    int saved = errno;
    char text[LOG_TEXT];
    va_list arguments;
    va_start(arguments, format);
    errno = saved; // for %m
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    // Names of clients and files get in here: they must not make lines of their own, or drive a terminal.
    for (char *letter = text; *letter; letter++)
        if ((unsigned char)*letter < ' ' || *letter == 127)
            *letter = '?';
    if (!suppress(level, text))
        emit(level, text);
    errno = saved;
}
