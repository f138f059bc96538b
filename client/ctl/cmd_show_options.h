// The options of feedctl show.
#ifndef FEEDD_CLIENT_CTL_CMD_SHOW_OPTIONS_H
#define FEEDD_CLIENT_CTL_CMD_SHOW_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/feed.h"

#define SHOW_BY_DEFAULT 3 // samples
#define SHOW_MOST       65536

struct show_options {
    const char *dataset;
    uint64_t *samples; // allocated, with room for SHOW_MOST
    size_t sample_count;
    const char *fields[FEED_MAX_FIELDS]; // to show; none: all
    uint32_t field_count;
    const char *output; // a file for images; NULL: none
    const char *sheet;  // a file for all images together, which is all that is shown; NULL: none
    uint64_t values;    // of each field, at most; UINT64_MAX: all
    bool values_given;
    bool json, draw;
    uint64_t epoch, seed;
    bool shuffle; // samples are places in the shuffled order
};

// Exits with a usage message on an error.
void show_parse(int count, char **arguments, struct show_options *options);

// The file for one image: `output`, in which "%d" becomes the sample's number. Before ".png" comes what tells several
// images apart: the number if there are several samples and no "%d", and the name if there are several fields.
// Allocated; NULL when out of memory.
char *show_output_path(const char *output, uint64_t sample, bool several_samples, const char *field,
                       bool several_fields);

#endif
