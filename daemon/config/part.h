// The part of a dataset's samples that a view has, as text: BEGIN..END. Each is a number of samples or a percentage
// with up to four decimals; without BEGIN it begins with the first sample, without END it ends with the last.
#ifndef FEEDD_DAEMON_CONFIG_PART_H
#define FEEDD_DAEMON_CONFIG_PART_H

#include <stdbool.h>
#include <stdint.h>

struct part_bound {
    uint64_t value; // of samples, or millionths of them
    bool relative;
};

// Zeros are no samples; part_whole are all.
struct part {
    struct part_bound begin, end;
};

struct part part_whole(void);

// False: not the form above, or a percentage above 100.
bool part_parse(const char *text, struct part *part);

// The samples first..first+count-1 of `of`. -ERANGE: a bound is beyond `of`, or the end lies before the beginning.
// -ENODATA: no sample is left.
int part_of(const struct part *part, uint64_t of, uint64_t *first, uint64_t *count);

#endif
