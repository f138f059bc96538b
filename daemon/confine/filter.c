#include "daemon/confine/filter.h"

#include <errno.h>

#ifdef HAVE_SECCOMP

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/sizes.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

#define REFUSE  SCMP_ACT_ERRNO(EPERM)
#define MISSING SCMP_ACT_ERRNO(ENOSYS) // the C library then does it in another way

// What makes a thread and nothing else: what the C library asks for.
#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)
#define NAMESPACES                                                                                           \
    (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |               \
     CLONE_NEWCGROUP)

static void close_filter(scmp_filter_ctx *filter) {
    seccomp_release(*filter);
}
#define AUTO_FILTER CLEANUP(close_filter)

static scmp_filter_ctx open_filter(uint32_t otherwise) {
    scmp_filter_ctx filter = seccomp_init(otherwise);
    if (!filter)
        return NULL;
    seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1); // threads, too
    // Kernels before 5.16 would slow the process down, in case it runs programs of others.
    seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
    // A binary tree instead of a list: when a filter is loaded, the kernel runs it for every system call that there is.
    seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    return filter;
}

// Calls that this architecture does not have need no rule.
static int add(scmp_filter_ctx filter, uint32_t action, const int *calls, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int err = seccomp_rule_add(filter, action, calls[i], 0);
        if (err && err != -EDOM)
            return err;
    }
    return 0;
}

static int add_if(scmp_filter_ctx filter, uint32_t action, int call, struct scmp_arg_cmp condition) {
    int err = seccomp_rule_add(filter, action, call, 1, condition);
    return err == -EDOM ? 0 : err;
}

// ---- Loaders -----------------------------------------------------------------------------------------------

// Files and queues are open, memory is mapped, and clones of it are not needed.
static const int loader_calls[] = {
    // Reading, and saying what came of it: on an eventfd, or in the log.
    SCMP_SYS(read), SCMP_SYS(pread64), SCMP_SYS(readv), SCMP_SYS(preadv), SCMP_SYS(preadv2), SCMP_SYS(lseek),
    SCMP_SYS(io_uring_enter), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(close), SYS_cachestat,
    // Waiting.
    SCMP_SYS(futex), SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
    SCMP_SYS(sched_yield), SCMP_SYS(restart_syscall),
    // Memory; mmap and mprotect have conditions.
    SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk),
    // Time and itself.
    SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(getcpu), SCMP_SYS(getpid),
    SCMP_SYS(gettid), SCMP_SYS(getppid), SCMP_SYS(getrusage), SCMP_SYS(getrandom),
    SCMP_SYS(sched_getaffinity),
    // Signals that it gets, and ending.
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack),
    SCMP_SYS(exit), SCMP_SYS(exit_group)};

// Those of the C library when it starts a thread.
static const int thread_calls[] = {SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(set_tid_address)};

static int allow_threads(scmp_filter_ctx filter) {
    int err = add(filter, SCMP_ACT_ALLOW, thread_calls, COUNT_OF(thread_calls));
    if (!err)
        err = add_if(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone),
                     SCMP_A0_64(SCMP_CMP_MASKED_EQ, THREAD_FLAGS | NAMESPACES, THREAD_FLAGS));
    // Its flags are in memory, where a filter cannot see them.
    return err ? err : seccomp_rule_add(filter, MISSING, SCMP_SYS(clone3), 0);
}

static int allow_with_conditions(scmp_filter_ctx filter) {
    int err = add_if(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), SCMP_A2_64(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (!err)
        err =
            add_if(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), SCMP_A2_64(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    // abort() is a signal of a process to itself.
    if (!err)
        err = add_if(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), SCMP_A0_32(SCMP_CMP_EQ, (uint32_t)getpid()));
    // A place in a table that an io_uring already has: uring_queues.c says why that is harmless.
    if (!err)
        err = add_if(filter, SCMP_ACT_ALLOW, SCMP_SYS(io_uring_register),
                     SCMP_A1_64(SCMP_CMP_MASKED_EQ, UINT32_MAX, IORING_REGISTER_BUFFERS_UPDATE));
    // The journal's socket is connected.
    if (!err)
        err = add_if(filter, SCMP_ACT_ALLOW, SCMP_SYS(sendto), SCMP_A4_64(SCMP_CMP_EQ, 0));
    return err;
}

// A file in a folder is looked at once it is open, and made to wait for its storage. What can be opened, and how, is in
// memory, where a filter cannot see it: Landlock confines that.
static int allow_folders(scmp_filter_ctx filter, bool opens) {
    static const int calls[] = {SCMP_SYS(fstat), SCMP_SYS(openat2)};
    int err = add(filter, SCMP_ACT_ALLOW, calls, opens ? 2 : 1);
    return err ? err : add_if(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), SCMP_A1_32(SCMP_CMP_EQ, F_SETFL));
}

static int describe_loader(scmp_filter_ctx filter, const struct confine_loader *loader) {
    int err = add(filter, SCMP_ACT_ALLOW, loader_calls, COUNT_OF(loader_calls));
    if (!err)
        err = allow_with_conditions(filter);
    if (!err && loader->threads)
        err = allow_threads(filter);
    if (!err && loader->descriptors)
        err = allow_folders(filter, loader->opens);
    return err;
}

// Compiled for a loader that has neither threads nor folders. Its memory is the process's until its end.
static struct sock_fprog compiled;

static int compile(scmp_filter_ctx filter) {
    struct stat status;
    AUTO_CLOSE int file = memfd_create("feedd-filter", MFD_CLOEXEC);
    int err = file < 0 ? -errno : seccomp_export_bpf(filter, file);
    if (err)
        return err;
    if (fstat(file, &status) < 0)
        return -errno;
    void *code = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (code == MAP_FAILED)
        return -errno;
    compiled.filter = code;
    compiled.len = (unsigned short)((uint64_t)status.st_size / sizeof(struct sock_filter));
    return 0;
}

void filter_loader_prepare(void) {
    const struct confine_loader plain = {0};
    scmp_filter_ctx filter AUTO_FILTER = open_filter(REFUSE);
    if (filter && describe_loader(filter, &plain) == 0)
        compile(filter); // if that fails, filter_loader does it all
}

// As seccomp_load does, with the attributes of open_filter.
static int load_compiled(void) {
    const unsigned long flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    long failed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &compiled);
    return failed < 0 ? -errno : failed ? -ESRCH : 0;
}

int filter_loader(const struct confine_loader *loader) {
    const bool plain = !loader->threads && !loader->descriptors;
    if (plain && compiled.len && load_compiled() == 0)
        return 0;
    scmp_filter_ctx filter AUTO_FILTER = open_filter(REFUSE);
    if (!filter)
        return -ENOMEM;
    int err = describe_loader(filter, loader);
    return err ? err : seccomp_load(filter);
}

// ---- Everybody ---------------------------------------------------------------------------------------------

// Nothing of a GPU's driver is among them; what only root may do is here for those who run the daemon as root.
static const int foreign_calls[] = {
    // Other processes, and the kernel's view of this one.
    SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(pidfd_getfd),
    SCMP_SYS(kcmp), SCMP_SYS(userfaultfd), SCMP_SYS(perf_event_open), SCMP_SYS(bpf), SCMP_SYS(lookup_dcookie),
    // File systems, namespaces, and files without a path.
    SCMP_SYS(mount), SCMP_SYS(umount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot),
    SCMP_SYS(move_mount), SCMP_SYS(open_tree), SCMP_SYS(fsopen), SCMP_SYS(fsconfig), SCMP_SYS(fsmount),
    SCMP_SYS(fspick), SCMP_SYS(mount_setattr), SCMP_SYS(unshare), SCMP_SYS(setns),
    SCMP_SYS(open_by_handle_at), SCMP_SYS(quotactl), SCMP_SYS(quotactl_fd), SCMP_SYS(fanotify_init),
    SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(nfsservctl), SCMP_SYS(uselib),
    // Other users.
    SCMP_SYS(setuid), SCMP_SYS(setgid), SCMP_SYS(setreuid), SCMP_SYS(setregid), SCMP_SYS(setresuid),
    SCMP_SYS(setresgid), SCMP_SYS(setgroups), SCMP_SYS(setfsuid), SCMP_SYS(setfsgid),
    // Keys.
    SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(keyctl),
    // The machine.
    SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(acct), SCMP_SYS(syslog), SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname), SCMP_SYS(settimeofday), SCMP_SYS(clock_settime), SCMP_SYS(clock_adjtime),
    SCMP_SYS(adjtimex), SCMP_SYS(stime), SCMP_SYS(iopl), SCMP_SYS(ioperm), SCMP_SYS(modify_ldt),
    SCMP_SYS(vm86), SCMP_SYS(vm86old), SCMP_SYS(vhangup)};

static int refuse_foreign(scmp_filter_ctx filter) {
    int err = add(filter, REFUSE, foreign_calls, COUNT_OF(foreign_calls));
    for (uint64_t bit = 1; !err && bit; bit <<= 1)
        if (NAMESPACES & bit)
            err = add_if(filter, REFUSE, SCMP_SYS(clone), SCMP_A0_64(SCMP_CMP_MASKED_EQ, bit, bit));
    if (!err)
        err = seccomp_rule_add(filter, MISSING, SCMP_SYS(clone3), 0);
    // Typing into the terminal that the daemon was started from.
    return err ? err
               : add_if(filter, REFUSE, SCMP_SYS(ioctl), SCMP_A1_64(SCMP_CMP_MASKED_EQ, UINT32_MAX, TIOCSTI));
}

int filter_supervisor(void) {
    scmp_filter_ctx filter AUTO_FILTER = open_filter(SCMP_ACT_ALLOW);
    if (!filter)
        return -ENOMEM;
    int err = refuse_foreign(filter);
    return err ? err : seccomp_load(filter);
}

// ---- Transfer processes ------------------------------------------------------------------------------------

// Not everything that it does not need: only the vendor knows what its driver needs.
static const int transfer_refused[] = {
    SCMP_SYS(execve),          SCMP_SYS(execveat),       SCMP_SYS(fork),
    SCMP_SYS(vfork),           SCMP_SYS(tkill),          SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(rt_sigqueueinfo), SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_register),
    SCMP_SYS(process_madvise)};

// The supervisor's limits and its share of the processors. Drivers set those of their own threads.
static int refuse_parent(scmp_filter_ctx filter) {
    static const int calls[] = {SCMP_SYS(sched_setscheduler), SCMP_SYS(sched_setparam),
                                SCMP_SYS(sched_setattr),      SCMP_SYS(sched_setaffinity),
                                SCMP_SYS(migrate_pages),      SCMP_SYS(move_pages)};
    uint64_t parent = (uint64_t)getppid();
    // The C library means this process by 0.
    int err = add_if(filter, REFUSE, SCMP_SYS(prlimit64), SCMP_A0_32(SCMP_CMP_NE, 0));
    for (size_t i = 0; !err && i < COUNT_OF(calls); i++)
        err = add_if(filter, REFUSE, calls[i], SCMP_A0_64(SCMP_CMP_MASKED_EQ, UINT32_MAX, parent));
    if (!err)
        err =
            add_if(filter, REFUSE, SCMP_SYS(setpriority), SCMP_A1_64(SCMP_CMP_MASKED_EQ, UINT32_MAX, parent));
    return err;
}

// Drivers talk to daemons of their own by Unix sockets, and to the kernel by netlink.
static int refuse_networks(scmp_filter_ctx filter) {
    int err = 0;
    for (uint64_t family = 0; !err && family < AF_MAX; family++)
        if (family != AF_UNIX && family != AF_NETLINK)
            err =
                add_if(filter, REFUSE, SCMP_SYS(socket), SCMP_A0_64(SCMP_CMP_MASKED_EQ, UINT32_MAX, family));
    return err;
}

int filter_transfer(void) {
    uint64_t self = (uint64_t)getpid();
    scmp_filter_ctx filter AUTO_FILTER = open_filter(SCMP_ACT_ALLOW);
    if (!filter)
        return -ENOMEM;
    int err = add(filter, REFUSE, transfer_refused, COUNT_OF(transfer_refused));
    if (!err) // a process instead of a thread
        err = add_if(filter, REFUSE, SCMP_SYS(clone), SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    if (!err)
        err = add_if(filter, REFUSE, SCMP_SYS(kill), SCMP_A0_32(SCMP_CMP_NE, (uint32_t)self));
    if (!err)
        err = add_if(filter, REFUSE, SCMP_SYS(tgkill), SCMP_A0_32(SCMP_CMP_NE, (uint32_t)self));
    if (!err)
        err = add_if(filter, REFUSE, SCMP_SYS(rt_tgsigqueueinfo), SCMP_A0_32(SCMP_CMP_NE, (uint32_t)self));
    if (!err)
        err = refuse_networks(filter);
    if (!err)
        err = refuse_parent(filter);
    return err ? err : seccomp_load(filter);
}

bool filter_is_built(void) {
    return true;
}

#else

bool filter_is_built(void) {
    return false;
}

void filter_loader_prepare(void) {}
int filter_loader(const struct confine_loader *loader) {
    (void)loader;
    return -ENOSYS;
}
int filter_transfer(void) {
    return -ENOSYS;
}
int filter_supervisor(void) {
    return -ENOSYS;
}

#endif
