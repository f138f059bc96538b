// Ragged fields of a dataset that is being opened: how large their samples are, by its index.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_RAGGED_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_RAGGED_H

#include "daemon/source/build/builder.h"

// To be called once the dataset has its files, samples and index. Maps the index for the supervisor if there are ragged
// fields, and sums up their sizes; without any, nobody needs it mapped. Refuses samples that are not whole values.
int builder_ragged(struct builder *builder);

// To be called once it is known which fields are delivered ragged: makes tables of their sizes for the supervisor,
// which can do without.
void builder_size_tables(struct builder *builder);

#endif
