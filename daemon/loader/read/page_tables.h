// The memory of a process's page tables: with 4 KiB pages, 1/512 of what it has touched of its maps while they are
// mapped.
#ifndef FEEDD_DAEMON_LOADER_READ_PAGE_TABLES_H
#define FEEDD_DAEMON_LOADER_READ_PAGE_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"

struct page_tables {
    uint64_t most;         // bytes; UINT64_MAX: no limit
    uint64_t faults_seen;  // when they were last looked at
    uint64_t faults_begun; // when they were last small
};

// Opens what a confined loader can no longer open when it opens a reader.
void page_tables_prepare(void);

// They may grow by `growth` bytes from now on (UINT64_MAX: without limit).
void page_tables_limit(struct page_tables *tables, uint64_t growth);

// True when they have grown further, by at most PAGE_TABLES_SLACK and what was touched since the last call: the caller
// then maps its files again. Cheap unless there were many faults.
bool page_tables_too_large(struct page_tables *tables);
#define PAGE_TABLES_SLACK (512u << 10)

#endif
