#include "order/mix_samples.h"

#include <errno.h>
#include <string.h>

#include "base/scope.h"
#include "base/sizes.h"

struct source {
    struct mix_source about;
    // During mix_samples_at: the first of its draws, how many there are, and where in `drawn` their samples begin.
    uint64_t number;
    uint32_t count, begin;
};

struct mix_samples {
    struct mix *mix;
    struct mix_cursor *cursor;
    uint32_t count; // of sources
    struct mix_draw *draws;
    uint64_t *drawn; // samples, source by source
    struct source sources[];
};

// ---- One source --------------------------------------------------------------------------------------------

// The samples of its draws number..number+count-1, epoch by epoch.
static void find_samples(const struct mix_samples *samples, const struct source *source) {
    struct sampler *sampler = source->about.sampler;
    uint64_t *to = samples->drawn + source->begin;
    for (uint32_t done = 0; done < source->count;) {
        const struct mix_place place = mix_place(source->number + done, sampler->samples);
        const uint32_t here = (uint32_t)min_u64(source->count - done, sampler->samples - place.position);
        sampler_samples(sampler, place.epoch, place.position, here, to + done);
        done += here;
    }
    for (uint32_t i = 0; i < source->count; i++)
        if (to[i] != UINT64_MAX)
            to[i] += source->about.first;
}

// ---- All of them -------------------------------------------------------------------------------------------

// Between two positions of a run, the draws of a source have consecutive numbers.
static void count_draws(struct mix_samples *samples, uint32_t count) {
    uint32_t begin = 0;
    for (uint32_t i = 0; i < samples->count; i++)
        samples->sources[i].count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct mix_draw *draw = &samples->draws[i];
        if (draw->source == MIX_NO_SOURCE)
            continue;
        struct source *source = &samples->sources[draw->source];
        if (source->count++ == 0)
            source->number = draw->number;
    }
    for (uint32_t i = 0; i < samples->count; i++) {
        samples->sources[i].begin = begin;
        begin += samples->sources[i].count;
    }
}

void mix_samples_at(struct mix_samples *samples, uint64_t first, uint32_t count, uint64_t *found) {
    mix_draws(samples->cursor, first, count, samples->draws);
    count_draws(samples, count);
    for (uint32_t i = 0; i < samples->count; i++)
        if (samples->sources[i].count)
            find_samples(samples, &samples->sources[i]);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t source = samples->draws[i].source;
        found[i] = source == MIX_NO_SOURCE ? UINT64_MAX : samples->drawn[samples->sources[source].begin++];
    }
}

const struct mix_draw *mix_samples_draws(const struct mix_samples *samples) {
    return samples->draws;
}

uint64_t mix_samples_replacement(struct mix_samples *samples, uint64_t position, uint32_t attempt) {
    mix_draws(samples->cursor, position, 1, samples->draws);
    const struct mix_draw draw = samples->draws[0];
    if (draw.source == MIX_NO_SOURCE)
        return UINT64_MAX;
    const struct mix_source *source = &samples->sources[draw.source].about;
    const struct mix_place place = mix_place(draw.number, source->sampler->samples);
    return sampler_replacement(source->sampler, place.epoch, place.position, attempt) + source->first;
}

// ---- Opening -----------------------------------------------------------------------------------------------

int mix_samples_open(const struct mix_run *run, const struct mix_source *sources, uint32_t most,
                     struct mix_samples **samples, struct error *error) {
    if (run->sources > MIX_MAX_SOURCES)
        return error_set(error, -EINVAL, "found %u sources in a mix, wanted 1 to %u", run->sources,
                         MIX_MAX_SOURCES);
    for (uint32_t i = 0; i < run->sources; i++)
        if (sources[i].sampler->samples == 0)
            return error_set(error, -EINVAL, "found no samples in source %u of a mix, wanted some", i);
    struct mix_samples *made = calloc(1, sizeof *made + run->sources * sizeof *made->sources);
    if (!made)
        return error_set(error, -ENOMEM, "no memory for a mix of %u sources", run->sources);
    made->count = run->sources;
    made->draws = calloc(max_u64(most, 1), sizeof *made->draws);
    made->drawn = calloc(max_u64(most, 1), sizeof *made->drawn);
    for (uint32_t i = 0; i < run->sources; i++)
        made->sources[i].about = sources[i];
    int err = made->draws && made->drawn
                  ? 0
                  : error_set(error, -ENOMEM, "no memory for %u positions of a mix", most);
    if (!err)
        err = mix_open((enum mix_version)run->version, run->weights, run->sources, &made->mix, error);
    if (!err)
        err = mix_cursor_open(made->mix, &run->base, &made->cursor, error);
    if (err) {
        mix_samples_close(made);
        return err;
    }
    *samples = made;
    return 0;
}

void mix_samples_close(struct mix_samples *samples) {
    if (!samples)
        return;
    mix_cursor_close(samples->cursor);
    mix_close(samples->mix);
    free(samples->draws);
    free(samples->drawn);
    free(samples);
}
