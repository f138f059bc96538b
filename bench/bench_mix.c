// What it costs to open a mixture and to look positions up: in batches of 256, the next one, every fourth one and
// elsewhere; one position; and all counts at one. Prints a JSON object per mixture with medians of nine rounds:
// bench_mix [SECONDS], for each way of looking up.
#include <malloc.h>

#include "base/sizes.h"
#include "bench/bench.h"
#include "order/mix.h"

#define BATCH  256u
#define ROUNDS 9

// Fills the weights of a mixture and returns how many there are.
typedef uint32_t fill(uint32_t weights[MIX_MAX_SOURCES]);

static uint32_t random_weights(uint32_t weights[MIX_MAX_SOURCES], uint32_t sources, uint32_t heaviest) {
    uint64_t state = 1;
    for (uint32_t i = 0; i < sources; i++)
        weights[i] = 1 + (uint32_t)(bench_mix(&state) % heaviest);
    return sources;
}

static uint32_t three(uint32_t weights[MIX_MAX_SOURCES]) {
    weights[0] = 5;
    weights[1] = 3;
    weights[2] = 2;
    return 3;
}

static uint32_t hundred_of_2_digits(uint32_t weights[MIX_MAX_SOURCES]) {
    return random_weights(weights, 100, 99);
}

// The longest list of light draws that must be made for 100 sources.
static uint32_t hundred_all_listed(uint32_t weights[MIX_MAX_SOURCES]) {
    return random_weights(weights, 100, 4900);
}

static uint32_t hundred_of_6_digits(uint32_t weights[MIX_MAX_SOURCES]) {
    return random_weights(weights, 100, 999999);
}

static uint32_t hundred_heavy(uint32_t weights[MIX_MAX_SOURCES]) {
    random_weights(weights, 100, 99999);
    for (uint32_t i = 0; i < 100; i++)
        weights[i] += 900000;
    return 100;
}

// The farthest way back for 100 sources of 6 digits: half of them just too heavy to be light.
static uint32_t hundred_far_back(uint32_t weights[MIX_MAX_SOURCES]) {
    for (uint32_t i = 0; i < 100; i++)
        weights[i] = i < 50 ? 999983 - i : 5243 + i % 2;
    return 100;
}

// The farthest way back of all: one source has nearly all of the largest total.
static uint32_t worst(uint32_t weights[MIX_MAX_SOURCES]) {
    weights[0] = 999000000;
    for (uint32_t i = 1; i < MIX_MAX_SOURCES; i++)
        weights[i] = 1028 + i % 3;
    return MIX_MAX_SOURCES;
}

struct measurement {
    uint32_t sources, weights[MIX_MAX_SOURCES];
    struct mix *mix;
    struct mix_cursor *cursor;
    uint64_t ns; // for a round
    uint64_t random;
    struct mix_draw draws[BATCH];
};

// Of this thread, in nanoseconds: what else the machine does matters less to it than to the time of day.
static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

typedef void look_up(struct measurement *measurement, uint64_t number);

static void look_up_next(struct measurement *measurement, uint64_t number) {
    mix_draws(measurement->cursor, number * BATCH, BATCH, measurement->draws);
}

// Every fourth batch, as one of four loaders asks for them.
static void look_up_fourth(struct measurement *measurement, uint64_t number) {
    mix_draws(measurement->cursor, 4 * number * BATCH, BATCH, measurement->draws);
}

static void look_up_elsewhere(struct measurement *measurement, uint64_t number) {
    (void)number;
    mix_draws(measurement->cursor, bench_mix(&measurement->random) >> 1, BATCH, measurement->draws);
}

static void look_up_single(struct measurement *measurement, uint64_t number) {
    (void)number;
    mix_draws(measurement->cursor, bench_mix(&measurement->random) >> 1, 1, measurement->draws);
}

static void look_up_counts(struct measurement *measurement, uint64_t number) {
    struct mix_base base;
    (void)number;
    if (mix_base_at(measurement->cursor, bench_mix(&measurement->random) >> 1, &base) < 0)
        bench_die("counts", ERANGE);
}

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

// Of the processor time of a call, in nanoseconds.
static double median(struct measurement *measurement, look_up *call) {
    double values[ROUNDS];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const uint64_t start = cpu_ns();
        uint64_t number = 0;
        do
            for (uint32_t k = 0; k < 8; k++)
                call(measurement, number++);
        while (cpu_ns() - start < measurement->ns);
        values[i] = (double)(cpu_ns() - start) / (double)number;
    }
    qsort(values, ROUNDS, sizeof *values, compare);
    return values[ROUNDS / 2];
}

// In milliseconds.
static double open_mixture(struct measurement *measurement) {
    double values[ROUNDS];
    struct error error = {0};
    for (uint32_t i = 0; i < ROUNDS; i++) {
        mix_cursor_close(measurement->cursor);
        mix_close(measurement->mix);
        const uint64_t start = cpu_ns();
        if (mix_open(MIX_1, measurement->weights, measurement->sources, &measurement->mix, &error) < 0 ||
            mix_cursor_open(measurement->mix, NULL, &measurement->cursor, &error) < 0)
            bench_die(error.text, error.code);
        values[i] = (double)(cpu_ns() - start) / 1e6;
    }
    qsort(values, ROUNDS, sizeof *values, compare);
    return values[ROUNDS / 2];
}

static void measure(const char *name, fill *fill_weights, double seconds) {
    struct measurement measurement = {.ns = (uint64_t)(seconds * 1e9 / ROUNDS), .random = 7};
    measurement.sources = fill_weights(measurement.weights);
    printf("{\"mixture\": \"%s\", \"sources\": %u", name, measurement.sources);
    printf(", \"open_ms\": %.2f", open_mixture(&measurement));
    printf(", \"lookback\": %llu", (unsigned long long)mix_lookback(measurement.mix));
    printf(", \"bytes\": %zu", malloc_usable_size(measurement.mix) + malloc_usable_size(measurement.cursor));
    printf(", \"ns_per_position\": {\"next\": %.1f", median(&measurement, look_up_next) / BATCH);
    printf(", \"fourth\": %.1f", median(&measurement, look_up_fourth) / BATCH);
    printf(", \"elsewhere\": %.1f}", median(&measurement, look_up_elsewhere) / BATCH);
    printf(", \"single_us\": %.2f", median(&measurement, look_up_single) / 1e3);
    printf(", \"counts_us\": %.2f}\n", median(&measurement, look_up_counts) / 1e3);
    mix_cursor_close(measurement.cursor);
    mix_close(measurement.mix);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        fill *fill_weights;
    } mixtures[] = {
        {"5, 3, 2", three},
        {"100 of 2 digits", hundred_of_2_digits},
        {"100, all listed", hundred_all_listed},
        {"100 of 6 digits", hundred_of_6_digits},
        {"100, all heavy", hundred_heavy},
        {"100, far back", hundred_far_back},
        {"256, worst", worst},
    };
    const double seconds = argc == 2 ? strtod(argv[1], NULL) : 1;
    if (argc > 2 || !(seconds > 0)) {
        fprintf(stderr, "usage: %s [SECONDS]\n", argv[0]);
        return 2;
    }
    for (size_t i = 0; i < COUNT_OF(mixtures); i++)
        measure(mixtures[i].name, mixtures[i].fill_weights, seconds);
    return 0;
}
