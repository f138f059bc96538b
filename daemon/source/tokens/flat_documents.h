// Flat files of values of one type, with files of offsets that say where their samples begin and end: `tokens` and
// `records` with `offsets`. The n-th file of offsets is that of the n-th data file, both in byte order of their names.
#ifndef FEEDD_DAEMON_SOURCE_TOKENS_FLAT_DOCUMENTS_H
#define FEEDD_DAEMON_SOURCE_TOKENS_FLAT_DOCUMENTS_H

#include "daemon/source/build/builder.h"

// Adds files and index to a dataset that has its fields (documents_add_fields).
int flat_documents_open(struct builder *builder, uint32_t dtype);

#endif
