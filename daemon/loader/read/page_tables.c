#include "daemon/loader/read/page_tables.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

// VmPTE of /proc/self/status, or 0 if it is unknown.
static uint64_t table_bytes(void) {
    static const char key[] = "VmPTE:";
    char line[128];
    FILE *status CLEANUP(close_file) = fopen("/proc/self/status", "re");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, key, sizeof key - 1) == 0)
            return strtoull(line + sizeof key - 1, NULL, 10) * 1024; // in kB
    return 0;
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
