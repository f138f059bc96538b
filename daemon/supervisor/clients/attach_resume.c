#include "daemon/supervisor/clients/attach_resume.h"

#include <inttypes.h>
#include <string.h>

#include "order/token.h"

// A consumer that started at an epoch near 2^64 would run out of numbers for its batches and hold up the others of its
// feed.
#define EPOCHS_MOST (UINT64_C(1) << 40)

void attach_resume_begin(struct attach_request *request) {
    const struct dataset *dataset = request->shape.dataset;
    request->mix_changes = false;
    memset(&request->shape.mix, 0, sizeof request->shape.mix);
    if (dataset->sources)
        mix_run_begin(&request->shape.mix, dataset->weights, dataset->layout->part_count);
}

static bool has_windows(const struct dataset *dataset) {
    bool found = dataset->layout->window;
    for (uint32_t i = 0; i < dataset->layout->part_count; i++)
        found |= dataset->sources[i]->layout->window != 0;
    return found;
}

static int check_order(const struct resume_token *token, const struct feed_shape *shape,
                       struct error *error) {
    const struct dataset_layout *layout = shape->dataset->layout;
    const bool windows = has_windows(shape->dataset) || token->version == ORDER_WINDOW_1;
    if (token->fingerprint != layout->fingerprint)
        return error_set(error, -ESTALE,
                         "the resume token belongs to other data%s: its fingerprint is %016" PRIx64
                         ", that of dataset %s is "
                         "%016" PRIx64,
                         windows ? ", or to another shuffle_window" : "", token->fingerprint,
                         shape->dataset->name, layout->fingerprint);
    if (token->version != dataset_order(layout, shape->shuffle))
        return error_set(error, -ESTALE, "the resume token belongs to %s order, but shuffle is %s",
                         token->version == ORDER_SEQUENTIAL ? "sequential" : "shuffled",
                         shape->shuffle ? "on" : "off");
    if (dataset_needs_seed(shape->dataset, shape->shuffle) && token->seed != shape->seed)
        return error_set(error, -ESTALE, "the resume token belongs to seed %" PRIu64 ", not %" PRIu64,
                         token->seed, shape->seed);
    if (token->consumed > layout->samples)
        return error_set(error, -ESTALE, "the resume token points to sample %" PRIu64 " of %" PRIu64,
                         token->consumed, layout->samples);
    if (token->epoch >= EPOCHS_MOST)
        return error_set(error, -ESTALE, "the resume token belongs to epoch %" PRIu64 ", which is too large",
                         token->epoch);
    return 0;
}

// A run that continues after the loss of the daemon keeps its weights, as it would have without that. Any other gets
// those of the configuration. A token that says nothing of weights is one that was made without attaching.
static int take_mix(const struct resume_token *token, struct attach_request *request, struct error *error) {
    const struct dataset *dataset = request->shape.dataset;
    const uint32_t sources = dataset->layout->part_count;
    uint64_t position;
    if (token->mix.sources == 0 && sources == 0)
        return 0;
    if (!mix_run_position(dataset->layout->samples, token->epoch, token->consumed, &position))
        return error_set(error, -ESTALE, "the resume token belongs to epoch %" PRIu64 ", which is too large",
                         token->epoch);
    if (token->mix.sources == 0)
        return 0;
    if (token->mix.sources != sources || token->mix.base.start > position)
        return error_set(error, -ESTALE,
                         "the resume token is of %" PRIu32 " sources from position %" PRIu64
                         " on, and dataset %s has %" PRIu32 " and continues at position %" PRIu64,
                         token->mix.sources, token->mix.base.start, dataset->name, sources, position);
    request->shape.mix = token->mix;
    request->mix_changes =
        !request->reconnect && memcmp(token->mix.weights, dataset->weights, sources * sizeof(uint32_t)) != 0;
    return 0;
}

int attach_resume_check(const char *text, struct attach_request *request, struct error *error) {
    struct resume_token token;
    int err = resume_token_parse(text, &token, error);
    if (!err)
        err = check_order(&token, &request->shape, error);
    if (!err)
        err = take_mix(&token, request, error);
    if (err)
        return err;
    bool epoch_over = token.consumed == request->shape.dataset->layout->samples;
    request->start_epoch = epoch_over ? token.epoch + 1 : token.epoch;
    request->start_consumed = epoch_over ? 0 : token.consumed;
    return 0;
}

int attach_resume_change(struct attach_request *request, struct error *error) {
    const struct dataset *dataset = request->shape.dataset;
    uint64_t position;
    if (!mix_run_position(dataset->layout->samples, request->start_epoch, request->start_consumed, &position))
        return error_set(error, -ESTALE, "the resume token belongs to epoch %" PRIu64 ", which is too large",
                         request->start_epoch);
    return mix_run_change(&request->shape.mix, position, dataset->weights, dataset->layout->part_count,
                          error);
}
