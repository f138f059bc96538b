// A library to be preloaded into feedd and into consumers: counts the calls of malloc and its relatives, and lets the
// one fail that the plan names. It sets up everything when it is loaded, before anything is confined. In a consumer it
// also says when the program begins, and how many descriptors it has then and when it ends.
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/fault/plan.h"

#define VISIBLE __attribute__((visibility("default")))
#define SITE    __builtin_return_address(0)

static struct plan *plan;
static uint32_t role;
static const char
    *shown;            // the arguments, one after another, which a prepared loader changes once it has a feed
static uintptr_t base; // where the program is loaded

static uint32_t find_role(const struct plan *from) {
    char line[4096] = "";
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t count = read(fd, line, sizeof line - 1);
    close(fd);
    for (ssize_t i = 0; i < count; i++)
        line[i] = line[i] ? line[i] : ' ';
    if (strncmp(line, "feedd-transfer ", 15) == 0)
        return ROLE_TRANSFER;
    if (strncmp(line, "feedd-prepared ", 15) == 0)
        return ROLE_PREPARED;
    const char *feed = strstr(line, " feed ");
    if (strncmp(line, "feedd-loader ", 13) == 0)
        return feed && strtoul(feed + 6, NULL, 10) == from->bystander ? ROLE_NONE : ROLE_LOADER;
    const char *given = getenv("FEEDD_FAULT_ROLE");
    return strstr(line, "/inject ") || !given ? ROLE_NONE : (uint32_t)strtoul(given, NULL, 10);
}

// Without a system call, which would be counted.
static uint32_t role_now(const struct plan *from) {
    static const char loader[] = "feedd-loader\0--role=loader\0feed ";
    if (role == ROLE_PREPARED && memcmp(shown, loader, sizeof loader - 1) == 0)
        role = strtoul(shown + sizeof loader - 1, NULL, 10) == from->bystander ? ROLE_NONE : ROLE_LOADER;
    return role;
}

static uint32_t count_descriptors(void) {
    uint32_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static int note_base(struct dl_phdr_info *info, size_t bytes, void *unused) {
    (void)bytes;
    (void)unused;
    base = info->dlpi_addr;
    return 1; // the first one is the program
}

// glibc calls constructors with the arguments of main.
__attribute__((constructor)) static void begin(int argc, char **argv) {
    (void)argc;
    void *frames[4];
    const char *path = getenv(PLAN_VARIABLE);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *memory = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return;
    backtrace(frames, 4); // loads what it needs
    shown = argv[0];
    role = find_role(memory);
    dl_iterate_phdr(note_base, NULL);
    plan = memory;
    if (role == ROLE_CONSUMER) {
        plan->descriptors_before = count_descriptors();
        plan->in_main = 1;
    }
    syscall(PLAN_BEGIN);
}

__attribute__((destructor)) static void end(void) {
    if (!plan || role != ROLE_CONSUMER)
        return;
    plan->in_main = 0;
    plan->descriptors_after = count_descriptors();
}

static void note_frames(struct plan *into) {
    void *frames[PLAN_FRAMES];
    int count = backtrace(frames, PLAN_FRAMES);
    into->frame_count = count > 0 ? (uint32_t)count : 0;
    for (int i = 0; i < count; i++)
        into->frames[i] = (uintptr_t)frames[i] - base;
}

static void note_site(struct plan *into, uint32_t caller, uint32_t phase, uint32_t ordinal,
                      const void *site) {
    uint32_t at = into->site_count < PLAN_SITES ? into->site_count++ : PLAN_SITES;
    if (at < PLAN_SITES)
        into->sites[at] = (struct plan_site){caller, phase, ordinal, 0, (uintptr_t)site};
}

static int fails(const void *site) {
    struct plan *mine = plan;
    uint32_t phase = mine ? mine->phase : 0;
    uint32_t caller = mine ? role_now(mine) : ROLE_NONE;
    uint32_t ordinal = mine ? plan_count(mine, caller, phase, CALL_ALLOCATE) : 0;
    if (!ordinal)
        return 0;
    mine->activity++;
    note_site(mine, caller, phase, ordinal, site);
    if (!plan_fails(mine, caller, phase, CALL_ALLOCATE, ordinal))
        return 0;
    mine->fired_pid = (uint32_t)getpid();
    mine->fired = 1;
    note_frames(mine);
    return 1;
}

// ---- The functions ------------------------------------------------------------------------------------------
// glibc's own, under the names that it has for them.

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

VISIBLE void *malloc(size_t bytes) {
    return fails(SITE) ? no_memory() : __libc_malloc(bytes);
}

VISIBLE void *calloc(size_t count, size_t bytes) {
    return fails(SITE) ? no_memory() : __libc_calloc(count, bytes);
}

VISIBLE void *realloc(void *memory, size_t bytes) {
    return fails(SITE) ? no_memory() : __libc_realloc(memory, bytes);
}

VISIBLE void *aligned_alloc(size_t alignment, size_t bytes) {
    return fails(SITE) ? no_memory() : __libc_memalign(alignment, bytes);
}

VISIBLE void *memalign(size_t alignment, size_t bytes) {
    return fails(SITE) ? no_memory() : __libc_memalign(alignment, bytes);
}

VISIBLE int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    void *got = fails(SITE) ? NULL : __libc_memalign(alignment, bytes);
    if (!got)
        return ENOMEM;
    *memory = got;
    return 0;
}
