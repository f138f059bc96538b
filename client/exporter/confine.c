#include "client/exporter/confine.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/sizes.h"

// A sanitizer opens files to report, and attaches to its own process to look for leaks.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

// ---- Files: Landlock -------------------------------------------------------------------------------

// As in <linux/landlock.h>, which build machines need not have; the numbers are those of every architecture.
#define CREATE_RULESET 444
#define ADD_RULE       445
#define RESTRICT_SELF  446
#define ALL_RIGHTS     ((UINT64_C(1) << 13) - 1) // on files, of version 1: other versions know them too
#define FILE_READ      (UINT64_C(1) << 2)
#define RULE_BENEATH   1

struct beneath {
    uint64_t allowed;
    int32_t folder;
} __attribute__((packed));

static int restrict_files(const char *path) {
    uint64_t rights = ALL_RIGHTS;
    AUTO_CLOSE int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    AUTO_CLOSE int ruleset = (int)syscall(CREATE_RULESET, &rights, sizeof rights, 0);
    if (ruleset < 0)
        return -errno;
    struct beneath rule = {FILE_READ, folder};
    if (syscall(ADD_RULE, ruleset, RULE_BENEATH, &rule, 0) < 0)
        return -errno;
    return syscall(RESTRICT_SELF, ruleset, 0) < 0 ? -errno : 0;
}

// ---- System calls: seccomp -------------------------------------------------------------------------

#ifdef HAVE_SECCOMP

#include <seccomp.h>
#include <sys/mman.h>

static void close_filter(scmp_filter_ctx *filter) {
    seccomp_release(*filter);
}

// No socket, connect, bind or listen: connections come from the one socket that listens.
static const int allowed[] = {
    // The statistics.
    SCMP_SYS(openat), SCMP_SYS(open), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(close),
    // Connections.
    SCMP_SYS(accept4), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(poll),
    SCMP_SYS(ppoll), SCMP_SYS(recvfrom), SCMP_SYS(sendto), SCMP_SYS(sendmsg), SCMP_SYS(read), SCMP_SYS(write),
    SCMP_SYS(writev), SCMP_SYS(setsockopt), SCMP_SYS(getsockopt), SCMP_SYS(shutdown), SCMP_SYS(fcntl),
    // Memory; mmap and mprotect have conditions.
    SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk), SCMP_SYS(futex),
    // Time, signals that it gets, and ending.
    SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep), SCMP_SYS(getrandom), SCMP_SYS(getpid), SCMP_SYS(gettid),
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall),
    SCMP_SYS(exit), SCMP_SYS(exit_group)};

// Calls that this architecture does not have need no rule.
static int allow_if(scmp_filter_ctx filter, int call, unsigned count, struct scmp_arg_cmp condition) {
    int err = seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, count, condition);
    return err == -EDOM ? 0 : err;
}

static int restrict_calls(void) {
    scmp_filter_ctx filter CLEANUP(close_filter) = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    const struct scmp_arg_cmp no_code = SCMP_A2_64(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
    int err = filter ? 0 : -ENOMEM;
    for (size_t i = 0; err == 0 && i < COUNT_OF(allowed); i++)
        err = allow_if(filter, allowed[i], 0, no_code);
    if (err == 0)
        err = allow_if(filter, SCMP_SYS(mmap), 1, no_code);
    if (err == 0)
        err = allow_if(filter, SCMP_SYS(mprotect), 1, no_code);
    // Whether the daemon's process exists; and abort().
    if (err == 0)
        err = allow_if(filter, SCMP_SYS(kill), 1, SCMP_A1_32(SCMP_CMP_EQ, 0));
    if (err == 0)
        err = allow_if(filter, SCMP_SYS(tgkill), 1, SCMP_A0_32(SCMP_CMP_EQ, (uint32_t)getpid()));
    return err ? err : seccomp_load(filter);
}

#else

static int restrict_calls(void) {
    return -EOPNOTSUPP;
}

#endif

// ---- Both ------------------------------------------------------------------------------------------

static void tell(const char *what, int err) {
    if (err < 0)
        fprintf(stderr, "feedd-exporter: warning: %s are not restricted: %s\n", what, strerror(-err));
}

int confine_exporter(const char *folder, struct error *error) {
    if (SANITIZED) {
        fprintf(stderr, "feedd-exporter: warning: not confined: it was built with a sanitizer\n");
        return 0;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_set(error, -errno, "cannot forbid new privileges (no_new_privs): %m");
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return error_set(error, -errno, "cannot forbid core dumps: %m");
    tell("files", restrict_files(folder));
    tell("system calls", restrict_calls());
    return 0;
}
