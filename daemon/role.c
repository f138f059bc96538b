#include "daemon/role.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

volatile sig_atomic_t role_stopping;

static void on_term(int signal) {
    (void)signal;
    role_stopping = 1;
}

int role_tie(uint64_t supervisor_pid, struct error *error) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return error_set(error, -errno, "cannot ask to end with the supervisor: %m");
    // Checked after asking, since it may be gone already.
    if ((uint64_t)getppid() != supervisor_pid)
        return error_set(error, -ESRCH, "the supervisor is gone");
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction term = {.sa_handler = on_term}; // no SA_RESTART: the signal must end sleeps
    sigaction(SIGINT, &ignore, NULL); // Ctrl-C in a terminal reaches all; the supervisor decides when to stop
    sigaction(SIGHUP, &ignore, NULL);
    sigaction(SIGTERM, &term, NULL);
    return 0;
}

// Private, since kernels before 6.7 refuse a shared mapping of memory that is sealed against writing.
int role_map(int fd, const char *what, uint64_t least, const void **memory, struct error *error) {
    struct stat status;
    if (fstat(fd, &status) < 0 || (uint64_t)status.st_size < least)
        return error_set(error, -EINVAL, "this role is started by feedd itself, with its %s in descriptor %d",
                         what, fd);
    const uint64_t *map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return error_set(error, -errno, "cannot map the %s: %m", what);
    if (*map != (uint64_t)status.st_size)
        return error_set(error, -EINVAL, "the %s: found %" PRIu64 " bytes, wanted %" PRIu64, what,
                         (uint64_t)status.st_size, *map);
    *memory = map;
    return 0;
}
