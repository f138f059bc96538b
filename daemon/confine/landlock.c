#include "daemon/confine/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scope.h"

// The same numbers on every architecture. What follows is as in <linux/landlock.h> of Linux 6.12, which build machines
// need not have.
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif

struct ruleset {
    uint64_t files; // since version 1
    uint64_t tcp;   // since version 4
    uint64_t scope; // since version 6
};

struct beneath {
    uint64_t allowed;
    int32_t folder;
} __attribute__((packed));

#define CREATE_VERSION 1u
#define RULE_BENEATH   1

#define FILE_EXECUTE  (1u << 0)
#define FILE_WRITE    (1u << 1)
#define FILE_READ     (1u << 2)
#define FOLDER_READ   (1u << 3)
#define FILES_FIRST   ((1u << 13) - 1) // all of version 1
#define FILE_REFER    (1u << 13)       // version 2
#define FILE_TRUNCATE (1u << 14)       // version 3
#define DEVICE_IOCTL  (1u << 15)       // version 5
#define TCP_BOTH      3u               // bind and connect
#define SCOPE_SOCKETS 1u
#define SCOPE_SIGNALS 2u

int landlock_version(void) {
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_VERSION);
    return version < 0 ? -errno : (int)version;
}

static uint64_t file_rights(int version) {
    uint64_t rights = FILES_FIRST;
    if (version >= 2)
        rights |= FILE_REFER;
    if (version >= 3)
        rights |= FILE_TRUNCATE;
    if (version >= 5)
        rights |= DEVICE_IOCTL;
    return rights;
}

static struct ruleset choose(const struct landlock *landlock, int version) {
    const uint64_t reading = FILE_READ | FOLDER_READ | FILE_EXECUTE | DEVICE_IOCTL;
    struct ruleset rules = {0};
    if (landlock->no_paths)
        rules.files = file_rights(version);
    else if (landlock->no_writes)
        rules.files = file_rights(version) & ~reading;
    if (landlock->no_tcp && version >= LANDLOCK_FOR_TCP)
        rules.tcp = TCP_BOTH;
    if (version >= LANDLOCK_FOR_SIGNALS)
        rules.scope =
            (landlock->no_signals ? SCOPE_SIGNALS : 0) | (landlock->no_abstract_sockets ? SCOPE_SOCKETS : 0);
    return rules;
}

// Kernels take a shorter structure, but not a longer one than they know.
static size_t known_bytes(int version) {
    if (version < LANDLOCK_FOR_TCP)
        return offsetof(struct ruleset, tcp);
    return version < LANDLOCK_FOR_SIGNALS ? offsetof(struct ruleset, scope) : sizeof(struct ruleset);
}

static int allow(int ruleset, int folder, uint64_t rights) {
    struct beneath rule = {rights, folder};
    return syscall(SYS_landlock_add_rule, ruleset, RULE_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

// A folder that is not there needs no rule.
static int allow_beneath(int ruleset, const char *path, uint64_t rights) {
    AUTO_CLOSE int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return folder < 0 ? 0 : allow(ruleset, folder, rights);
}

int landlock_apply(const struct landlock *landlock, int version) {
    struct ruleset rules = choose(landlock, version);
    if (!rules.files && !rules.tcp && !rules.scope)
        return -EOPNOTSUPP;
    AUTO_CLOSE int ruleset = (int)syscall(SYS_landlock_create_ruleset, &rules, known_bytes(version), 0);
    if (ruleset < 0)
        return -errno;
    for (size_t i = 0; i < landlock->writable_count; i++) {
        int err = allow_beneath(ruleset, landlock->writable[i], rules.files);
        if (err)
            return err;
    }
    for (uint32_t i = 0; i < landlock->readable_count; i++) {
        int err = allow(ruleset, landlock->first_readable + (int)i, FILE_READ);
        if (err)
            return err;
    }
    return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}
