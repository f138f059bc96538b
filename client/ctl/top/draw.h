// Bars and short histories, as text. Pure.
#ifndef FEEDD_CLIENT_CTL_TOP_DRAW_H
#define FEEDD_CLIENT_CTL_TOP_DRAW_H

#include <stdbool.h>
#include <stdint.h>

#define HISTORY_LENGTH 12
#define DRAW_BYTES     (4 * HISTORY_LENGTH + 1)

// The last values of something, one per look.
struct history {
    uint32_t count; // ever added
    double values[HISTORY_LENGTH];
};

void history_add(struct history *history, double value);

// The values as columns, the latest one at the right; the tallest is the largest of them. `blocks`: with characters of
// Unicode that terminals with UTF-8 have, otherwise in ASCII.
void draw_history(const struct history *history, bool blocks, char text[DRAW_BYTES]);

// A share, 0..1, as a bar of `width` (at most HISTORY_LENGTH) characters.
void draw_bar(double share, uint32_t width, bool blocks, char text[DRAW_BYTES]);

#endif
