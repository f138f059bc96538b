// What a consumer of the storm has checked so far: a file that the consumer maps, and that outlives it. lanes.py reads
// it.
#ifndef FEEDD_TESTS_STORM_STORM_LEDGER_H
#define FEEDD_TESTS_STORM_STORM_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#define STORM_WAITS 256

// Where a consumer that replaces this one continues.
struct storm_record {
    char token[8448];          // FEED_TOKEN_BYTES
    uint64_t epoch, consumed;  // what the token must say
    uint64_t samples, skipped; // committed since the beginning
    uint64_t unused[4];
};

struct storm_wait {
    uint64_t begin_ns, end_ns;
};

// Written by one consumer at a time, which may be killed between any two lines; read by the driver.
struct storm_ledger {
    uint64_t commits; // record[commits % 2] is valid; stored after it, with release
    uint64_t wrong, doubled, lost;
    uint64_t batches, samples, skipped, checked_again;
    uint64_t attached;      // how many consumers have attached
    uint64_t opened_ns;     // feed_open() began
    uint64_t first_ns;      // the first batch of this consumer
    uint64_t generations;   // reconnects of all consumers
    uint64_t generation_ns; // the first batch after the last reconnect
    uint64_t waiting_ns;    // feed_next() began; 0: it has returned
    uint64_t waits;         // how many long ones; wait[waits % STORM_WAITS] is the next
    uint64_t error;         // errno of the last consumer's end, 0: none
    uint64_t revoked;       // samples that were overwritten, as was said
    uint64_t replaced;      // samples in whose places others were
    uint64_t passed_over;   // images that are whole, and were skipped
    uint64_t failed_ns;     // when the error was told
    uint64_t unused[12];
    char text[256]; // of the error, or of the first finding
    struct storm_record record[2];
    struct storm_wait wait[STORM_WAITS];
};

_Static_assert(offsetof(struct storm_ledger, text) == 256, "as in lanes.py");
_Static_assert(offsetof(struct storm_ledger, record) == 512, "as in lanes.py");
_Static_assert(sizeof(struct storm_record) == 8512, "as in lanes.py");
_Static_assert(offsetof(struct storm_ledger, wait) == 17536, "as in lanes.py");

#endif
