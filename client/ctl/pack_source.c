#include "client/ctl/pack_source.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "client/ctl/dataset_question.h"
#include "client/ctl/query.h"
#include "order/token.h"

#define BATCH_BYTES   (1u << 20)
#define BATCH_SAMPLES 65536u

// ---- What the daemon says --------------------------------------------------------------------------------------

static void take_fields(const Feedd__Dataset *dataset, struct pack_identity *identity) {
    for (size_t i = 0; i < dataset->n_fields && i < PACKED_MAX_FIELDS; i++) {
        const Feedd__Field *from = dataset->fields[i];
        struct packed_field *field = &identity->fields[identity->field_count++];
        snprintf(field->name, sizeof field->name, "%s", from->name);
        field->dtype = from->dtype;
        field->ragged = from->ragged;
        field->dimensions = from->ragged ? 1 : (uint32_t)min_u64(from->n_shape, PACKED_MAX_DIMS);
        for (uint32_t k = 0; k < field->dimensions && !from->ragged; k++)
            field->shape[k] = from->shape[k];
    }
}

static int take_datasets(const Feedd__Answer *page, void *context, struct error *error) {
    struct pack_source *source = context;
    (void)error;
    for (size_t i = 0; i < page->n_datasets; i++) {
        const Feedd__Dataset *dataset = page->datasets[i];
        if (strcmp(dataset->name, source->name) != 0)
            continue;
        source->known = dataset->samples > 0;
        source->mix = dataset->sources > 0;
        source->replaces = strcmp(dataset->on_error, "replace") == 0;
        source->augmented = dataset->augmented;
        source->sample_bytes = dataset->sample_bytes;
        source->identity = (struct pack_identity){.dataset = source->name,
                                                  .fingerprint = dataset->fingerprint,
                                                  .samples = dataset->samples,
                                                  .seed = source->seed,
                                                  .shard_bytes = source->identity.shard_bytes};
        take_fields(dataset, &source->identity);
    }
    return 0;
}

int pack_source_find(struct pack_source *source, struct error *error) {
    const struct dataset_question question = {.ctl = source->ctl,
                                              .name = source->name,
                                              .take = take_datasets,
                                              .context = source,
                                              .known = &source->known,
                                              .interrupted = source->interrupted};
    return dataset_ask(&question, error);
}

static int take_errors(const Feedd__Answer *page, void *context, struct error *error) {
    (void)error;
    if (page->errors)
        *(uint64_t *)context = page->errors->replaced;
    return 0;
}

uint64_t pack_source_replaced(const struct pack_source *source) {
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    struct error ignored = {0};
    uint64_t replaced = 0;
    if (query_open(&connection, source->ctl, &ignored) == 0)
        query_ask(&connection, FEEDD__QUERY__KIND__ERRORS, source->name, take_errors, &replaced, &ignored);
    return replaced;
}

// ---- Attaching -------------------------------------------------------------------------------------------------

static uint32_t batch_size(const struct pack_source *source) {
    const uint64_t bytes = min_u64(BATCH_BYTES, source->identity.shard_bytes / 4);
    return (uint32_t)max_u64(1, min_u64(bytes / max_u64(1, source->sample_bytes), BATCH_SAMPLES));
}

static int attach(struct pack_source *source, const char *token, struct error *error) {
    const struct feed_options options = {
        .socket = source->ctl->socket,
        .dataset = source->name,
        .batch_size = batch_size(source),
        .seed = source->seed,
        .epochs = 1,
        .resume = token,
        .client_name = "feedctl pack",
        .interrupted = source->interrupted,
    };
    feed_close(source->feed);
    source->feed = NULL;
    int err = feed_open(&source->feed, &options);
    return err ? error_set(error, err, "%s", feed_strerror(source->feed)) : 0;
}

// The token of a mix says how far each of its sources is, which libfeed knows once it is attached.
static int make_token(struct pack_source *source, uint64_t position, char token[FEED_TOKEN_BYTES],
                      struct error *error) {
    _Static_assert(RESUME_TOKEN_BYTES == FEED_TOKEN_BYTES, "both have room for every token");
    const struct resume_token place = {.version = ORDER_SEQUENTIAL,
                                       .fingerprint = source->identity.fingerprint,
                                       .seed = source->seed,
                                       .consumed = position};
    int err = source->mix ? attach(source, NULL, error) : 0;
    if (!source->mix)
        resume_token_format(&place, token);
    else if (!err && feed_token_at(source->feed, 0, position, token) != 0)
        err = error_set(error, -ERANGE, "there is no position %" PRIu64 " in %s", position, source->name);
    return err;
}

int pack_source_attach(struct pack_source *source, uint64_t position, struct error *error) {
    char token[FEED_TOKEN_BYTES];
    int err = position ? make_token(source, position, token, error) : 0;
    if (!err)
        err = attach(source, position ? token : NULL, error);
    if (err)
        return err;
    const struct feed_description *description = feed_describe(source->feed);
    if (description->fingerprint != source->identity.fingerprint)
        return error_set(error, -EAGAIN, "dataset %s has just changed: try again", source->name);
    if (description->start_epoch || description->start_consumed != position)
        return error_set(error, -EPROTO, "feedd does not begin at position %" PRIu64, position);
    return 0;
}
