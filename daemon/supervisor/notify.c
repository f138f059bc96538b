#include "daemon/supervisor/notify.h"

#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/error.h"
#include "base/scope.h"
#include "base/sentence.h"
#include "base/time.h"

#define TEXT        256u
#define UNSENT_MOST 8u

// What the manager's socket had no room for, in order.
static struct {
    char texts[UNSENT_MOST][TEXT];
    uint32_t count;
} unsent;

// ---- Sending -----------------------------------------------------------------------------------------------

// False: nobody wants to be told.
static bool find_manager(struct sockaddr_un *address, socklen_t *bytes) {
    const char *path = getenv("NOTIFY_SOCKET");
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof address->sun_path)
        return false;
    memcpy(address->sun_path, path, strlen(path));
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (*path == '@')
        address->sun_path[0] = '\0'; // an abstract name
    return true;
}

// sd_notify() waits while the manager does not read and its socket is full, and the loop must not. False: the socket is
// full, or there is no descriptor for it. Other failures mean that there is nobody to be told.
static bool send_text(const char *text) {
    struct sockaddr_un manager;
    socklen_t bytes;
    if (!find_manager(&manager, &bytes))
        return true;
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return !error_is_lack(-errno);
    ssize_t sent = sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&manager, bytes);
    return sent >= 0 || (errno != EAGAIN && errno != ENOBUFS);
}

void notify_retry(void) {
    uint32_t sent = 0;
    while (sent < unsent.count && send_text(unsent.texts[sent]))
        sent++;
    unsent.count -= sent;
    memmove(unsent.texts, unsent.texts + sent, unsent.count * sizeof *unsent.texts);
}

// The newest says how things are, so if there are too many, the oldest goes.
static void tell(const char *format, ...) PRINTF_LIKE(1, 2);
static void tell(const char *format, ...) {
    va_list arguments;
    if (unsent.count == UNSENT_MOST)
        memmove(unsent.texts, unsent.texts + 1, --unsent.count * sizeof *unsent.texts);
    va_start(arguments, format);
    vsnprintf(unsent.texts[unsent.count++], TEXT, format, arguments);
    va_end(arguments);
    notify_retry();
}

// ---- What there is to tell ---------------------------------------------------------------------------------

void notify_ready(size_t datasets, const char *socket_path) {
    tell("READY=1\nSTATUS=%zu dataset%s on %s", datasets, datasets == 1 ? "" : "s", socket_path);
}

void notify_status(const char *format, ...) {
    char text[TEXT - sizeof "STATUS="];
    va_list arguments;
    va_start(arguments, format);
    sentence_format(text, sizeof text, format, arguments);
    va_end(arguments);
    tell("STATUS=%s", text);
}

void notify_reloading(void) {
    tell("RELOADING=1\nMONOTONIC_USEC=%" PRIu64, monotonic_ns() / 1000);
}

void notify_stopping(void) {
    tell("STOPPING=1");
}

bool notify_watchdog(void) {
    return send_text("WATCHDOG=1");
}

// ---- What there is to ask ----------------------------------------------------------------------------------

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

int notify_listen_fd(void) {
    return sd_listen_fds(1) >= 1 ? SD_LISTEN_FDS_START : -1;
}

uint64_t notify_watchdog_interval_ns(void) {
    uint64_t microseconds = 0;
    return sd_watchdog_enabled(0, &microseconds) > 0 ? microseconds * 1000 / 2 : 0;
}

#else

int notify_listen_fd(void) {
    return -1;
}
uint64_t notify_watchdog_interval_ns(void) {
    return 0;
}

#endif
