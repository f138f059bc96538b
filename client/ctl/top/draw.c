#include "client/ctl/top/draw.h"

#include <stdio.h>
#include <string.h>

#include "base/sizes.h"

void history_add(struct history *history, double value) {
    history->values[history->count % HISTORY_LENGTH] = value;
    history->count++;
}

// From empty to full.
static const char *const columns[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char *const ascii_columns[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
#define LEVELS 8

// What is more than nothing is seen.
static uint32_t level(double value, double most) {
    if (!(value > 0) || !(most > 0))
        return 0;
    double scaled = value / most * LEVELS;
    return scaled < 1 ? 1 : scaled > LEVELS ? LEVELS : (uint32_t)(scaled + 0.5);
}

void draw_history(const struct history *history, bool blocks, char text[DRAW_BYTES]) {
    uint32_t known = (uint32_t)min_u64(history->count, HISTORY_LENGTH);
    double most = 0;
    size_t used = 0;
    for (uint32_t i = 0; i < known; i++)
        if (history->values[i] > most)
            most = history->values[i];
    for (uint32_t i = 0; i < HISTORY_LENGTH - known; i++)
        text[used++] = ' ';
    for (uint32_t i = 0; i < known; i++) {
        double value = history->values[(history->count - known + i) % HISTORY_LENGTH];
        const char *column = (blocks ? columns : ascii_columns)[level(value, most)];
        memcpy(text + used, column, strlen(column));
        used += strlen(column);
    }
    text[used] = '\0';
}

void draw_bar(double share, uint32_t width, bool blocks, char text[DRAW_BYTES]) {
    double clipped = share > 1 ? 1 : share > 0 ? share : 0;
    uint32_t parts = (uint32_t)(clipped * width * LEVELS + 0.5);
    uint32_t whole = parts / LEVELS, rest = parts % LEVELS;
    size_t used = 0;
    for (uint32_t i = 0; i < width; i++) {
        const char *part = i < whole ? (blocks ? "█" : "#") : " ";
        if (i == whole && rest && blocks)
            part = eighths[rest];
        else if (i == whole && rest >= LEVELS / 2 && !blocks)
            part = "-";
        memcpy(text + used, part, strlen(part));
        used += strlen(part);
    }
    text[used] = '\0';
}
