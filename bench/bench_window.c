// How fast the order of windows of groups is computed (order/window.h), in one thread: bench_window [--groups 1281]
// [--samples 1000] [--window 16] [--positions 10000000]. Groups have about as many samples as --samples says. It
// prints a line of JSON: the medians of five rounds of the time that the first position of an epoch takes, and of
// million positions per CPU second in batches of 256, with the lowest and highest of these; and of the order without
// windows.
#include <inttypes.h>

#include "base/sizes.h"
#include "bench/bench.h"
#include "order/order.h"
#include "order/window.h"

#define ROUNDS  5u
#define AT_ONCE 256u

struct shape {
    uint64_t groups, samples, window, positions;
};

static double thread_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int by_size(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static struct window_groups *make_groups(const struct shape *shape) {
    struct window_groups *groups = malloc(window_groups_bytes(shape->groups));
    uint64_t state = 1, at = 0;
    if (!groups)
        bench_die("memory", ENOMEM);
    groups->window = shape->window;
    groups->count = shape->groups;
    for (uint64_t i = 0; i <= shape->groups; i++) {
        groups->bounds[i] = at;
        at += 1 + shape->samples / 2 + bench_mix(&state) % shape->samples;
    }
    return groups;
}

static double measure(struct window_order *order, const struct order *whole, const struct shape *shape,
                      uint64_t total, uint64_t epoch, uint64_t *check) {
    uint64_t samples[AT_ONCE];
    const double begin = thread_seconds();
    for (uint64_t done = 0; done < shape->positions; done += AT_ONCE) {
        const uint64_t first = done % (total - total % AT_ONCE);
        if (order)
            window_order_samples(order, epoch, first, AT_ONCE, samples);
        else
            order_samples(whole, first, AT_ONCE, samples);
        *check += samples[done / AT_ONCE % AT_ONCE];
    }
    return (double)shape->positions / (thread_seconds() - begin) / 1e6;
}

static _Noreturn void explain(void) {
    fprintf(stderr, "usage: %s [--groups N] [--samples N] [--window N] [--positions N]\n",
            program_invocation_short_name);
    exit(2);
}

static struct shape parse(int argc, char **argv) {
    static const struct option options[] = {{"groups", required_argument, NULL, 'b'},
                                            {"samples", required_argument, NULL, 's'},
                                            {"window", required_argument, NULL, 'w'},
                                            {"positions", required_argument, NULL, 'p'},
                                            {0}};
    struct shape shape = {.groups = 1281, .samples = 1000, .window = 16, .positions = 10000000};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == '?')
            explain();
        uint64_t *value = option == 'b'   ? &shape.groups
                          : option == 's' ? &shape.samples
                          : option == 'w' ? &shape.window
                                          : &shape.positions;
        *value = bench_number("the number", optarg);
    }
    if (optind != argc || shape.groups < 1 || shape.groups > WINDOW_MAX_GROUPS || shape.samples < AT_ONCE ||
        shape.window < 1 || shape.positions < 1)
        explain();
    return shape;
}

int main(int argc, char **argv) {
    const struct shape shape = parse(argc, argv);
    AUTO_FREE struct window_groups *groups = make_groups(&shape);
    const uint64_t total = groups->bounds[shape.groups];
    double begins[ROUNDS], rates[ROUNDS], wholes[ROUNDS];
    struct window_order *order;
    uint64_t check = 0;
    if (window_order_open(groups, 0, total, 7, &order))
        bench_die("memory", ENOMEM);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct order whole;
        uint64_t sample;
        const double begin = thread_seconds();
        window_order_samples(order, round, 0, 1, &sample);
        begins[round] = (thread_seconds() - begin) * 1e3;
        rates[round] = measure(order, NULL, &shape, total, round, &check);
        order_init(&whole, ORDER_FEISTEL_1, total, 7, round);
        wholes[round] = measure(NULL, &whole, &shape, total, round, &check);
    }
    window_order_close(order);
    qsort(begins, ROUNDS, sizeof *begins, by_size);
    qsort(rates, ROUNDS, sizeof *rates, by_size);
    qsort(wholes, ROUNDS, sizeof *wholes, by_size);
    printf("{\"groups\": %" PRIu64 ", \"window\": %" PRIu64 ", \"samples\": %" PRIu64
           ", \"epoch_ms\": %.3f, \"mpositions_per_s\": %.1f, \"least\": %.1f, \"most\": %.1f,"
           " \"without_windows\": %.1f, \"check\": %" PRIu64 "}\n",
           shape.groups, shape.window, total, begins[ROUNDS / 2], rates[ROUNDS / 2], rates[0],
           rates[ROUNDS - 1], wholes[ROUNDS / 2], check);
    return 0;
}
