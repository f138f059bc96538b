// What a consumer of the storm is told to do.
#ifndef FEEDD_TESTS_STORM_STORM_OPTIONS_H
#define FEEDD_TESTS_STORM_STORM_OPTIONS_H

#include <stdbool.h>

#include "tests/storm/storm_check.h"

// --NAME=VALUE, or --NAME for a flag; false: there is no such option.
bool options_parse(struct consumer *consumer, char *argument);

// Maps a file of groups; NULL: there is none.
const struct storm_groups *options_groups(const char *path);

// Maps the ledger and the files' bytes; false: they are not there, as it has said.
bool options_prepare(struct consumer *consumer);

#endif
