// Runs a command with the restrictions of feedd.service, for machines where no systemd runs: those with GPUs on which
// nobody may boot a container. Needs root.
//
//   restrict CALLS USER FOLDER COMMAND...
//
// CALLS is a file with the names of the system calls that SystemCallFilter= denies, a line each. USER is a number,
// without an entry in /etc/passwd. FOLDER stands for the runtime and cache folders: the one place in the file system,
// besides /dev, that the command may write to. Left out are the settings that no system call of the command or of a
// driver can meet: UMask=, RemoveIPC=, IPAddressDeny= (there is no network), RestrictSUIDSGID=.
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAMESPACES                                                                                           \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |            \
     CLONE_NEWNET)

static void check(bool works, const char *what) {
    if (!works)
        error(EXIT_FAILURE, errno, "%s", what);
}

// ---- ProtectSystem=, ProtectProc=, ProtectKernel*=, ProtectControlGroups= -----------------------------------

static void set_writable(const char *path, bool writable, bool recursive) {
    struct mount_attr attributes = {.attr_set = writable ? 0 : MOUNT_ATTR_RDONLY,
                                    .attr_clr = writable ? MOUNT_ATTR_RDONLY : 0};
    check(syscall(SYS_mount_setattr, AT_FDCWD, path, recursive ? AT_RECURSIVE : 0, &attributes,
                  sizeof attributes) == 0,
          path);
}

static void protect(const char *path) {
    if (access(path, F_OK) < 0)
        return;
    check(mount(path, path, NULL, MS_BIND | MS_REC, NULL) == 0, path);
    set_writable(path, false, true);
}

static void hide(const char *path, const char *nothing) {
    if (access(path, F_OK) == 0)
        check(mount(nothing, path, NULL, MS_BIND, NULL) == 0, path);
}

static void restrict_files(const char *folder) {
    static const char *const tunables[] = {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus",
                                           "/proc/fs",  "/proc/acpi",          "/proc/apm", "/proc/asound"};
    char nothing[4096];
    check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private mounts");
    check(mount(folder, folder, NULL, MS_BIND, NULL) == 0, folder);
    snprintf(nothing, sizeof nothing, "%s/inaccessible", folder);
    check(mknod(nothing, S_IFREG, 0) == 0 || errno == EEXIST, nothing);
    set_writable("/", false, true);
    set_writable("/dev", true, true);
    set_writable(folder, true, false);
    check(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=invisible") == 0,
          "/proc");
    for (size_t i = 0; i < sizeof tunables / sizeof tunables[0]; i++)
        protect(tunables[i]);
    hide("/proc/kmsg", nothing);
    hide("/proc/kallsyms", nothing);
    hide("/proc/kcore", nothing);
    hide("/dev/kmsg", nothing);
}

// ---- User=, CapabilityBoundingSet=, NoNewPrivileges=, LimitMEMLOCK= ------------------------------------------

static void become(uid_t user) {
    struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_MEMLOCK, &unlimited) < 0)
        error(0, errno, "warning: the limit of locked memory stays as it is");
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        check(prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0, "the bounding set");
    check(setgroups(0, NULL) == 0 && setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0,
          "the user");
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
}

// ---- SystemCallFilter=, RestrictAddressFamilies=, RestrictNamespaces= and others ------------------------------

static void deny(scmp_filter_ctx filter, const char *name) {
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR)
        return; // newer than this libseccomp, or of another architecture
    int err = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0);
    if (err < 0 && err != -EDOM)
        error(EXIT_FAILURE, -err, "%s", name);
}

static void deny_all(scmp_filter_ctx filter, const char *path) {
    char line[256];
    unsigned count = 0;
    FILE *file = fopen(path, "re");
    check(file, path);
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#')
            continue;
        deny(filter, line);
        count++;
    }
    fclose(file);
    if (!count)
        error(EXIT_FAILURE, 0, "%s names no system call", path);
}

static scmp_filter_ctx make_filter(const char *path) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    check(filter, "a filter");
    deny_all(filter, path);
    for (int family = 0; family < AF_MAX; family++)
        if (family != AF_UNIX && family != AF_NETLINK)
            seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                             SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family));
    for (int bit = 0; bit < 31; bit++)
        if (NAMESPACES & 1 << bit)
            seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, 1u << bit, 1u << bit));
    seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    deny(filter, "unshare");
    deny(filter, "setns");
    deny(filter, "sethostname");
    deny(filter, "setdomainname");
    deny(filter, "syslog");
    seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(personality), 1, SCMP_A0(SCMP_CMP_NE, 0));
    for (int policy = SCHED_FIFO; policy <= SCHED_RR; policy++)
        seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(sched_setscheduler), 1,
                         SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)policy));
    return filter;
}

int main(int count, char **arguments) {
    if (count < 5)
        error(EXIT_FAILURE, 0, "wanted CALLS USER FOLDER COMMAND...");
    scmp_filter_ctx filter = make_filter(arguments[1]); // USER may not be allowed to read CALLS
    check(unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS) == 0, "namespaces");
    restrict_files(arguments[3]);
    become((uid_t)strtoul(arguments[2], NULL, 10));
    check(seccomp_load(filter) == 0, "the filter");
    execv(arguments[4], arguments + 4);
    error(EXIT_FAILURE, errno, "%s", arguments[4]);
}
