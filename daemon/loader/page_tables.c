#include "daemon/loader/page_tables.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

// VmPTE of /proc/self/status, or UINT64_MAX: there is no knowing.
static uint64_t table_bytes(void) {
    static const char key[] = "VmPTE:";
    char line[128];
    FILE *status CLEANUP(close_file) = fopen("/proc/self/status", "re");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, key, sizeof key - 1) == 0)
            return strtoull(line + sizeof key - 1, NULL, 10) * 1024; // in kB
    return UINT64_MAX;
}

bool page_tables_too_large(struct page_tables *tables) {
    if (tables->limit == UINT64_MAX)
        return false;
    struct rusage usage;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    getrusage(RUSAGE_SELF, &usage);
    uint64_t faults = (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
    // A fault makes one table at the most, but for those of the upper levels.
    if ((faults - tables->faults_seen) * page < PAGE_TABLES_SLACK)
        return false;
    tables->faults_seen = faults;
    return table_bytes() > tables->limit;
}
