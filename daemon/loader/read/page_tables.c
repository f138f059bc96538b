#include "daemon/loader/read/page_tables.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define STATUS_BYTES 4096u

static int status_fd = -1; // of this process, from its first use to its end

void page_tables_prepare(void) {
    if (status_fd < 0)
        status_fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
}

// VmPTE of /proc/self/status, or 0 if it is unknown.
static uint64_t table_bytes(void) {
    static const char key[] = "VmPTE:";
    char text[STATUS_BYTES];
    ssize_t got = status_fd < 0 ? -1 : pread(status_fd, text, sizeof text - 1, 0);
    if (got <= 0)
        return 0;
    text[got] = 0;
    const char *line = strstr(text, key);
    return line ? strtoull(line + sizeof key - 1, NULL, 10) * 1024 : 0; // in kB
}

static uint64_t faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

void page_tables_limit(struct page_tables *tables, uint64_t growth) {
    *tables = (struct page_tables){.most = UINT64_MAX};
    if (growth == UINT64_MAX)
        return;
    page_tables_prepare();
    tables->most = table_bytes() + growth;
    tables->faults_seen = tables->faults_begun = faults();
}

bool page_tables_too_large(struct page_tables *tables) {
    if (tables->most == UINT64_MAX)
        return false;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t now = faults();
    // A fault makes at most one table, not counting the upper levels.
    if ((now - tables->faults_seen) * page < PAGE_TABLES_SLACK)
        return false;
    tables->faults_seen = now;
    uint64_t bytes = table_bytes();
    if (!bytes)
        bytes = (now - tables->faults_begun) * page;
    if (bytes <= tables->most)
        return false;
    tables->faults_begun = now;
    return true;
}
