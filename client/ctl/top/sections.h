// The four sections of feedctl top, made of what was gathered. Pure.
#ifndef FEEDD_CLIENT_CTL_TOP_SECTIONS_H
#define FEEDD_CLIENT_CTL_TOP_SECTIONS_H

#include "client/ctl/top/draw.h"
#include "client/ctl/top/gather.h"
#include "client/ctl/top/section.h"

enum section_kind {
    SECTION_FEEDS,
    SECTION_CONSUMERS,
    SECTION_LOADERS,
    SECTION_GPUS,
    SECTIONS
};

// The history of a row, found by its section and key. One that was not added to at a look is forgotten.
struct kept_history {
    enum section_kind kind;
    uint64_t key;
    bool fresh;
    struct history history;
};

struct sections {
    struct section list[SECTIONS];
    struct kept_history *histories;
    uint32_t history_count, history_room;
    uint64_t feed; // whose consumers and loaders alone are shown; 0: all
    bool blocks;   // the terminal has the characters for bars
};

void sections_open(struct sections *sections, bool blocks);
// `before` NULL: this is the first look, and the rates are those since the start.
void sections_fill(struct sections *sections, const struct top_look *before, const struct top_look *now);
void sections_close(struct sections *sections);

#endif
