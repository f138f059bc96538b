// What the daemon leaves out of its answers because it belongs to other users.
#ifndef FEEDD_CLIENT_CTL_OTHERS_H
#define FEEDD_CLIENT_CTL_OTHERS_H

#include <jansson.h>

#include "proto/codec.h"

// Counts of what is left out.
struct others {
    uint32_t sessions, feeds, consumers, loaders;
    uint64_t ring_bytes;
};

// Of the page of an answer that has them, which is the last one; `others` stays as it is on any other.
void others_take(const Feedd__Answer *page, struct others *others);

#define OTHERS_TEXT 160

// "2 feeds of other users, with 3 consumers, 8 loaders and rings of 64 MiB"; "" if there are none.
const char *others_feeds(const struct others *others, char text[OTHERS_TEXT]);
// "5 sessions of other users"; "" if there are none.
const char *others_sessions(const struct others *others, char text[OTHERS_TEXT]);

json_t *others_json(const struct others *others);

#endif
