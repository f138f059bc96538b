#include "daemon/confine/confine.h"

#include <string.h>
#include <sys/prctl.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/confine/filter.h"
#include "daemon/confine/landlock.h"
#include "daemon/confine/limits.h"
#include "daemon/log.h"
#include "shm/confinement.h"

// A sanitizer opens files to report, and attaches to its own process to look for leaks.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

static bool wanted = true;

void confine_set(bool is_wanted) {
    wanted = is_wanted;
}

bool confine_is_wanted(void) {
    return wanted;
}

const char *confine_note(void) {
    if (!wanted)
        return "confine = no";
    if (SANITIZED)
        return "built with a sanitizer, which needs what confined processes give up";
    return filter_is_built() ? "" : "built without libseccomp: system calls are not filtered";
}

bool confine_describe_missing(uint64_t confined, char text[CONFINE_TEXT]) {
    uint32_t missing = confinement_wanted(confined) & ~confinement_achieved(confined);
    size_t used = 0;
    *text = 0;
    for (uint32_t i = 0; i < CONFINEMENT_PARTS && used < CONFINE_TEXT; i++)
        if (missing & 1u << i)
            used += (size_t)snprintf(text + used, CONFINE_TEXT - used, "%s%s", used ? ", " : "",
                                     confinement_name((enum confinement_part)i));
    return missing != 0;
}

// ---- Keeping account ---------------------------------------------------------------------------------------

struct account {
    uint32_t wanted, achieved;
};

static void enter(struct account *account, enum confinement_part part, int err) {
    account->wanted |= 1u << part;
    if (!err)
        account->achieved |= 1u << part;
    else
        log_debug("confinement: no %s: %s", confinement_name(part), strerror(-err));
}

static struct account account_of(uint64_t word) {
    return (struct account){confinement_wanted(word), confinement_achieved(word)};
}

static uint64_t word_of(const struct account *account) {
    return confinement_word(account->wanted, account->achieved);
}

// ---- Parts -------------------------------------------------------------------------------------------------

static void give_up_privileges(struct account *account) {
    enter(account, CONFINED_PRIVILEGES, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0);
}

static void give_up_dumps(struct account *account) {
    enter(account, CONFINED_DUMPS, prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0);
}

static void apply_landlock(struct account *account, const struct landlock *landlock) {
    const struct {
        bool wanted;
        enum confinement_part part;
        int version;
    } parts[] = {{landlock->no_paths, CONFINED_PATHS, LANDLOCK_FOR_PATHS},
                 {landlock->no_writes, CONFINED_WRITES, LANDLOCK_FOR_PATHS},
                 {landlock->no_tcp, CONFINED_TCP, LANDLOCK_FOR_TCP},
                 {landlock->no_signals, CONFINED_SIGNALS, LANDLOCK_FOR_SIGNALS}};
    int version = landlock_version();
    int err = version < 0 ? version : landlock_apply(landlock, version);
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (parts[i].wanted)
            enter(account, parts[i].part, !err && version < parts[i].version ? -EOPNOTSUPP : err);
}

static void filter(struct account *account, int err) {
    if (filter_is_built())
        enter(account, CONFINED_CALLS, err);
}

// ---- Roles -------------------------------------------------------------------------------------------------

// It keeps its core dumps: it holds no samples, and its crashes must remain debuggable.
uint64_t confine_supervisor(void) {
    const struct landlock landlock = {.no_signals = true};
    struct account account = {0};
    if (!wanted)
        return 0;
    give_up_privileges(&account);
    if (!SANITIZED) {
        apply_landlock(&account, &landlock);
        filter(&account, filter_supervisor());
    }
    return word_of(&account);
}

uint64_t confine_loader_early(int first_folder, uint32_t folder_count) {
    const struct landlock landlock = {.no_paths = true,
                                      .first_readable = first_folder,
                                      .readable_count = folder_count,
                                      .no_tcp = true,
                                      .no_signals = true,
                                      .no_abstract_sockets = true};
    struct account account = {0};
    if (!wanted)
        return 0;
    give_up_privileges(&account);
    give_up_dumps(&account);
    if (!SANITIZED)
        apply_landlock(&account, &landlock);
    return word_of(&account);
}

void confine_loader_prepare(void) {
    if (wanted && !SANITIZED)
        filter_loader_prepare();
}

uint64_t confine_loader(const struct confine_loader *loader, uint64_t early) {
    struct account account = account_of(early);
    if (!wanted)
        return 0;
    if (loader->uring)
        enter(&account, CONFINED_URING, loader->uring_restricted ? 0 : -EOPNOTSUPP);
    enter(&account, CONFINED_CAPABILITIES, limits_drop_capabilities());
    if (!SANITIZED) {
        enter(&account, CONFINED_LIMITS, limits_close(loader->descriptors));
        filter(&account, filter_loader(loader));
    }
    return word_of(&account);
}

uint64_t confine_transfer_early(void) {
    // A driver writes to its devices, to names of threads in /proc, and to the pipes of its own daemons.
    static const char *const writable[] = {"/dev", "/proc", "/tmp"};
    const struct landlock landlock = {.no_writes = true,
                                      .writable = writable,
                                      .writable_count = COUNT_OF(writable),
                                      .no_tcp = true,
                                      .no_signals = true};
    struct account account = {0};
    if (!wanted)
        return 0;
    give_up_privileges(&account);
    if (!SANITIZED)
        apply_landlock(&account, &landlock);
    return word_of(&account);
}

uint64_t confine_transfer(uint64_t early) {
    struct account account = account_of(early);
    if (!wanted)
        return 0;
    give_up_dumps(&account);
    if (!SANITIZED)
        filter(&account, filter_transfer());
    return word_of(&account);
}
