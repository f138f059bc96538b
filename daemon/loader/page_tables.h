// What a process's page tables take: with 4 KiB pages 1/512 of what it has touched of its maps, for as long as they are
// mapped.
#ifndef FEEDD_DAEMON_LOADER_PAGE_TABLES_H
#define FEEDD_DAEMON_LOADER_PAGE_TABLES_H

#include "shm/base.h"

struct page_tables {
    uint64_t limit;       // bytes; UINT64_MAX: none
    uint64_t faults_seen; // when they were last looked at
};

// True when they have outgrown the limit, by no more than PAGE_TABLES_SLACK since the last call but for the faults in
// between. Cheap unless there were many faults.
bool page_tables_too_large(struct page_tables *tables);
#define PAGE_TABLES_SLACK (512u << 10)

#endif
