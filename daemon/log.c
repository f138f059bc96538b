#include "daemon/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "base/sentence.h"
#include "base/sizes.h"
#include "base/time.h"

#define LOG_TEXT         1024
#define LOG_LINE         (LOG_TEXT + 128)
#define LOG_WRITE        (2 * LOG_LINE) // at most PIPE_BUF, so that a pipe takes all of it or nothing
#define REPEAT_WINDOW_NS (5 * NS_PER_S)
#define REPEAT_BURST     10u

// How to write a line without waiting.
enum sink {
    SINK_PLAIN,       // a file, or a device that does not make writers wait
    SINK_SOCKET,      // each call has a flag not to wait
    SINK_NONBLOCKING, // a pipe or terminal, through our own open file description
    SINK_POLLED       // a pipe or terminal that we may not open: polled for room before each write
};

static struct {
    char role[32];
    enum log_level level;
    bool journal; // stderr goes to the journal, which stamps time and pid itself
    enum sink sink;
    int fd;               // STDERR_FILENO, or our own with SINK_NONBLOCKING
    char rest[LOG_WRITE]; // of a line that was written in part
    size_t rest_bytes;
    uint64_t dropped; // lines since the last one that got through
    char last[LOG_TEXT];
    uint64_t window_start_ns;
    uint32_t repeats, suppressed;
} logger = {.role = "feedd", .level = LOG_LEVEL_INFO, .fd = STDERR_FILENO};

// ---- Where it goes -----------------------------------------------------------------------------------------

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

// O_NONBLOCK belongs to the open file description, which we share with our parent and our children and must not change.
// So a pipe or terminal is opened once more.
static void open_sink(void) {
    struct stat status;
    if (logger.sink == SINK_NONBLOCKING)
        close(logger.fd);
    logger.sink = SINK_PLAIN;
    logger.fd = STDERR_FILENO;
    logger.rest_bytes = 0;
    logger.dropped = 0;
    if (fstat(STDERR_FILENO, &status) < 0)
        return;
    if (S_ISSOCK(status.st_mode)) {
        logger.sink = SINK_SOCKET;
        return;
    }
    if (!S_ISFIFO(status.st_mode) && !isatty(STDERR_FILENO))
        return;
    int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    logger.sink = fd < 0 ? SINK_POLLED : SINK_NONBLOCKING;
    logger.fd = fd < 0 ? STDERR_FILENO : fd;
}

void log_rename(const char *role) {
    snprintf(logger.role, sizeof logger.role, "%s", role);
}

void log_open(const char *role, enum log_level level) {
    log_rename(role);
    logger.level = level;
    logger.journal = goes_to_journal();
    tzset(); // reads a file, which a confined process can no longer do when it writes its first line
    open_sink();
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

// Like write(); -1 with EAGAIN if there is no room.
static ssize_t write_some(const char *bytes, size_t count) {
    struct pollfd room = {.fd = logger.fd, .events = POLLOUT};
    if (logger.sink == SINK_SOCKET)
        return send(logger.fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (logger.sink == SINK_POLLED && poll(&room, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return write(logger.fd, bytes, count);
}

// False if there is no room. Other failures cannot be reported anywhere.
static bool put(const char *bytes, size_t count) {
    ssize_t wrote = write_some(bytes, count);
    if (wrote < 0 && (errno == EAGAIN || errno == ENOBUFS))
        return false;
    logger.rest_bytes = wrote < 0 ? 0 : count - (size_t)wrote;
    memcpy(logger.rest, bytes + count - logger.rest_bytes, logger.rest_bytes);
    return true;
}

// The rest of the previous line goes first, so that no line starts in the middle of another.
static bool put_rest(void) {
    char rest[LOG_WRITE];
    size_t bytes = logger.rest_bytes;
    memcpy(rest, logger.rest, bytes);
    return !bytes || (put(rest, bytes) && !logger.rest_bytes);
}

// ---- Lines -------------------------------------------------------------------------------------------------

static size_t format_line(char line[LOG_LINE], enum log_level level, const char *text) {
    static const char *const names[] = {"error", "warning", "info", "debug"};
    static const int journal_priority[] = {3, 4, 6, 7};
    int used;
    if (logger.journal) {
        bool named = strcmp(logger.role, "feedd") != 0; // the journal shows the program's name
        used = snprintf(line, LOG_LINE, "<%d>%s%s%s\n", journal_priority[level], named ? logger.role : "",
                        named ? ": " : "", text);
    } else {
        struct timespec now;
        struct tm broken;
        char stamp[32];
        clock_gettime(CLOCK_REALTIME, &now);
        localtime_r(&now.tv_sec, &broken);
        strftime(stamp, sizeof stamp, "%F %T", &broken);
        used = snprintf(line, LOG_LINE, "%s.%03ld %s[%d] %s: %s\n", stamp, now.tv_nsec / 1000000, logger.role,
                        (int)getpid(), names[level], text);
    }
    return used < 0 ? 0 : min_u64((uint64_t)used, LOG_LINE - 1);
}

static size_t format_dropped(char line[LOG_LINE]) {
    char note[128];
    if (!logger.dropped)
        return 0;
    snprintf(note, sizeof note, "%" PRIu64 " line%s dropped: the reader of this log does not keep up",
             logger.dropped, logger.dropped == 1 ? " was" : "s were");
    return format_line(line, LOG_LEVEL_WARNING, note);
}

// Uses a single write, so that lines of several processes do not mix, and the note comes with the line or not at all.
static void emit(enum log_level level, const char *text) {
    char lines[LOG_WRITE];
    size_t bytes = format_dropped(lines);
    bytes += format_line(lines + bytes, level, text);
    if (put_rest() && put(lines, bytes))
        logger.dropped = 0;
    else
        logger.dropped++;
}

// Limits a repeated message to REPEAT_BURST per window, followed by a count.
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
        snprintf(note, sizeof note, "the previous message was repeated %u times", logger.suppressed);
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
    // Names of clients and files appear here: they must not start new lines or control a terminal.
    sentence_format(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!suppress(level, text))
        emit(level, text);
    errno = saved;
}
