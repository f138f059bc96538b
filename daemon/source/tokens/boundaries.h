// The field cu_seqlens of packed documents: where documents begin and end among the inputs of a window, which are all
// of its tokens but the last. It begins with 0 and ends with the number of inputs, and in between it rises: documents
// without tokens do not count.
//
// All of them are written into the index, 4 bytes each, and an extent per window says where (COLUMN_TEXT): so the
// supervisor knows their sizes, and the loader their places, without a search.
#ifndef FEEDD_DAEMON_SOURCE_TOKENS_BOUNDARIES_H
#define FEEDD_DAEMON_SOURCE_TOKENS_BOUNDARIES_H

#include "daemon/source/build/index_writer.h"
#include "daemon/source/tokens/documents.h"

// Adds the field and its column, the dataset's last.
int boundaries_add_field(struct builder *builder);

// Places the column at the end of the index, which grows by it.
int boundaries_place(struct builder *builder, const struct document_files *files);

// Writes the column, which follows what has been written.
int boundaries_write(struct index_writer *writer, const struct document_files *files);

#endif
