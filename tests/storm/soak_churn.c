// Attaches to a shared feed, takes a batch, and leaves, until it gets SIGTERM. It keeps the count and the last times in
// a file, as JSON, twice per second: soak_churn SOCKET DATASET BATCH_SIZE SHARE SEED PAUSE_US FILE.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "client/feed.h"

#define TIMES 256

struct churn {
    uint64_t count, told_ns;
    double times_ms[TIMES]; // of the last attachments, each at its number modulo TIMES
};

static volatile sig_atomic_t stopping;

static void on_term(int number) {
    (void)number;
    stopping = 1;
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

// Whole, or not at all.
static void tell(const struct churn *churn, const char *path) {
    char name[4096];
    snprintf(name, sizeof name, "%s.new", path);
    FILE *file = fopen(name, "we");
    if (!file)
        return;
    uint64_t most = churn->count < TIMES ? churn->count : TIMES;
    fprintf(file, "{\"count\": %llu, \"times_ms\": [", (unsigned long long)churn->count);
    for (uint64_t i = 0; i < most; i++)
        fprintf(file, "%s%.3f", i ? ", " : "", churn->times_ms[i]);
    fputs("]}\n", file);
    if (fclose(file) == 0)
        rename(name, path);
}

// 0, or an error, which is printed.
static int attach_once(struct churn *churn, const struct feed_options *options) {
    struct feed *feed;
    struct feed_batch batch;
    uint64_t begin = now_ns();
    int err = feed_open(&feed, options);
    if (!err) {
        churn->times_ms[churn->count % TIMES] = (double)(now_ns() - begin) / (double)NS_PER_MS;
        churn->count++;
        int got = feed_next(feed, &batch, 20000);
        err = got < 0 ? got : feed_batch_release(feed, &batch, NULL);
    }
    if (err)
        fprintf(stderr, "soak_churn: %s: %s\n", strerror(-err), feed_strerror(feed));
    feed_close(feed);
    return err;
}

int main(int argc, char **argv) {
    static struct churn churn;
    if (argc != 8)
        return 2;
    struct feed_options options = {.socket = argv[1],
                                   .dataset = argv[2],
                                   .batch_size = (uint32_t)strtoul(argv[3], NULL, 10),
                                   .share = argv[4],
                                   .shuffle = true,
                                   .prefetch = 2,
                                   .seed = strtoull(argv[5], NULL, 10)};
    struct timespec pause = {.tv_nsec = (long)(strtoull(argv[6], NULL, 10) * NS_PER_US)};
    struct sigaction action = {.sa_handler = on_term};
    sigaction(SIGTERM, &action, NULL);
    while (!stopping) {
        if (attach_once(&churn, &options))
            return stopping ? EXIT_SUCCESS : EXIT_FAILURE;
        if (now_ns() - churn.told_ns > NS_PER_S / 2) {
            churn.told_ns = now_ns();
            tell(&churn, argv[7]);
        }
        nanosleep(&pause, NULL);
    }
    return EXIT_SUCCESS;
}
