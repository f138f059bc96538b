#define XXH_INLINE_ALL // so that libfeed's users need not link libxxhash
#include "client/lib/own_view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "base/time.h"
#include "client/lib/view_part.h"
#include "order/selection.h"

#define NUMBERS_MOST (1u << 27) // more than that the daemon does not take
#define TABLE_NS     100u       // that the daemon may take for each number, when it has them all
#define BYTES_LEAST  offsetof(struct feed_view, part) // of the first version

_Static_assert((int)FEED_RANGE == SELECTION_RANGE && (int)FEED_SPLIT == SELECTION_SPLIT_1 &&
                   (int)FEED_INDICES == SELECTION_LIST && (int)FEED_WEIGHTS == SELECTION_WEIGHTED_1,
               "the kinds are those of the protocol");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are sent as they lie in memory");

// ---- Checking ----------------------------------------------------------------------------------------------

static bool is_part(const struct feed_view *view) {
    return view->kind == FEED_RANGE || view->kind == FEED_SPLIT;
}

static bool has_numbers(const struct feed_view *view) {
    return !is_part(view) || view->data;
}

static int check_part(const struct feed_view *view, struct error *error) {
    if (view->begin > view->end || view->end > SELECTION_WHOLE)
        return error_set(error, -EINVAL,
                         "split: found %g to %g, wanted two fractions from 0 to 1, the smaller one first",
                         view->begin / (double)SELECTION_WHOLE, view->end / (double)SELECTION_WHOLE);
    return 0;
}

static int check_numbers(const struct feed_view *view, struct error *error) {
    const bool listed = view->kind != FEED_WEIGHTS;
    const char *what = listed ? "indices" : "weights";
    if (!view->data || !view->count)
        return error_set(error, -EINVAL, "%s: found none, wanted at least one", what);
    if (view->count > NUMBERS_MOST)
        return error_set(error, -EINVAL, "%s: found %" PRIu64 ", wanted at most %u", what, view->count,
                         NUMBERS_MOST);
    if (listed && view->dtype == FEED_BOOL)
        return error_set(error, -EINVAL,
                         "indices: found a mask, wanted sample numbers, such as"
                         " numpy.flatnonzero(mask)");
    if (view->dtype < FEED_U8 || view->dtype > (listed ? FEED_I64 : FEED_F64))
        return error_set(error, -EINVAL, "%s: found %s, wanted %s", what, dtype_name(view->dtype),
                         listed ? "integers" : "integers or floats");
    return 0;
}

static int check(const struct feed_view *view, struct error *error) {
    if (view->kind < FEED_RANGE || view->kind > FEED_WEIGHTS)
        return error_set(error, -EINVAL, "feed_view.kind %d is unknown", (int)view->kind);
    if (view->part && view->kind != FEED_WEIGHTS)
        return error_set(error, -EINVAL, "feed_view.part belongs to weights");
    if (is_part(view) && view->count && !view->data)
        return error_set(error, -EINVAL, "indices: found %" PRIu64 " of them at NULL, wanted their address",
                         view->count);
    int err = has_numbers(view) ? check_numbers(view, error) : 0;
    return err || !is_part(view) ? err : check_part(view, error);
}

// ---- Copying -----------------------------------------------------------------------------------------------

// What a newer header has more is to be 0, or it means something that this libfeed does not do.
static bool asks_for_more(const struct feed_view *view) {
    const uint8_t *bytes = (const uint8_t *)view;
    for (size_t i = sizeof *view; i < view->bytes; i++)
        if (bytes[i])
            return true;
    return false;
}

// What an older header has less is 0.
static int read_view(const struct feed_view *view, struct feed_view *read, struct error *error) {
    *read = (struct feed_view){0};
    if (view->bytes < BYTES_LEAST)
        return error_set(error, -EINVAL, "feed_view.bytes is %zu: set it to sizeof(struct feed_view)",
                         view->bytes);
    if (asks_for_more(view))
        return error_set(error, -EINVAL, "this libfeed does not know everything that feed_view asks for");
    memcpy(read, view, min_u64(view->bytes, sizeof *read));
    return check(read, error);
}

// A sample number, whose sign is kept for the daemon to complain about.
static uint64_t extend(uint64_t word, enum feed_dtype dtype) {
    switch (dtype) {
    case FEED_I8:
        return (uint64_t)(int8_t)word;
    case FEED_I16:
        return (uint64_t)(int16_t)word;
    case FEED_I32:
        return (uint64_t)(int32_t)word;
    default:
        return word;
    }
}

static int copy_numbers(struct own_view *copy, const struct feed_view *view, struct error *error) {
    const size_t size = dtype_bytes(view->dtype);
    const uint8_t *from = view->data;
    copy->words = calloc(view->count, sizeof *copy->words);
    if (!copy->words)
        return error_set(error, -ENOMEM, "out of memory");
    for (uint64_t i = 0; i < view->count; i++) {
        memcpy(&copy->words[i], from + i * size, size);
        if (view->kind != FEED_WEIGHTS)
            copy->words[i] = extend(copy->words[i], view->dtype);
    }
    return 0;
}

// A part of a list is brought as the list that it is.
static int take_part(struct own_view *copy, struct error *error) {
    struct feed_view *what = &copy->what;
    struct selection part;
    int err = view_part_select(what, what->count, "sample numbers", &part, error);
    if (!err)
        err = view_part_cut(&part, &copy->words, error);
    if (err)
        return err;
    what->kind = FEED_INDICES;
    what->begin = what->end = 0;
    what->count = part.count;
    return 0;
}

// All but the part of weights.
static int copy_plain(struct own_view *copy, const struct feed_view *view, struct error *error) {
    copy->what = *view;
    copy->what.data = NULL;
    copy->what.part = NULL;
    if (!has_numbers(view))
        return 0;
    int err = copy_numbers(copy, view, error);
    if (!err && is_part(view))
        err = take_part(copy, error);
    copy->word_count = copy->what.count;
    return err;
}

// After the weights comes how often each sample counts, two to a word.
static int append_times(struct own_view *copy, const struct selection *part, const uint64_t *list,
                        enum feed_dtype dtype, struct error *error) {
    const uint64_t of = part->of, more = PROTO_TIMES_WORDS(of);
    uint64_t *words = realloc(copy->words, (of + more) * sizeof *words);
    if (!words)
        return error_set(error, -ENOMEM, "out of memory");
    memset(words + of, 0, more * sizeof *words);
    copy->words = words;
    copy->word_count = of + more;
    copy->chooses = true;
    if (!copy->what.epoch_samples)
        copy->what.epoch_samples = part->count;
    return view_part_count(part, list, dtype, (uint32_t *)(words + of), error);
}

static int choose(struct own_view *copy, const struct own_view *from, struct error *error) {
    const uint64_t of = copy->what.count;
    struct selection part = {.kind = SELECTION_LIST, .of = of, .count = from->word_count};
    int err = from->words ? 0 : view_part_select(&from->what, of, "samples", &part, error);
    if (err || (part.kind == SELECTION_RANGE && part.count == of))
        return err;
    return append_times(copy, &part, from->words, from->what.dtype, error);
}

static int copy_part(struct own_view *copy, const struct feed_view *view, struct error *error) {
    struct feed_view part;
    struct own_view from = {0};
    int err = read_view(view, &part, error);
    if (!err && part.kind == FEED_WEIGHTS)
        err = error_set(error, -EINVAL, "feed_view.part has weights itself");
    if (!err)
        err = copy_plain(&from, &part, error);
    if (!err)
        err = choose(copy, &from, error);
    own_view_free(&from);
    return err;
}

int own_view_copy(struct own_view *copy, const struct feed_view *view, struct error *error) {
    struct feed_view read;
    *copy = (struct own_view){0};
    if (!view)
        return 0;
    int err = read_view(view, &read, error);
    if (!err)
        err = copy_plain(copy, &read, error);
    if (!err && read.part)
        err = copy_part(copy, read.part, error);
    if (!err && copy->words)
        copy->hash = XXH3_64bits(copy->words, copy->word_count * sizeof *copy->words);
    return err;
}

void own_view_free(struct own_view *copy) {
    free(copy->words);
    *copy = (struct own_view){0};
}

// ---- Bringing ----------------------------------------------------------------------------------------------

static int send_bring(const struct own_view *view, struct connection *connection, const char *dataset,
                      struct error *error) {
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    Feedd__Bring bring = FEEDD__BRING__INIT;
    bring.dataset = (char *)dataset;
    bring.kind = view->what.kind;
    bring.begin = view->what.begin;
    bring.end = view->what.end;
    bring.seed = view->what.kind == FEED_SPLIT ? view->what.seed : 0;
    bring.count = view->words ? view->what.count : 0;
    bring.dtype = view->words ? view->what.dtype : 0;
    bring.epoch_samples = view->what.kind == FEED_WEIGHTS ? view->what.epoch_samples : 0;
    bring.hash = view->hash;
    bring.chooses = view->chooses;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_BRING;
    message.bring = &bring;
    int err = connection_send(connection, &message);
    return err ? error_set(error, err, "cannot bring a view to feedd: %s", strerror(-err)) : 0;
}

static void be_patient(uint64_t patience_ns, uint64_t *deadline) {
    if (patience_ns)
        *deadline = max_u64(*deadline, monotonic_ns() + patience_ns);
}

static int too_late(const struct connection *connection, struct error *error) {
    return error_set(error, -ETIMEDOUT, "feedd on %s did not take the view in time", connection->path);
}

// Until all is sent, or the daemon says something: it wants no more.
static int send_words(const struct own_view *view, struct connection *connection, uint64_t patience_ns,
                      uint64_t *deadline, struct error *error) {
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    Feedd__Piece piece = FEEDD__PIECE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_PIECE;
    message.piece = &piece;
    for (uint64_t at = 0; at < view->word_count; at += PROTO_PIECE_WORDS) {
        uint64_t count = min_u64(view->word_count - at, PROTO_PIECE_WORDS);
        piece.words.data = (uint8_t *)&view->words[at];
        piece.words.len = count * sizeof *view->words;
        int err = connection_send(connection, &message);
        if (err)
            return error_set(error, err, "cannot send a view to feedd: %s", strerror(-err));
        int sent = connection_drain(connection, *deadline, error);
        if (sent < 0)
            return sent;
        if (sent == 0)
            return 0;
        be_patient(patience_ns, deadline);
    }
    return 0;
}

int own_view_bring(const struct own_view *view, struct connection *connection, const char *dataset,
                   uint64_t patience_ns, uint64_t *deadline, struct error *error) {
    bool sent = false;
    int err = send_bring(view, connection, dataset, error);
    while (!err) {
        const Feedd__ServerMessage *answer;
        int got = connection_receive(connection, &answer, *deadline, error);
        if (got <= 0)
            return got ? got : too_late(connection, error);
        if (answer->body_case == FEEDD__SERVER_MESSAGE__BODY_ERROR)
            return connection_refusal(answer->error, error);
        if (answer->body_case == FEEDD__SERVER_MESSAGE__BODY_BROUGHT) {
            be_patient(patience_ns, deadline);
            return 0;
        }
        if (answer->body_case != FEEDD__SERVER_MESSAGE__BODY_WANTED || sent || !view->words)
            return error_set(error, -EPROTO, "feedd on %s answered a view with message %d", connection->path,
                             answer->body_case);
        err = send_words(view, connection, patience_ns, deadline, error);
        if (patience_ns)
            be_patient(patience_ns + view->word_count * TABLE_NS, deadline);
        sent = true;
    }
    return err;
}
