// Lists of tokens, which `pack` lays end to end: from the rows of all files to one sequence.
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_SEQUENCE_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_SEQUENCE_H

#include "daemon/source/arrow/arrow_fields.h"
#include "daemon/source/index/indexed_files.h"
#include "daemon/source/tokens/sequence.h"

// Makes the dataset's index out of the parts of the files, which have one field, and releases them.
int arrow_sequence_make(struct builder *builder, struct indexed_files *files, const struct arrow_want *want);

#endif
