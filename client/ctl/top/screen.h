// The terminal of feedctl top, through ncurses: shows lines, and says which key was pressed.
#ifndef FEEDD_CLIENT_CTL_TOP_SCREEN_H
#define FEEDD_CLIENT_CTL_TOP_SCREEN_H

#include <stdint.h>

#include "base/error.h"

enum screen_key {
    SCREEN_NONE, // the time is over
    SCREEN_QUIT,
    SCREEN_RESIZED,
    SCREEN_UP,
    SCREEN_DOWN,
    SCREEN_PAGE_UP,
    SCREEN_PAGE_DOWN,
    SCREEN_TAB,
    SCREEN_BACKTAB,
    SCREEN_ENTER,
    SCREEN_SORT,
    SCREEN_REVERSE,
    SCREEN_OTHER
};

int screen_open(struct error *error);
void screen_size(uint32_t *width, uint32_t *height);
// Lines as page_print writes them.
void screen_show(const char *lines);
enum screen_key screen_wait(uint64_t until_ns); // monotonic
void screen_close(void);

#endif
