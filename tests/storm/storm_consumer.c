// A consumer of the storm: compares each batch with the order that it must have and with the files' bytes, when it
// arrives and again before it gives it back, and keeps account in a file, from which a replacement continues after a
// SIGKILL.
//
// `storm_consumer --order SAMPLES SEED EPOCH` and `storm_consumer --windows GROUPS SEED EPOCH` print the order
// instead. Exit status: 0 when it was asked to stop (SIGTERM) or has taken --batches, 1 after an error, which is in the
// ledger, 2 for wrong options.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "tests/storm/storm_check.h"
#include "tests/storm/storm_options.h"

#define LOOK_UP_MS 500

static volatile sig_atomic_t stopping;

static void on_term(int number) {
    (void)number;
    stopping = 1;
}

static bool interrupted(void *context) {
    (void)context;
    return stopping;
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

static int end_with(struct consumer *consumer, int err, const char *what) {
    if (stopping)
        return EXIT_SUCCESS;
    snprintf(consumer->ledger->text, sizeof consumer->ledger->text, "%s: %s", what,
             feed_strerror(consumer->feed));
    consumer->ledger->error = (uint64_t)-err;
    consumer->ledger->failed_ns = now_ns();
    return EXIT_FAILURE;
}

// What the token says must be where the consumer stands.
static void commit(struct consumer *consumer, const struct feed_batch *batch) {
    struct storm_ledger *ledger = consumer->ledger;
    const struct storm_record *last = &ledger->record[ledger->commits % 2];
    struct storm_record *next = &ledger->record[(ledger->commits + 1) % 2];
    struct storm_position said = {0};
    int err = feed_token(consumer->feed, next->token);
    int read = sscanf(next->token, "feedd%*1[12].%*u.%*[0-9a-f].%*u.%" SCNu64 ".%" SCNu64, &said.epoch,
                      &said.consumed);
    if (err || read != 2)
        check_find(consumer, &ledger->wrong, 1, "no token", batch);
    said = storm_normal(&consumer->order, said);
    if (said.epoch != consumer->at.epoch || said.consumed != consumer->at.consumed)
        check_find(consumer, &ledger->wrong, 1, "the token is of another position", batch);
    next->epoch = consumer->at.epoch;
    next->consumed = consumer->at.consumed;
    next->samples = last->samples + batch->count;
    next->skipped = last->skipped + batch->skipped;
    __atomic_store_n(&ledger->commits, ledger->commits + 1, __ATOMIC_RELEASE); // read after a SIGKILL
}

// ---- Batches -----------------------------------------------------------------------------------------------

static void note_wait(const struct consumer *consumer, uint64_t begin, uint64_t end) {
    struct storm_ledger *ledger = consumer->ledger;
    ledger->waiting_ns = 0;
    if (end - begin < consumer->long_wait_us * NS_PER_US)
        return;
    ledger->wait[ledger->waits % STORM_WAITS] = (struct storm_wait){begin, end};
    __atomic_store_n(&ledger->waits, ledger->waits + 1, __ATOMIC_RELEASE); // the driver's load of it
}

static void note_arrival(struct consumer *consumer, const struct feed_batch *batch, uint64_t now) {
    struct storm_ledger *ledger = consumer->ledger;
    if (!consumer->taken)
        ledger->first_ns = now;
    else if (batch->generation != consumer->generation)
        ledger->generations++, ledger->generation_ns = now;
}

// Gives the oldest batch back; its bytes are still those of the file, unless the daemon says that they may not be.
static int release(struct consumer *consumer) {
    struct feed_batch *batch = &consumer->held[0];
    bool look = !consumer->options.device || batch->sequence % 8 == 0;
    uint64_t wrong = look ? check_bytes(consumer, batch) : 0;
    int err = feed_batch_release(consumer->feed, batch, FEED_NO_STREAM);
    if (!err && wrong)
        check_find(consumer, &consumer->ledger->wrong, wrong, "bytes changed while the batch was held",
                   batch);
    consumer->ledger->checked_again += look ? batch->count : 0;
    consumer->held_count--;
    memmove(&consumer->held[0], &consumer->held[1], consumer->held_count * sizeof consumer->held[0]);
    return err;
}

// A batch that is not as it must be is only a finding if the daemon had not taken it back: this consumer may have been
// paused for longer than max_lag.
static int refuse(struct consumer *consumer, const struct feed_batch *batch, uint64_t wrong) {
    int err = feed_batch_release(consumer->feed, batch, FEED_NO_STREAM);
    consumer->held_count--;
    if (err)
        consumer->ledger->revoked += batch->count;
    else
        check_find(consumer, &consumer->ledger->wrong, wrong, "wrong bytes", batch);
    return err;
}

// As feed_next(), until it is asked to stop: what it waits for may have been asked to stop, too (wait_for).
static int next_batch(struct consumer *consumer, struct feed_batch *batch) {
    int got;
    do
        got = feed_next(consumer->feed, batch, LOOK_UP_MS);
    while (got == -EAGAIN && !stopping);
    return got;
}

// 1 a batch, 0 none in this time, or an error.
static int take(struct consumer *consumer) {
    struct storm_ledger *ledger = consumer->ledger;
    struct feed_batch *batch = &consumer->held[consumer->held_count];
    uint64_t begin = ledger->waiting_ns = now_ns();
    int got = next_batch(consumer, batch);
    uint64_t now = now_ns();
    note_wait(consumer, begin, now);
    if (got != 1)
        return got;
    consumer->held_count++;
    note_arrival(consumer, batch, now);
    int err = feed_batch_wait(consumer->feed, batch, NULL);
    uint64_t wrong = err ? 0 : check_bytes(consumer, batch), replaced = consumer->replaced;
    if (wrong)
        err = refuse(consumer, batch, wrong);
    if (err)
        return err;
    check_place(consumer, batch);
    commit(consumer, batch);
    consumer->generation = batch->generation;
    consumer->taken++;
    ledger->batches++;
    ledger->samples += batch->count;
    ledger->skipped += batch->skipped;
    ledger->replaced += replaced;
    return 1;
}

static int run(struct consumer *consumer) {
    struct timespec pause = {.tv_nsec = (long)(consumer->pause_us * NS_PER_US)};
    while (!stopping && (!consumer->batches || consumer->taken < consumer->batches)) {
        int got = take(consumer);
        if (got < 0)
            return end_with(consumer, got, "feed_next");
        if (got == 0)
            continue;
        nanosleep(&pause, NULL);
        // It may have fewer leases than it asked for, and it may not wait with all of them in hand.
        uint64_t hold = consumer->hold, most = feed_describe(consumer->feed)->prefetch - 1;
        while (consumer->held_count > (hold < most ? hold : most)) {
            int err = release(consumer);
            if (err)
                return end_with(consumer, err, "release");
        }
    }
    while (consumer->held_count && release(consumer) == 0)
        ;
    return EXIT_SUCCESS;
}

// Where it begins: where its predecessor ended, if that was asked for.
static void begin(struct consumer *consumer) {
    const struct feed_description *description = feed_describe(consumer->feed);
    struct storm_ledger *ledger = consumer->ledger;
    const struct storm_record *record = &ledger->record[ledger->commits % 2];
    struct storm_position start = {description->start_epoch, description->start_consumed};
    struct feed_batch none = {.epoch = start.epoch, .first_position = start.consumed};
    consumer->at = storm_normal(&consumer->order, start);
    if (consumer->options.resume &&
        (consumer->at.epoch != record->epoch || consumer->at.consumed != record->consumed))
        check_find(consumer, &ledger->wrong, 1, "it does not begin where its token says", &none);
    if (description->samples != consumer->samples)
        check_find(consumer, &ledger->wrong, 1, "another number of samples", &none);
    ledger->attached++;
}

// From attaching to the end.
static int attend(struct consumer *consumer) {
    consumer->options.interrupted = interrupted;
    consumer->ledger->opened_ns = now_ns();
    consumer->ledger->error = 0;
    int err =
        feed_open_view(&consumer->feed, &consumer->options, consumer->view_text ? &consumer->view : NULL);
    if (err)
        return end_with(consumer, err, "feed_open_view");
    begin(consumer);
    return run(consumer);
}

static int print_order(char **arguments) {
    struct storm_order order = {.shuffle = true, .samples = strtoull(arguments[0], NULL, 10)};
    order.seed = strtoull(arguments[1], NULL, 10);
    for (uint64_t i = 0; i < order.samples; i++)
        printf("%" PRIu64 "\n", storm_order_sample(&order, strtoull(arguments[2], NULL, 10), i));
    return EXIT_SUCCESS;
}

static int print_windows(char **arguments) {
    static struct storm_windows windows;
    const uint64_t seed = strtoull(arguments[1], NULL, 10), epoch = strtoull(arguments[2], NULL, 10);
    windows.groups = options_groups(arguments[0]);
    if (!windows.groups)
        return 2;
    for (uint64_t i = 0; i < storm_windows_samples(windows.groups); i++)
        printf("%" PRIu64 "\n", storm_window_sample(&windows, seed, epoch, i));
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    static struct consumer consumer = {.long_wait_us = 2000};
    if (argc == 5 && strcmp(argv[1], "--order") == 0)
        return print_order(argv + 2);
    if (argc == 5 && strcmp(argv[1], "--windows") == 0)
        return print_windows(argv + 2);
    for (int i = 1; i < argc; i++)
        if (!options_parse(&consumer, argv[i])) {
            fprintf(stderr, "storm_consumer: unknown option %s\n", argv[i]);
            return 2;
        }
    struct sigaction action = {.sa_handler = on_term};
    sigaction(SIGTERM, &action, NULL);
    if (!options_prepare(&consumer) || !consumer.ledger)
        return 2;
    int status = attend(&consumer);
    feed_close(consumer.feed);
    free(consumer.fetched);
    return status;
}
