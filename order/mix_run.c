#include "order/mix_run.h"

#include <errno.h>
#include <string.h>

void mix_run_begin(struct mix_run *run, const uint32_t *weights, uint32_t sources) {
    memset(run, 0, sizeof *run);
    run->version = MIX_1;
    run->sources = sources;
    memcpy(run->weights, weights, sources * sizeof *weights);
}

static uint32_t common_factor(uint32_t a, uint32_t b) {
    while (b) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int mix_run_check(const struct mix_run *run, struct error *error) {
    uint64_t total = 0, left = run->base.start;
    uint32_t factor = 0;
    if (run->version != MIX_1)
        return error_set(error, -EINVAL, "found version %u of mixes, wanted %u", run->version, MIX_1);
    if (run->sources < 1 || run->sources > MIX_MAX_SOURCES)
        return error_set(error, -EINVAL, "found %u sources in a mix, wanted 1 to %u", run->sources,
                         MIX_MAX_SOURCES);
    for (uint32_t i = 0; i < MIX_MAX_SOURCES; i++) {
        if ((run->weights[i] == 0) != (i >= run->sources) || run->base.drawn[i] > left ||
            (run->base.drawn[i] && i >= run->sources))
            return error_set(error, -EINVAL,
                             "found weight %u and %llu draws of source %u, which is impossible",
                             run->weights[i], (unsigned long long)run->base.drawn[i], i);
        total += run->weights[i];
        left -= run->base.drawn[i];
        factor = common_factor(run->weights[i], factor);
    }
    if (total > MIX_MAX_TOTAL || factor != 1)
        return error_set(error, -EINVAL,
                         "found weights with a total of %llu and a common factor of %u, wanted at most %u and"
                         " no common factor",
                         (unsigned long long)total, factor, MIX_MAX_TOTAL);
    return 0;
}

bool mix_run_same(const struct mix_run *left, const struct mix_run *right) {
    return memcmp(left, right, sizeof *left) == 0;
}

static int find_base(const struct mix_run *run, uint64_t position, struct mix_base *base,
                     struct error *error) {
    struct mix *mix = NULL;
    struct mix_cursor *cursor = NULL;
    int err = mix_open((enum mix_version)run->version, run->weights, run->sources, &mix, error);
    if (!err)
        err = mix_cursor_open(mix, &run->base, &cursor, error);
    if (!err && mix_base_at(cursor, position, base) < 0)
        err = error_set(error, -ERANGE, "found position %llu, wanted one from %llu on, where the mix begins",
                        (unsigned long long)position, (unsigned long long)run->base.start);
    mix_cursor_close(cursor);
    mix_close(mix);
    return err;
}

int mix_run_change(struct mix_run *run, uint64_t position, const uint32_t *weights, uint32_t sources,
                   struct error *error) {
    struct mix_base base;
    if (sources == run->sources && memcmp(run->weights, weights, sources * sizeof *weights) == 0)
        return 0;
    int err = find_base(run, position, &base, error);
    if (err)
        return err;
    mix_run_begin(run, weights, sources);
    run->base.start = base.start;
    memcpy(run->base.drawn, base.drawn, sources * sizeof *base.drawn);
    return 0;
}

bool mix_run_position(uint64_t epoch_samples, uint64_t epoch, uint64_t position, uint64_t *in_run) {
    return !__builtin_mul_overflow(epoch_samples, epoch, in_run) &&
           !__builtin_add_overflow(*in_run, position, in_run) && *in_run <= INT64_MAX;
}
