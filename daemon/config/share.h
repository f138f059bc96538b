// The share of a dataset's samples that a view has, as text: BEGIN..END. Each is a number of samples or a percentage
// with up to four decimals; without BEGIN it begins with the first sample, without END it ends with the last.
#ifndef FEEDD_DAEMON_CONFIG_SHARE_H
#define FEEDD_DAEMON_CONFIG_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct share_bound {
    uint64_t value; // of samples, or millionths of them
    bool relative;
};

// Zeros are no samples; share_whole are all.
struct share {
    struct share_bound begin, end;
};

struct share share_whole(void);

// False: not the form above, or a percentage above 100.
bool share_parse(const char *text, struct share *share);

// The samples first..first+count-1 of `of`. -ERANGE: a bound is beyond `of`, or the end lies before the beginning.
// -ENODATA: no sample is left.
int share_of(const struct share *share, uint64_t of, uint64_t *first, uint64_t *count);

#endif
