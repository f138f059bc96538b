// The fields of windows that `pack` cuts from documents.
#ifndef FEEDD_DAEMON_SOURCE_TOKENS_WINDOW_FIELDS_H
#define FEEDD_DAEMON_SOURCE_TOKENS_WINDOW_FIELDS_H

#include "daemon/source/build/builder.h"

// Adds the dataset's fields: `name`, which has the tokens, position, document and, if it is configured, cu_seqlens.
// Adds the columns, too, which refer to the index that is to be made; tokens have one only if windows extend `across`
// files.
int window_fields_add(struct builder *builder, const char *name, uint32_t dtype, bool across);

#endif
