#include "tests/storm/storm_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/storm/storm_draw.h"
#include "tests/storm/storm_replace.h"

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

// Room for that many bytes that come from a GPU; NULL: there is no memory.
static uint8_t *make_room(struct consumer *consumer, uint64_t bytes) {
    if (bytes < consumer->fetched_bytes)
        return consumer->fetched;
    free(consumer->fetched);
    consumer->fetched = malloc(bytes + 1);
    consumer->fetched_bytes = consumer->fetched ? bytes + 1 : 0;
    return consumer->fetched;
}

static const uint8_t *values_of(struct consumer *consumer, const struct feed_batch *batch,
                                const struct feed_array *array) {
    if (!consumer->options.device)
        return array->data;
    uint8_t *copy = make_room(consumer, array->bytes);
    bool got = copy && feed_batch_fetch(consumer->feed, batch, (uint32_t)(array - batch->field), copy) == 0;
    return got ? copy : NULL;
}

static uint64_t stored_number(const struct consumer *consumer, const struct feed_batch *batch,
                              int64_t number) {
    if (consumer->mix)
        return storm_mix_sample(consumer->mix, consumer->options.seed, consumer->options.shuffle,
                                batch->epoch * consumer->samples + (uint64_t)number);
    if (!consumer->sums)
        return (uint64_t)number;
    return storm_draw(consumer->sums, consumer->stored, consumer->options.seed, batch->epoch,
                      (uint64_t)number);
}

static struct span { uint64_t begin, end; } truth_span(const struct field *field, uint64_t number) {
    struct span span;
    memcpy(&span, field->begins + number * sizeof span.begin, sizeof span);
    return span;
}

static int64_t *fetch_offsets(struct consumer *consumer, const struct feed_batch *batch, uint32_t field) {
    int64_t *offsets = calloc(batch->count + 1, sizeof *offsets);
    if (offsets && feed_batch_fetch_offsets(consumer->feed, batch, field, offsets) == 0)
        return offsets;
    free(offsets);
    return NULL;
}

// The offsets follow from the lengths, and are not used before they have been compared.
static uint64_t compare_ragged(struct consumer *consumer, const struct feed_batch *batch,
                               const struct field *field, const struct feed_array *array,
                               const int64_t *numbers) {
    const uint8_t *bytes = values_of(consumer, batch, array);
    int64_t *offsets = fetch_offsets(consumer, batch, (uint32_t)(array - batch->field));
    uint64_t wrong = 0, at = 0;
    if (!offsets || !bytes) {
        free(offsets);
        return batch->count + 1;
    }
    for (uint64_t i = 0; i < batch->count && !wrong; i++) {
        struct span span = truth_span(field, stored_number(consumer, batch, numbers[i]));
        uint64_t length = span.end - span.begin;
        bool right = (uint64_t)offsets[i] == at && at + length <= array->bytes &&
                     memcmp(bytes + at, field->truth + span.begin, length) == 0;
        wrong = right ? 0 : batch->count - i;
        at += length;
    }
    if (!wrong && ((uint64_t)offsets[batch->count] != at || at != array->bytes))
        wrong = 1;
    free(offsets);
    return wrong;
}

static uint64_t sample_at(struct consumer *consumer, uint64_t epoch, uint64_t position) {
    if (consumer->windows.groups && consumer->order.shuffle)
        return storm_window_sample(&consumer->windows, consumer->order.seed, epoch, position);
    return storm_order_sample(&consumer->order, epoch, position);
}

// Where in the epoch the i-th sample of the batch stands. Where some were skipped, the last ones are in their places.
static uint64_t position_of(struct consumer *consumer, const struct feed_batch *batch, uint64_t i,
                            int64_t number) {
    for (uint64_t k = 0; batch->skipped && k < batch->count + batch->skipped; k++)
        if (sample_at(consumer, batch->epoch, batch->first_position + k) == (uint64_t)number)
            return batch->first_position + k;
    return batch->first_position + i;
}

// What a sample must be at that place; NULL: it cannot be there, since it cannot be decoded.
static const uint8_t *right_bytes(struct consumer *consumer, const struct field *field, uint64_t number,
                                  uint64_t epoch, uint64_t position) {
    struct storm_image image;
    if (!field->side)
        return field->truth + number * field->bytes;
    struct span span = truth_span(field, number);
    bool made = storm_image_read(field->truth + span.begin, span.end - span.begin, &image) &&
                storm_image_make(&image, consumer->options.seed, epoch, position, field->side, field->mask,
                                 consumer->made);
    return made ? consumer->made : NULL;
}

// How many samples do not have the bytes of the file; the batch's own names of them are in `numbers`.
static uint64_t compare_field(struct consumer *consumer, const struct feed_batch *batch,
                              const struct field *field, const int64_t *numbers) {
    const struct feed_array *array = find_array(batch, field->name);
    if (!array || array->ragged != field->ragged)
        return batch->count + 1;
    if (field->ragged)
        return compare_ragged(consumer, batch, field, array, numbers);
    const uint8_t *bytes =
        array->bytes == batch->count * field->bytes ? values_of(consumer, batch, array) : NULL;
    if (!bytes)
        return batch->count;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < batch->count; i++) {
        const uint64_t position = position_of(consumer, batch, i, numbers[i]);
        const uint8_t *right =
            right_bytes(consumer, field, stored_number(consumer, batch, numbers[i]), batch->epoch, position);
        wrong += !right || memcmp(bytes + i * field->bytes, right, field->bytes) != 0;
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
        if (sample_at(consumer, batch->epoch, batch->first_position + i) == (uint64_t)numbers[named])
            return true;
    }
    return false;
}

// The samples that the batch says it holds; false: they are not those that it must hold. Where some were skipped,
// others have moved up.
static bool name_samples(struct consumer *consumer, const struct feed_batch *batch, int64_t *numbers) {
    for (uint64_t i = 0; i < batch->count; i++) {
        numbers[i] = feed_batch_sample(consumer->feed, batch, i);
        bool in_place = sample_at(consumer, batch->epoch, batch->first_position + i) == (uint64_t)numbers[i];
        if (batch->skipped ? !is_due(consumer, batch, numbers, i) : !in_place)
            return false;
    }
    return true;
}

// ---- Replaced samples --------------------------------------------------------------------------------------

// Whether the i-th sample of the batch is this one, in all fields; none of them is ragged.
static bool holds_at(struct consumer *consumer, const struct feed_batch *batch, uint64_t i, uint64_t sample) {
    for (uint32_t k = 0; k < consumer->field_count; k++) {
        const struct field *field = &consumer->field[k];
        const struct feed_array *array = find_array(batch, field->name);
        const uint8_t *right = right_bytes(consumer, field, sample, batch->epoch, batch->first_position + i);
        if (!array || !right || array->bytes != batch->count * field->bytes ||
            memcmp((const uint8_t *)array->data + i * field->bytes, right, field->bytes) != 0)
            return false;
    }
    return true;
}

// Where another sample has taken a place, it is named in place of the one that could not be read. Which of the attempts
// was the first to succeed depends on when it was made.
static void find_replaced(struct consumer *consumer, const struct feed_batch *batch, int64_t *numbers) {
    const uint64_t seed = consumer->options.shuffle ? consumer->options.seed : 0;
    for (uint64_t i = 0; i < batch->count; i++) {
        uint64_t sample = (uint64_t)numbers[i];
        for (uint64_t attempt = 1; attempt <= STORM_ATTEMPTS && !holds_at(consumer, batch, i, sample);
             attempt++)
            sample =
                storm_replacement(seed, consumer->samples, batch->epoch, batch->first_position + i, attempt);
        consumer->replaced += numbers[i] != (int64_t)sample;
        numbers[i] = (int64_t)sample;
    }
}

uint64_t check_bytes(struct consumer *consumer, const struct feed_batch *batch) {
    int64_t *numbers = calloc(batch->count + 1, sizeof *numbers);
    uint64_t wrong = batch->count + 1;
    if (numbers && name_samples(consumer, batch, numbers)) {
        wrong = consumer->replaced = 0;
        if (consumer->replaces && !consumer->options.device)
            find_replaced(consumer, batch, numbers);
        for (uint32_t i = 0; i < consumer->field_count; i++)
            wrong += compare_field(consumer, batch, &consumer->field[i], numbers);
    }
    free(numbers);
    return wrong;
}

// ---- Images that were skipped ------------------------------------------------------------------------------

// Those that can be decoded. A loader that was paused too often at the same one may be the cause.
static void count_passed_over(struct consumer *consumer, const struct feed_batch *batch) {
    uint64_t missing = batch->skipped;
    for (uint64_t i = 0; i < batch->count + batch->skipped && missing && consumer->field[0].side; i++) {
        const uint64_t number = sample_at(consumer, batch->epoch, batch->first_position + i);
        const struct span span = truth_span(&consumer->field[0], number);
        struct storm_image image;
        bool whole = storm_image_read(consumer->field[0].truth + span.begin, span.end - span.begin, &image) &&
                     !image.doubtful;
        missing -= !whole;
    }
    consumer->ledger->passed_over += consumer->field[0].side ? missing : 0;
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
        count_passed_over(consumer, batch);
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
