// The screen of feedctl top as lines of text. Pure: knows no terminal.
#ifndef FEEDD_CLIENT_CTL_TOP_PAGE_H
#define FEEDD_CLIENT_CTL_TOP_PAGE_H

#include "client/ctl/top/sections.h"

// What a line is: the first character of each line that page_print writes, which is not shown.
enum page_line {
    PAGE_DAEMON = 'd',
    PAGE_TITLE = 't',
    PAGE_ROW = 'r',
    PAGE_PICKED = 'p',
    PAGE_NOTE = 'n',
    PAGE_KEYS = 'k'
};

struct page {
    uint32_t width, height;
    enum section_kind focus; // whose picked row is shown and marked
    enum daemon_state state;
    const char *note; // in place of the keys; NULL: none
};

// How many lines each section gets of those that there are: what it wants, and otherwise the same for all; what is left
// over goes to `focus` first.
void page_share(const uint32_t wanted[SECTIONS], enum section_kind focus, uint32_t lines,
                uint32_t given[SECTIONS]);

// At most `height` lines, of at most `width` characters. `before` NULL: this is the first look.
void page_print(const struct page *page, struct sections *sections, const struct top_look *before,
                const struct top_look *now, FILE *out);

#endif
