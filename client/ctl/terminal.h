// A terminal that is drawn over in place, through terminfo.
#ifndef FEEDD_CLIENT_CTL_TERMINAL_H
#define FEEDD_CLIENT_CTL_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/scope.h"

// True when standard output is a terminal that can be drawn over.
bool terminal_open(void);

// Size in characters, as it is now.
void terminal_size(uint32_t *width, uint32_t *height);

// Replaces what is on the screen by `text`, whole lines of it, as many as fit.
void terminal_draw(const char *text);

// Leaves the cursor below the last drawing.
void terminal_close(void);

#endif
