// The nulls of a column in a record batch, as its validity bitmaps have them.
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_NULLS_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_NULLS_H

#include "daemon/source/arrow/arrow_rows.h"

// Marks the rows of the batch in which the field, what it is in, or a value of it is null. `offsets` are those of a
// column that has them, which delimit at most `most` values. Nulls that no bitmap shows are an error.
int arrow_nulls_mark(struct arrow_rows *rows, const struct arrow_batch *batch, uint32_t number,
                     const struct index_block *offsets, uint64_t most, struct error *error);

#endif
