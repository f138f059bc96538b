// Parquet files.
//
// The index is made in one pass over the columns that are declared, which are decoded to find the sizes of samples. It
// has the values of numbers. What else samples have is in blocks (block/block.h), as small as the format allows:
// a page, or the dictionary of some; of lists, whose rows may begin in one page and end in another, all pages of a row
// group. What is neither compressed nor mixed is read in place.
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_PARQUET_H
#define FEEDD_DAEMON_SOURCE_SOURCE_PARQUET_H

#include "daemon/source/source_format.h"

extern const struct source_format source_parquet;

#endif
