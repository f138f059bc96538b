#include "daemon/supervisor/processes/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

// ---- In the child: only what is safe after a fork of a process with threads ---------------------------------

// Descriptors that would be overwritten before their turn move out of the way.
static bool save_sources(const struct spawn *spawn) {
    for (uint32_t i = 0; i < spawn->fd_count; i++) {
        if (spawn->fds[i] < 0 || spawn->fds[i] >= (int)i)
            continue;
        spawn->fds[i] = fcntl(spawn->fds[i], F_DUPFD_CLOEXEC, (int)spawn->fd_count);
        if (spawn->fds[i] < 0)
            return false;
    }
    return true;
}

static bool place(int fd, int wanted) {
    if (fd == wanted)
        return fcntl(fd, F_SETFD, 0) == 0; // not close-on-exec
    if (fd >= 0)
        return dup2(fd, wanted) == wanted;
    int null = open("/dev/null", wanted == STDIN_FILENO ? O_RDONLY : O_RDWR);
    if (null < 0 || null == wanted)
        return null == wanted;
    bool placed = dup2(null, wanted) == wanted;
    close(null);
    return placed;
}

static bool place_descriptors(const struct spawn *spawn) {
    if (!save_sources(spawn))
        return false;
    for (uint32_t i = 0; i < spawn->fd_count; i++)
        if (!place(spawn->fds[i], (int)i))
            return false;
    return true;
}

// Handled signals get their default action by exec, ignored ones do not.
static void reset_signals(void) {
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become(const struct spawn *spawn) {
    if (place_descriptors(spawn)) {
        reset_signals();
        execv("/proc/self/exe", spawn->arguments);
    }
    _exit(SPAWN_NO_EXEC);
}

// ---- In the parent ------------------------------------------------------------------------------------------

// All signals are blocked around the fork: a handler of ours must not run in the child.
int spawn_self(const struct spawn *spawn, pid_t *pid) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    *pid = fork();
    int err = *pid < 0 ? -errno : 0;
    if (*pid == 0)
        become(spawn);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}
