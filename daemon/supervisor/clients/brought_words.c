#include "daemon/supervisor/clients/brought_words.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/dataset/derived.h"
#include "daemon/dataset/list_memory.h"
#include "daemon/source/build/weight_text.h"
#include "daemon/supervisor/clients/list_job.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/closer.h"
#include "order/shares.h"

// A session is ended that stays behind this. What one user may send in all is many times as much.
#define GRACE_NS    (10 * NS_PER_S)
#define BYTES_PER_S (64u << 10)
#define NS_PER_WORD (NS_PER_S * sizeof(uint64_t) / BYTES_PER_S)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are kept as they arrive");

struct arrival {
    int fd; // the list's memory
    uint64_t have;
    uint64_t begun_ns;
    XXH3_state_t *hash;
};

static uint64_t words_of(const struct brought_want *want) {
    const struct selection *selection = &want->selection;
    if (selection->kind == SELECTION_LIST)
        return selection->count;
    return selection->of + (want->chooses ? PROTO_TIMES_WORDS(selection->of) : 0);
}

static uint64_t words_wanted(const struct brought *brought) {
    return words_of(&brought->want);
}

// The table of draws takes the place of how often samples count, and may be a little smaller or larger.
uint64_t brought_words_memory(const struct brought_want *want) {
    const uint64_t list = selection_list_bytes(&want->selection);
    const uint64_t arriving = list ? words_of(want) * sizeof(uint64_t) : 0;
    return sizeof(struct dataset_list) + max_u64(list, arriving);
}

// ---- The beginning and the end -----------------------------------------------------------------------------

static void close_memory(const struct brought *brought, int *fd) {
    uint32_t count = *fd >= 0;
    closer_take(brought->supervisor->own_closer, 0, fd, &count);
    *fd = -1;
}

static void forget_arrival(struct brought *brought) {
    struct arrival *arrival = brought->arrival;
    if (!arrival)
        return;
    close_memory(brought, &arrival->fd);
    XXH3_freeState(arrival->hash);
    free(arrival);
    brought->arrival = NULL;
}

int brought_words_begin(struct brought *brought, struct error *error) {
    struct arrival *arrival = brought->arrival = calloc(1, sizeof *arrival);
    if (!arrival)
        return error_set(error, -ENOMEM, "out of memory");
    arrival->fd = list_memory_create();
    arrival->hash = XXH3_createState();
    if (arrival->hash && arrival->fd >= 0)
        return 0;
    int err = arrival->fd < 0 ? arrival->fd : -ENOMEM;
    forget_arrival(brought);
    return error_set(error, err, "cannot allocate memory for the view: %s", strerror(-err));
}

void brought_words_leave(struct brought *brought) {
    forget_arrival(brought);
    if (brought->job)
        list_job_leave(brought->job);
    brought->job = NULL;
}

// ---- Checking ----------------------------------------------------------------------------------------------

static uint64_t word_at(const uint8_t *words, size_t i) {
    uint64_t word;
    memcpy(&word, words + i * sizeof word, sizeof word);
    return word;
}

static int check_numbers(const struct brought *brought, const uint8_t *words, size_t count,
                         struct error *error) {
    const uint64_t of = brought->want.selection.of;
    uint64_t largest = 0;
    size_t i = 0;
    for (size_t k = 0; k < count; k++)
        largest = max_u64(largest, word_at(words, k));
    if (largest < of)
        return 0;
    while (word_at(words, i) < of)
        i++;
    uint64_t number = word_at(words, i);
    bool negative = brought->want.dtype != DTYPE_U64 && number >> 63;
    return error_set(error, -ERANGE,
                     "indices: found sample number %s%" PRIu64 " at index %" PRIu64
                     ", wanted numbers from 0 to %" PRIu64 ", the last sample of dataset %s",
                     negative ? "-" : "", negative ? -number : number, brought->arrival->have + i, of - 1,
                     brought->want.base->name);
}

static int check_weights(const struct brought *brought, const uint8_t *words, size_t count,
                         struct error *error) {
    const uint32_t dtype = brought->want.dtype, bits = 8 * (uint32_t)dtype_bytes(dtype);
    char text[WEIGHT_TEXT];
    struct weight weight;
    for (size_t i = 0; i < count; i++) {
        uint64_t word = word_at(words, i);
        if (bits < 64 && word >> bits)
            return error_set(error, -EPROTO, "weights: found a number that does not fit in %" PRIu32 " bits",
                             bits);
        int err = weight_decode(dtype, word, &weight);
        if (err)
            return error_set(error, -ERANGE,
                             "weights: found weight %s at index %" PRIu64
                             ", wanted finite numbers that are not below 0",
                             weight_text(dtype, word, err, text), brought->arrival->have + i);
    }
    return 0;
}

// How often samples count, from sample number `sample` on, which is even.
static int check_times(const struct brought *brought, const uint8_t *words, size_t count, uint64_t sample,
                       struct error *error) {
    const uint64_t of = brought->want.selection.of;
    for (size_t i = 0; i < count; i++, sample += 2) {
        const uint64_t word = word_at(words, i), first = (uint32_t)word, second = word >> 32;
        if (first > SHARES_MOST || second > SHARES_MOST || (second && sample + 1 == of))
            return error_set(error, -EPROTO,
                             "weights: sample %" PRIu64 " counts %" PRIu64 " times and the next one %" PRIu64
                             " times; wanted at most %u each, and 0 for none",
                             sample, first, second, SHARES_MOST);
    }
    return 0;
}

static int check_words(const struct brought *brought, const uint8_t *words, uint64_t count,
                       struct error *error) {
    const uint64_t of = brought->want.selection.of, have = brought->arrival->have;
    if (brought->want.selection.kind == SELECTION_LIST)
        return check_numbers(brought, words, count, error);
    const uint64_t weights = have < of ? min_u64(of - have, count) : 0;
    int err = check_weights(brought, words, weights, error);
    if (err)
        return err;
    return check_times(brought, words + weights * sizeof(uint64_t), count - weights,
                       2 * (have + weights - of), error);
}

// ---- Arriving ----------------------------------------------------------------------------------------------

int brought_words_from(struct brought *brought, struct session *session, struct error *error) {
    struct arrival *arrival = brought->arrival;
    const struct dataset_list head = {sizeof head + words_wanted(brought) * sizeof(uint64_t)};
    arrival->have = 0;
    arrival->begun_ns = monotonic_ns();
    XXH3_64bits_reset(arrival->hash);
    int err = list_memory_write(arrival->fd, &head, sizeof head, 0);
    if (err)
        return error_set(error, err, "cannot keep the view in memory: %s", strerror(-err));
    brought->bringer = session;
    return 0;
}

static int complete(struct brought *brought, struct error *error) {
    struct arrival *arrival = brought->arrival;
    const struct selection *selection = &brought->want.selection;
    if (XXH3_64bits_digest(arrival->hash) != selection->seed)
        return error_set(error, -EPROTO,
                         "the %" PRIu64 " numbers of the view are not those that were announced",
                         arrival->have);
    int err = list_job_start(brought, arrival->fd, &brought->job, error);
    if (err)
        return err;
    brought_set_state(brought, BROUGHT_WORKING);
    brought->bringer = NULL;
    return 0;
}

int brought_words_take(struct brought *brought, const uint8_t *words, size_t bytes, struct error *error) {
    struct arrival *arrival = brought->arrival;
    uint64_t due = min_u64(PROTO_PIECE_WORDS, words_wanted(brought) - arrival->have);
    if (bytes != due * sizeof(uint64_t))
        return error_set(error, -EPROTO, "a piece of %zu bytes came where %" PRIu64 " words were due", bytes,
                         due);
    int err = check_words(brought, words, due, error);
    if (err)
        return err;
    err = list_memory_write(arrival->fd, words, bytes,
                            sizeof(struct dataset_list) + arrival->have * sizeof(uint64_t));
    if (err)
        return error_set(error, err, "cannot keep the view in memory: %s", strerror(-err));
    XXH3_64bits_update(arrival->hash, words, bytes);
    arrival->have += due;
    return arrival->have < words_wanted(brought) ? 0 : complete(brought, error);
}

void brought_words_watch(struct brought *brought, uint64_t now) {
    struct arrival *arrival = brought->arrival;
    uint64_t allowed = arrival->have * NS_PER_WORD;
    if (brought->supervisor->stood_still)
        arrival->begun_ns = now - min_u64(now, allowed);
    if (now > arrival->begun_ns + GRACE_NS + allowed)
        session_fail(brought->bringer, -ETIMEDOUT,
                     "only %" PRIu64 " of the %" PRIu64 " numbers of the view have arrived in %" PRIu64 " s",
                     arrival->have, words_wanted(brought), (now - arrival->begun_ns) / NS_PER_S);
}

// ---- Completing --------------------------------------------------------------------------------------------

static int become_ready(struct brought *brought, const struct list_made *made) {
    struct selection selection = brought->want.selection;
    struct arrival *arrival = brought->arrival;
    selection.seed = made->seed;
    brought->dataset = derived_open(brought->want.base, &selection, made->chosen_hash, arrival->fd);
    if (!brought->dataset)
        return error_set(&brought->error, -ENOMEM, "out of memory");
    arrival->fd = -1;
    brought_set_state(brought, BROUGHT_READY);
    return 0;
}

void brought_words_finish(struct brought *brought) {
    struct list_made made;
    if (!list_job_is_done(brought->job))
        return;
    int err = list_job_result(brought->job, &made, &brought->error);
    if (!err)
        err = become_ready(brought, &made);
    if (err)
        brought_set_state(brought, BROUGHT_FAILED);
    brought_words_leave(brought);
}
