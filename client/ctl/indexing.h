// How far an index is, for people and for programs.
#ifndef FEEDD_CLIENT_CTL_INDEXING_H
#define FEEDD_CLIENT_CTL_INDEXING_H

#include "client/ctl/text.h"
#include "proto/codec.h"

#define INDEXING_TEXT 200u

// "12 of 100 files, 400 MiB of 3.1 GiB, 120 MiB/s, about 25 s left"
const char *indexing_text(const Feedd__Indexing *indexing, char text[INDEXING_TEXT]);

// null if there is none
json_t *indexing_json(const Feedd__Indexing *indexing);

#endif
