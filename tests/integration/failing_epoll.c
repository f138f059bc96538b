// A library to be preloaded: the n-th epoll_ctl(ADD) of feedd's supervisor fails. $FAILING_EPOLL names a file of two
// int32_t: how many are still to succeed or fail until one fails (1: the next one; 0: none fails), and the error that
// it fails with. The first word is back at 0 once it has failed.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

struct order {
    _Atomic int32_t countdown;
    int32_t error;
};

static struct order *order;
static pid_t supervisor;

// Loaders and transfer processes are started with a role.
static int has_role(void) {
    char line[4096];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t count = read(fd, line, sizeof line);
    close(fd);
    return count <= 0 || memmem(line, (size_t)count, "role", 4) != NULL;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAILING_EPOLL");
    int fd = path && !has_role() ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *memory = mmap(NULL, sizeof *order, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return;
    supervisor = getpid();
    order = memory;
}

__attribute__((visibility("default"))) int epoll_ctl(int epoll, int operation, int fd,
                                                     struct epoll_event *event) {
    static int (*real)(int, int, int, struct epoll_event *);
    if (!real)
        real = (int (*)(int, int, int, struct epoll_event *))dlsym(RTLD_NEXT, "epoll_ctl");
    // A child between fork and exec has the mapping too.
    if (operation == EPOLL_CTL_ADD && order && supervisor == getpid() && order->countdown > 0 &&
        atomic_fetch_sub(&order->countdown, 1) == 1) {
        errno = order->error;
        return -1;
    }
    return real(epoll, operation, fd, event);
}
