// Long lists are answered in pages.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_PAGE_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_QUERY_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#define PAGE_PATHS 12u // on a page, since a path can have 4 KiB

// A page under construction: rows before `start` are skipped, and `next` is set when the page is full.
struct page {
    uint32_t start, seen, count, most;
    uint32_t next;
};

// Whether the next row belongs on the page.
static inline bool page_takes(struct page *page) {
    uint32_t row = page->seen++;
    if (row < page->start)
        return false;
    if (page->count == page->most) {
        if (!page->next)
            page->next = row;
        return false;
    }
    page->count++;
    return true;
}

#endif
