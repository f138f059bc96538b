// Shared by the programs that attach to feedd: the options of a feed.
#ifndef FEEDD_BENCH_CONSUMER_H
#define FEEDD_BENCH_CONSUMER_H

#include "bench/bench.h"
#include "client/feed.h"

#define CONSUMER_OPTIONS                                                                                     \
    {"socket", 1, NULL, 'S'}, {"dataset", 1, NULL, 'd'}, {"batch-size", 1, NULL, 'b'},                       \
        {"shuffle", 0, NULL, 'x'}, {"seed", 1, NULL, 's'}, {"share", 1, NULL, 'n'}, {"rank", 1, NULL, 'r'},  \
        {"world-size", 1, NULL, 'w'}, {"wait-for", 1, NULL, 'k'}, {"prefetch", 1, NULL, 'p'}, {              \
        "ring-bytes", 1, NULL, 'R'                                                                           \
    }

// True when the letter was an option of a feed.
static inline bool consumer_option(struct feed_options *feed, int letter, const char *name,
                                   const char *value) {
    switch (letter) {
    case 'S':
        feed->socket = value;
        return true;
    case 'd':
        feed->dataset = value;
        return true;
    case 'b':
        feed->batch_size = (uint32_t)bench_number(name, value);
        return true;
    case 'x':
        feed->shuffle = true;
        return true;
    case 's':
        feed->seed = bench_number(name, value);
        return true;
    case 'n':
        feed->share = value;
        return true;
    case 'r':
        feed->rank = (uint32_t)bench_number(name, value);
        return true;
    case 'w':
        feed->world_size = (uint32_t)bench_number(name, value);
        return true;
    case 'k':
        feed->wait_for = (uint32_t)bench_number(name, value);
        return true;
    case 'p':
        feed->prefetch = (uint32_t)bench_number(name, value);
        return true;
    case 'R':
        feed->ring_bytes = bench_number(name, value);
        return true;
    default:
        return false;
    }
}

_Noreturn static inline void consumer_die(const char *what, struct feed *feed, int error) {
    fprintf(stderr, "%s: %s: %s (%s)\n", program_invocation_short_name, what, feed_strerror(feed),
            strerror(-error));
    exit(1);
}

#endif
