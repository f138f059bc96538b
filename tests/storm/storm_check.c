#include "tests/storm/storm_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/storm/storm_draw.h"

void check_find(struct consumer *consumer, uint64_t *counter, uint64_t samples, const char *what,
                const struct feed_batch *batch) {
    const struct storm_ledger *ledger = consumer->ledger;
    if (!ledger->wrong && !ledger->doubled && !ledger->lost)
        snprintf(consumer->ledger->text, sizeof ledger->text,
                 "%s: epoch %" PRIu64 ", first position %" PRIu64 ", count %" PRIu64 ", skipped %" PRIu64
                 ", sequence %" PRIu64 ", generation %" PRIu32 "; wanted epoch %" PRIu64 " after %" PRIu64
                 " samples",
                 what, batch->epoch, batch->first_position, batch->count, batch->skipped, batch->sequence,
                 batch->generation, consumer->at.epoch, consumer->at.consumed);
    *counter += samples ? samples : 1;
}

// ---- Bytes -------------------------------------------------------------------------------------------------

static const struct feed_array *find_array(const struct feed_batch *batch, const char *name) {
    for (uint32_t i = 0; i < batch->field_count; i++)
        if (strcmp(batch->field[i].name, name) == 0)
            return &batch->field[i];
    return NULL;
}

// How many samples do not have the bytes of the file; the batch's own names of them are in `numbers`.
static uint64_t compare_field(struct consumer *consumer, const struct feed_batch *batch,
                              const struct field *field, const int64_t *numbers) {
    const struct feed_array *array = find_array(batch, field->name);
    if (!array || array->bytes != batch->count * field->bytes)
        return batch->count;
    const uint8_t *bytes = array->data;
    if (consumer->options.device) {
        uint32_t which = (uint32_t)(array - batch->field);
        int err = feed_batch_fetch(consumer->feed, batch, which, consumer->fetched);
        if (err)
            return batch->count;
        bytes = consumer->fetched;
    }
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < batch->count; i++) {
        uint64_t number = (uint64_t)numbers[i];
        if (consumer->sums)
            number =
                storm_draw(consumer->sums, consumer->stored, consumer->options.seed, batch->epoch, number);
        const uint8_t *right = field->truth + number * field->bytes;
        wrong += memcmp(bytes + i * field->bytes, right, field->bytes) != 0;
    }
    return wrong;
}

// Whether the sample is one of those at the batch's positions, and none of those that were named before.
static bool is_due(struct consumer *consumer, const struct feed_batch *batch, const int64_t *numbers,
                   uint64_t named) {
    for (uint64_t i = 0; i < named; i++)
        if (numbers[i] == numbers[named])
            return false;
    for (uint64_t i = 0; i < batch->count + batch->skipped; i++) {
        uint64_t at = batch->first_position + i;
        if (storm_order_sample(&consumer->order, batch->epoch, at) == (uint64_t)numbers[named])
            return true;
    }
    return false;
}

// The samples that the batch says it holds; false: they are not those that it must hold. Where some were skipped,
// others have moved up.
static bool name_samples(struct consumer *consumer, const struct feed_batch *batch, int64_t *numbers) {
    for (uint64_t i = 0; i < batch->count; i++) {
        uint64_t at = batch->first_position + i;
        numbers[i] = feed_batch_sample(consumer->feed, batch, i);
        bool in_place = storm_order_sample(&consumer->order, batch->epoch, at) == (uint64_t)numbers[i];
        if (batch->skipped ? !is_due(consumer, batch, numbers, i) : !in_place)
            return false;
    }
    return true;
}

uint64_t check_bytes(struct consumer *consumer, const struct feed_batch *batch) {
    int64_t *numbers = calloc(batch->count + 1, sizeof *numbers);
    uint64_t wrong = batch->count + 1;
    if (numbers && name_samples(consumer, batch, numbers)) {
        wrong = 0;
        for (uint32_t i = 0; i < consumer->field_count; i++)
            wrong += compare_field(consumer, batch, &consumer->field[i], numbers);
    }
    free(numbers);
    return wrong;
}

// ---- Order -------------------------------------------------------------------------------------------------

static bool precedes(const struct feed_batch *batch, uint64_t epoch, uint64_t first) {
    return batch->epoch < epoch || (batch->epoch == epoch && batch->first_position < first);
}

void check_place(struct consumer *consumer, const struct feed_batch *batch) {
    struct storm_ledger *ledger = consumer->ledger;
    struct storm_part part = storm_part(&consumer->order, consumer->at);
    uint64_t whole = batch->count + batch->skipped;
    if (batch->epoch == consumer->at.epoch && batch->first_position == part.first && whole == part.count) {
        if (batch->last_of_epoch != part.last)
            check_find(consumer, &ledger->wrong, 1, "the end of the epoch is wrong", batch);
        if (batch->skipped && !consumer->skips)
            check_find(consumer, &ledger->lost, batch->skipped, "samples were skipped", batch);
    } else if (precedes(batch, consumer->at.epoch, part.first)) {
        check_find(consumer, &ledger->doubled, whole, "an earlier batch", batch);
    } else {
        uint64_t gap = batch->epoch == consumer->at.epoch ? batch->first_position - part.first : part.count;
        check_find(consumer, &ledger->lost, gap, "a later batch", batch);
    }
    bool follows = batch->sequence == consumer->sequence + 1 || batch->generation != consumer->generation;
    if (consumer->taken && !follows)
        check_find(consumer, &ledger->wrong, 1, "the sequence has a gap", batch);
    consumer->sequence = batch->sequence;
    if (batch->epoch != consumer->at.epoch || batch->first_position != part.first) // continue from here
        consumer->at = (struct storm_position){batch->epoch,
                                               batch->first_position - consumer->order.rank * batch->count};
    consumer->at = storm_part(&consumer->order, consumer->at).next;
}
