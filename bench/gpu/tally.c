#include "bench/gpu/tally.h"

#include "base/scope.h"
#include "bench/bench.h"

#define BATCHES_MOST  (1u << 21) // whose sums there is room for
#define COMPARE_EVERY 64u        // batches

struct comparison {
    uint64_t batch, sum;
};

struct tally {
    const struct work *work;
    const struct streams *streams;
    struct work_check check;
    uint64_t *sums; // on the GPU, one per batch
    uint64_t batches;
    bool counting;   // an epoch has begun from its start
    uint32_t epochs; // whole ones since then
    uint64_t compared, wrong_batches;
    struct work_totals totals;
    struct comparison comparisons[BATCHES_MOST / COMPARE_EVERY];
};

struct tally *tally_open(const struct streams *streams, const struct feed *feed, bool by_sum) {
    const struct work *work = streams->work;
    const struct feed_description *description = feed_describe(feed);
    struct tally *tally = calloc(1, sizeof *tally);
    if (!tally)
        bench_die("memory", ENOMEM);
    uint64_t sample_bytes = description->field[0].bytes / description->field[0].shape[0];
    if (sample_bytes % 16)
        bench_die("samples that are not a multiple of 16 bytes", EINVAL);
    tally->work = work;
    tally->streams = streams;
    tally->sums = work->memory(BATCHES_MOST * sizeof *tally->sums);
    tally->check = (struct work_check){
        .sample_bytes = sample_bytes,
        .samples = description->samples,
        .seen = work->memory(description->samples * sizeof *tally->check.seen),
        .totals = work->memory(sizeof *tally->check.totals),
    };
    if (by_sum) {
        tally->check.word_sums = work->memory(description->samples * sizeof *tally->check.word_sums);
        work->make_sums(&tally->check, streams->stream[0]);
        streams_spread(streams);
    }
    return tally;
}

// The sum of one batch in COMPARE_EVERY on the GPU is compared later with what the order says.
static void expect(struct tally *tally, const struct feed *feed, const struct feed_batch *batch) {
    struct comparison *comparison = &tally->comparisons[tally->compared++];
    *comparison = (struct comparison){.batch = tally->batches};
    for (uint64_t i = 0; i < batch->count; i++) {
        int64_t sample = feed_batch_sample(feed, batch, i);
        if (sample < 0)
            bench_die("feed_batch_sample", (int)sample);
        comparison->sum += (uint64_t)sample;
    }
}

// No stream counts samples of the next epoch before those of this one have been checked.
static void check_epoch(struct tally *tally) {
    streams_gather(tally->streams);
    tally->work->check_epoch(&tally->check, ++tally->epochs, tally->streams->stream[0]);
    streams_spread(tally->streams);
}

void tally_batch(struct tally *tally, const struct feed *feed, const struct feed_batch *batch,
                 work_stream stream) {
    if (tally->batches == BATCHES_MOST)
        bench_die("more batches than can be checked", EOVERFLOW);
    if (batch->index == 0)
        tally->counting = true;
    struct work_check check = tally->check;
    check.data = batch->field[0].data;
    check.count = batch->count;
    check.sum = &tally->sums[tally->batches];
    if (!tally->counting)
        check.seen = NULL;
    tally->work->check(&check, stream);
    if (tally->batches % COMPARE_EVERY == 0)
        expect(tally, feed, batch);
    tally->batches++;
    if (batch->last_of_epoch && tally->counting)
        check_epoch(tally);
}

void tally_report(struct tally *tally) {
    work_stream stream = tally->streams->stream[0];
    AUTO_FREE uint64_t *sums = malloc(tally->batches * sizeof *sums + 1);
    if (!sums)
        bench_die("memory", ENOMEM);
    tally->work->copy_out(sums, tally->sums, tally->batches * sizeof *sums, stream);
    tally->work->copy_out(&tally->totals, tally->check.totals, sizeof tally->totals, stream);
    tally->work->finish();
    for (uint64_t i = 0; i < tally->compared; i++)
        tally->wrong_batches += sums[tally->comparisons[i].batch] != tally->comparisons[i].sum;
    printf("\"checked_samples\": %llu, \"whole_epochs\": %u, \"compared_batches\": %llu, ",
           (unsigned long long)tally->totals.samples, tally->epochs, (unsigned long long)tally->compared);
}

int tally_close(struct tally *tally) {
    const struct work_totals totals = tally->totals;
    uint64_t wrong_batches = tally->wrong_batches, compared = tally->compared;
    free(tally); // its GPU memory is freed with the process
    if (!totals.wrong_samples && !totals.wrong_words && !totals.wrong_sums && !totals.not_once &&
        !wrong_batches)
        return 0;
    fprintf(stderr,
            "%s: WRONG DATA: of %llu samples, %llu are not in the dataset, %llu words are wrong, and the "
            "words of %llu do not add up; %llu of %llu compared batches do not match the order; %llu "
            "times a sample was not in an epoch exactly once\n",
            program_invocation_short_name, (unsigned long long)totals.samples,
            (unsigned long long)totals.wrong_samples, (unsigned long long)totals.wrong_words,
            (unsigned long long)totals.wrong_sums, (unsigned long long)wrong_batches,
            (unsigned long long)compared, (unsigned long long)totals.not_once);
    return 1;
}
