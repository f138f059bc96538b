// inject --calls: prints the name and the number of each system call that can fail.
// inject PLAN ROLE PROGRAM [ARGUMENT...]: becomes PROGRAM. A process beside it sees all system calls of PROGRAM and
// of its children, counts them, and lets the one fail that the plan names (plan.h).
//
// The kernel asks that process through seccomp's user notification. So it does not matter which library makes a call,
// nor whether the caller is confined: its own filters, Landlock and its being undumpable do not keep the kernel from
// asking. The process is not a child of PROGRAM, shares no descriptor with it, and ends with the last process that it
// watches.
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fault/plan.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1ul << 5)
#endif
#define TASKS 4096u // a power of two; more than are ever alive in one test

static const int listed[] = {
#define FAIL(name, ...) SYS_##name,
#define WAIT(name, ...) SYS_##name,
#define PASS(name)
#include "tests/fault/calls.def"
};
static const int waits[] = {
#define FAIL(name, ...)
#define WAIT(name, ...) SYS_##name,
#define PASS(name)
#include "tests/fault/calls.def"
};
static const int passed[] = {
#define FAIL(name, ...)
#define WAIT(name, ...)
#define PASS(name) SYS_##name,
#include "tests/fault/calls.def"
};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

// The roles of tasks, found when they first ask, and again after an exec. That of a prepared loader changes while it
// runs.
struct task {
    pid_t tid;
    uint32_t role;
};

struct server {
    struct plan *plan;
    uint32_t role; // of the program
    pid_t program;
    int listener;
    struct task tasks[TASKS];
    pid_t begun[TASKS]; // processes whose program has been loaded
};

static void must(bool done, const char *what) {
    if (done)
        return;
    perror(what);
    _exit(EXIT_FAILURE);
}

// ---- Who asks -----------------------------------------------------------------------------------------------

static ssize_t read_proc(pid_t tid, const char *name, char *text, size_t bytes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = fd < 0 ? -1 : read(fd, text, bytes - 1);
    if (fd >= 0)
        close(fd);
    text[count > 0 ? count : 0] = 0;
    return count;
}

static pid_t process_of(pid_t tid) {
    char text[4096];
    read_proc(tid, "status", text, sizeof text);
    const char *found = strstr(text, "\nTgid:");
    return found ? (pid_t)strtol(found + 6, NULL, 10) : 0;
}

static uint32_t find_role(const struct server *server, pid_t tid) {
    char line[4096];
    ssize_t count = read_proc(tid, "cmdline", line, sizeof line);
    for (ssize_t i = 0; i < count; i++)
        line[i] = line[i] ? line[i] : ' ';
    pid_t process = process_of(tid);
    bool begun = server->begun[(uint32_t)process % TASKS] == process;
    if (strncmp(line, "feedd-transfer ", 15) == 0)
        return begun ? ROLE_TRANSFER : ROLE_START;
    if (strncmp(line, "feedd-prepared ", 15) == 0)
        return begun ? ROLE_PREPARED : ROLE_START;
    const char *feed = strstr(line, " feed ");
    bool is_loader = strncmp(line, "feedd-loader ", 13) == 0;
    if (is_loader && feed && strtoul(feed + 6, NULL, 10) == server->plan->bystander)
        return ROLE_NONE;
    if (is_loader)
        return begun ? ROLE_LOADER : ROLE_START;
    if (process == server->program)
        return server->role;
    return server->role == ROLE_SUPERVISOR ? ROLE_SPAWN : ROLE_NONE;
}

static uint32_t role_of(struct server *server, pid_t tid) {
    struct task *task = &server->tasks[(uint32_t)tid % TASKS];
    if (task->tid != tid || task->role == ROLE_PREPARED)
        *task = (struct task){tid, find_role(server, tid)};
    return task->role;
}

static void forget(struct server *server, pid_t tid) {
    server->tasks[(uint32_t)tid % TASKS].tid = 0;
}

// ---- What to do about it ------------------------------------------------------------------------------------

static bool is_among(const int *numbers, size_t count, int number) {
    for (size_t i = 0; i < count; i++)
        if (numbers[i] == number)
            return true;
    return false;
}

static bool is_counted(const struct server *server, uint32_t role, const struct seccomp_data *call) {
    if (role == ROLE_CONSUMER && !server->plan->in_main)
        return false;
    // What it prints and is told is the test's own business.
    bool of_file = call->nr == SYS_read || call->nr == SYS_write || call->nr == SYS_newfstatat ||
                   call->nr == SYS_fstat || call->nr == SYS_ioctl || call->nr == SYS_lseek;
    if (role == ROLE_CONSUMER && of_file && call->args[0] <= STDERR_FILENO)
        return false;
    // To stop watching a descriptor cannot fail for want of anything.
    if (call->nr == SYS_epoll_ctl && call->args[1] != EPOLL_CTL_ADD)
        return false;
    // To wake somebody cannot fail.
    uint64_t operation = call->args[1] & 127u; // without flags
    return call->nr != SYS_futex || operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
}

// Where the program's code is, as the kernel's map of it tells.
struct code {
    uint64_t base, begin, end;
};

static struct code find_code(pid_t tid) {
    char path[64], line[512], permissions[8], name[256];
    struct code code = {0};
    snprintf(path, sizeof path, "/proc/%d/maps", (int)tid);
    FILE *maps = fopen(path, "re");
    while (maps && fgets(line, sizeof line, maps)) {
        uint64_t begin, end;
        *name = 0;
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &begin, &end, permissions, name) < 3)
            continue;
        if (!code.base)
            code.base = begin;
        if (!code.begin && strchr(permissions, 'x'))
            code = (struct code){code.base, begin, end};
    }
    if (maps)
        fclose(maps);
    return code;
}

// For the report: what lies on the stack and points into the program's code. Some of it may be left over from earlier
// calls.
static void note_frames(struct plan *plan, pid_t tid) {
    char text[512], path[64];
    uint64_t stack[512], sp = 0;
    struct code code = find_code(tid);
    read_proc(tid, "syscall", text, sizeof text);
    if (sscanf(text, "%*d %*x %*x %*x %*x %*x %*x %lx", &sp) != 1)
        return;
    snprintf(path, sizeof path, "/proc/%d/mem", (int)tid);
    int memory = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = memory < 0 ? 0 : pread(memory, stack, sizeof stack, (off_t)sp);
    if (memory >= 0)
        close(memory);
    plan->frame_count = 0;
    for (ssize_t i = 0; i < count / 8 && plan->frame_count < PLAN_FRAMES; i++)
        if (stack[i] > code.begin && stack[i] < code.end)
            plan->frames[plan->frame_count++] = stack[i] - code.base;
}

// What reads from, or writes to, an eventfd or a pipe can only be interrupted, and libuv rightly relies on that.
static int plausible(const struct plan *plan, pid_t tid, const struct seccomp_data *call) {
    char path[64], what[32] = "";
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)tid, (int)call->args[0]);
    if (call->nr != SYS_read && call->nr != SYS_write)
        return plan->error;
    if (readlink(path, what, sizeof what - 1) < 0)
        return EINTR; // it does not let us see
    return strncmp(what, "anon_inode:", 11) == 0 || strncmp(what, "pipe:", 5) == 0 ? EINTR : plan->error;
}

static bool fails(struct server *server, pid_t tid, const struct seccomp_data *call) {
    struct plan *plan = server->plan;
    uint32_t role = role_of(server, tid), phase = plan->phase, number = (uint32_t)call->nr;
    plan->activity += !is_among(waits, COUNT(waits), call->nr);
    if (!is_counted(server, role, call))
        return false;
    uint32_t ordinal = plan_count(plan, role, phase, number);
    if (!plan_fails(plan, role, phase, number, ordinal))
        return false;
    note_frames(plan, tid);
    plan->fired_pid = (uint32_t)process_of(tid);
    plan->fired = 1;
    return true;
}

static void answer(struct server *server, const struct seccomp_notif *asked,
                   struct seccomp_notif_resp *said) {
    pid_t tid = (pid_t)asked->pid;
    *said = (struct seccomp_notif_resp){.id = asked->id};
    if (asked->data.nr == PLAN_BEGIN) {
        pid_t process = process_of(tid);
        server->begun[(uint32_t)process % TASKS] = process;
        forget(server, tid);
        return;
    }
    if (!is_among(listed, COUNT(listed), asked->data.nr))
        server->plan->unlisted = (uint32_t)asked->data.nr + 1;
    else if (fails(server, tid, &asked->data)) {
        said->error = -plausible(server->plan, tid, &asked->data);
        return;
    }
    if (asked->data.nr == SYS_execve)
        forget(server, tid);
    said->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
}

// Ends when nobody is left who could ask.
static _Noreturn void serve(struct server *server) {
    struct pollfd wait = {.fd = server->listener, .events = POLLIN};
    while (poll(&wait, 1, -1) >= 0 || errno == EINTR) {
        struct seccomp_notif asked = {0};
        struct seccomp_notif_resp said;
        if (wait.revents & POLLHUP)
            break;
        if (!(wait.revents & POLLIN) || ioctl(server->listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
            continue;
        answer(server, &asked, &said);
        ioctl(server->listener, SECCOMP_IOCTL_NOTIF_SEND, &said); // it may have been killed meanwhile
    }
    _exit(EXIT_SUCCESS);
}

// ---- Start --------------------------------------------------------------------------------------------------

static int install(void) {
    struct sock_filter code[COUNT(passed) + 8];
    unsigned short at = 0;
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < COUNT(passed); i++)
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)passed[i],
                                                  (uint8_t)(COUNT(passed) - i), 0);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = at, .filter = code};
    unsigned long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    if (geteuid() != 0)
        must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "inject: no_new_privs");
    // Without it, a signal makes the caller ask again; kernels before 5.19 lack it.
    long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
                      &program);
    if (fd < 0 && errno == EINVAL)
        fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    return (int)fd;
}

// Shares its descriptors with the program until it has the listener, and nothing afterwards.
static _Noreturn void watch(struct server *server, const _Atomic int *listener) {
    while (!*listener)
        sched_yield();
    server->listener = *listener;
    must(unshare(CLONE_FILES) == 0, "inject: unshare");
    for (int fd = 0; fd < 1024; fd++)
        if (fd != server->listener)
            close(fd);
    setsid();
    serve(server);
}

static int print_calls(void) {
#define FAIL(name, ...) printf("%s %d\n", #name, (int)SYS_##name);
#define WAIT(name, ...) printf("%s %d\n", #name, (int)SYS_##name);
#define PASS(name)
#include "tests/fault/calls.def"
    return EXIT_SUCCESS;
}

static struct plan *map_plan(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    must(fd >= 0, path);
    void *memory = mmap(NULL, sizeof(struct plan), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(memory != MAP_FAILED, path);
    close(fd);
    return memory;
}

int main(int argc, char **argv) {
    static struct server server;
    if (argc == 2 && strcmp(argv[1], "--calls") == 0)
        return print_calls();
    must(argc >= 4, "inject: PLAN ROLE PROGRAM [ARGUMENT...]");
    server.plan = map_plan(argv[1]);
    server.role = (uint32_t)strtoul(argv[2], NULL, 10);
    server.program = getpid();
    _Atomic int *listener =
        mmap(NULL, sizeof *listener, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(listener != MAP_FAILED, "inject: mmap");
    // The child of a child, so that the program does not find a child that it did not start.
    pid_t child = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
    must(child >= 0, "inject: clone");
    if (child == 0) {
        if (syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL) == 0)
            watch(&server, listener);
        _exit(EXIT_SUCCESS);
    }
    waitpid(child, NULL, 0);
    int fd = install();
    must(fd > 0, "inject: this kernel lets no filter ask");
    *listener = fd; // the last thing before somebody has to answer
    execv(argv[3], &argv[3]);
    must(false, argv[3]);
}
