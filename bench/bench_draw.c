// How fast samples are drawn by weight, in one thread: bench_draw [--weights 1048576] [--draws 20000000]. It prints a
// line of JSON: the median of five rounds in million draws per CPU second, the lowest and highest of them, and how
// long it took to make the table.
#include <inttypes.h>
#include <math.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "bench/bench.h"
#include "order/draw.h"
#include "order/shares.h"

#define ROUNDS  5u
#define AT_ONCE 4096u // positions, as in a chunk of a batch

static double thread_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// Weights of very different sizes: logarithms of uniform numbers.
static void fill(uint64_t *words, uint64_t count) {
    uint64_t state = 1;
    for (uint64_t i = 0; i < count; i++) {
        const double weight = -log((double)(bench_mix(&state) >> 11 | 1) / 0x1p53);
        memcpy(&words[i], &weight, sizeof weight);
    }
}

static double measure(const struct draw_table *table, uint64_t round, uint64_t draws, uint64_t *check) {
    uint64_t positions[AT_ONCE];
    const double begin = thread_seconds();
    for (uint64_t at = 0; at < draws; at += AT_ONCE) {
        for (uint64_t i = 0; i < AT_ONCE; i++)
            positions[i] = at + i;
        draw_samples(table, 7, round, AT_ONCE, positions);
        *check += positions[at / AT_ONCE % AT_ONCE];
    }
    return (double)draws / (thread_seconds() - begin) / 1e6;
}

static int by_size(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static _Noreturn void explain(void) {
    fprintf(stderr, "usage: %s [--weights N] [--draws N]\n", program_invocation_short_name);
    exit(2);
}

static void parse(int argc, char **argv, uint64_t *weights, uint64_t *draws) {
    static const struct option options[] = {
        {"weights", required_argument, NULL, 'w'}, {"draws", required_argument, NULL, 'd'}, {0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'w':
            *weights = bench_number("weights", optarg);
            break;
        case 'd':
            *draws = bench_number("draws", optarg);
            break;
        default:
            explain();
        }
    if (optind != argc || *weights < 1 || *weights > SHARES_MOST || *draws < 1)
        explain();
}

int main(int argc, char **argv) {
    uint64_t weights = 1 << 20, draws = 20000000, check = 0;
    double rates[ROUNDS];
    struct draw_table table;
    parse(argc, argv, &weights, &draws);
    AUTO_FREE uint64_t *memory = malloc(draw_bytes(weights));
    if (!memory)
        bench_die("memory", ENOMEM);
    fill(memory, weights);
    const double begin = thread_seconds();
    if (shares_sum(DTYPE_F64, memory, weights))
        bench_die("weights", EINVAL);
    draw_prepare(memory, weights);
    const double made = thread_seconds() - begin;
    draw_init(&table, memory, weights);
    for (uint64_t round = 0; round < ROUNDS; round++)
        rates[round] = measure(&table, round, draws, &check);
    qsort(rates, ROUNDS, sizeof *rates, by_size);
    printf("{\"weights\": %" PRIu64
           ", \"table_bytes\": %zu, \"table_seconds\": %.3f, \"mdraws_per_s\": %.1f, "
           "\"least\": %.1f, \"most\": %.1f, \"check\": %" PRIu64 "}\n",
           weights, draw_bytes(weights), made, rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1], check);
    return 0;
}
