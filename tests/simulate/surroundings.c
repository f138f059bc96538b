#include "tests/simulate/surroundings.h"

#include <fcntl.h>
#include <mntent.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <uv.h>

#include "base/error.h"
#include "daemon/log.h"
#include "shm/memory_limit.h"
#include "tests/simulate/network.h"
#include "tests/simulate/plan.h"
#include "tests/world/closing.h"

#define MACHINE_BYTES (4ull << 30) // free for rings

void __wrap_closer_take_socket(struct closer *closer, uid_t user, int *socket);
void __wrap_log_write(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
struct memory_limit __wrap_memory_limit_read(void);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
ssize_t __real_pwrite(int fd, const void *bytes, size_t count, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t offset);
int __wrap_pipe2(int fds[2], int flags);
int __wrap_statvfs(const char *path, struct statvfs *room);
int __wrap_posix_fallocate(int fd, off_t offset, off_t bytes);
FILE *__wrap_setmntent(const char *path, const char *mode);
pid_t __wrap_getpid(void);

void __wrap_closer_take_socket(struct closer *closer, uid_t user, int *socket) {
    (void)closer;
    (void)user;
    if (*socket < 0)
        return;
    network_closed(*socket);
    close_fd(socket);
}

void __wrap_log_write(enum log_level level, const char *format, ...) {
    char text[1024];
    va_list arguments;
    if (!sim.trace)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sim_trace("  log %d: %s", (int)level, text);
}

// ---- Settings of children, which nobody reads --------------------------------------------------------------

#define FDS_MOST 1024

static int nowhere = -1;
static bool
    leads_nowhere[FDS_MOST]; // descriptors that have been given to settings, until they are given out again

void surroundings_prepare(void) {
    nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
}

// A descriptor that costs little.
static int any_descriptor(void) {
    return fcntl(nowhere, F_DUPFD_CLOEXEC, 0);
}

int __wrap_memfd_create(const char *name, unsigned flags) {
    bool settings = strncmp(name, "feedd-loader", 12) == 0 || strncmp(name, "feedd-transfer", 14) == 0;
    int fd = settings ? any_descriptor() : __real_memfd_create(name, flags);
    SIM_MUST(fd < FDS_MOST);
    if (fd >= 0)
        leads_nowhere[fd] = settings;
    return fd;
}

// All that is written in this way goes to what memfd_create has made.
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t offset) {
    return leads_nowhere[fd] ? (ssize_t)count : __real_pwrite(fd, bytes, count, offset);
}

int __wrap_pipe2(int fds[2], int flags) {
    (void)flags;
    fds[0] = any_descriptor();
    fds[1] = any_descriptor();
    return 0;
}

// ---- Memory: the machine's own does not matter -------------------------------------------------------------

struct memory_limit __wrap_memory_limit_read(void) {
    return (struct memory_limit){.free_bytes = UINT64_MAX, .limit_bytes = UINT64_MAX};
}

int __wrap_statvfs(const char *path, struct statvfs *room) {
    (void)path;
    *room = (struct statvfs){
        .f_blocks = MACHINE_BYTES / 4096, .f_bavail = MACHINE_BYTES / 4096, .f_frsize = 4096};
    return 0;
}

// Pages come when they are written to: most of them are never touched. Rings have their size already.
int __wrap_posix_fallocate(int fd, off_t offset, off_t bytes) {
    struct stat status;
    if (sim_fault(plan.no_memory))
        return ENOSPC;
    SIM_MUST(fstat(fd, &status) == 0);
    return status.st_size < offset + bytes && ftruncate(fd, offset + bytes) < 0 ? errno : 0;
}

FILE *__wrap_setmntent(const char *path, const char *mode) {
    (void)path;
    (void)mode;
    return NULL;
}

// The daemon's number is part of messages, whose lengths depend on it, and where they are torn on those: it comes from
// the seed.
pid_t __wrap_getpid(void) {
    const uint64_t scattered = sim_scatter(sim.seed);
    return (pid_t)(1 + scattered % (1u << (scattered >> 32) % 22));
}
