#include "daemon/supervisor/clients/bring.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/time.h"
#include "daemon/source/build/builder_list.h"
#include "daemon/supervisor/clients/admission.h"
#include "daemon/supervisor/clients/brought.h"
#include "daemon/supervisor/clients/brought_words.h"
#include "order/shares.h"

#define DRAWS_MOST (UINT64_C(1) << 40) // as epoch_samples in feedd.conf

// ---- What is wanted ----------------------------------------------------------------------------------------

static int want_part(const Feedd__Bring *bring, struct selection *selection, struct error *error) {
    const uint64_t of = selection->of;
    if (bring->begin > bring->end || bring->end > SELECTION_WHOLE)
        return error_set(error, -EINVAL,
                         "split: found %g to %g, wanted two fractions from 0 to 1, the smaller one first",
                         bring->begin / (double)SELECTION_WHOLE, bring->end / (double)SELECTION_WHOLE);
    selection->first = selection_bound(of, bring->begin);
    selection->count = selection_bound(of, bring->end) - selection->first;
    if (!selection->count)
        return error_set(error, -EINVAL, "split: %g to %g of %" PRIu64 " samples contains none",
                         bring->begin / (double)SELECTION_WHOLE, bring->end / (double)SELECTION_WHOLE, of);
    if (bring->kind == SELECTION_SPLIT_1)
        selection->seed = bring->seed;
    else if (selection->count == of)
        *selection = (struct selection){.kind = SELECTION_ALL, .count = of};
    return 0;
}

static int want_list(const Feedd__Bring *bring, struct selection *selection, struct error *error) {
    if (bring->dtype < DTYPE_U8 || bring->dtype > DTYPE_I64)
        return error_set(error, -EINVAL, "indices: found %s, wanted integers", dtype_name(bring->dtype));
    if (bring->count < 1 || bring->count > LIST_MAX_SAMPLES)
        return error_set(error, -EFBIG, "indices: found %" PRIu64 " sample numbers, wanted 1 to %u",
                         bring->count, LIST_MAX_SAMPLES);
    selection->count = bring->count;
    selection->seed = bring->hash;
    return 0;
}

static int want_weights(const Feedd__Bring *bring, const struct dataset *base, struct selection *selection,
                        struct error *error) {
    struct weight weight;
    if (weight_decode(bring->dtype, 0, &weight))
        return error_set(error, -EINVAL, "weights: found %s, wanted integers or floats",
                         dtype_name(bring->dtype));
    if (selection->of > SHARES_MOST)
        return error_set(error, -EFBIG, "weights: dataset %s has %" PRIu64 " samples, wanted at most %u",
                         base->name, selection->of, SHARES_MOST);
    if (bring->count != selection->of)
        return error_set(error, -EINVAL,
                         "weights: found %" PRIu64 ", wanted %" PRIu64 ", one for each sample of dataset %s",
                         bring->count, selection->of, base->name);
    if (bring->epoch_samples > DRAWS_MOST)
        return error_set(error, -EINVAL, "epoch_samples: found %" PRIu64 ", wanted at most %" PRIu64,
                         bring->epoch_samples, DRAWS_MOST);
    selection->count = bring->epoch_samples ? bring->epoch_samples : selection->of;
    selection->seed = bring->hash;
    return 0;
}

static int check_base(const struct dataset *base, struct error *error) {
    if (base->sources)
        return error_set(error, -EINVAL,
                         "%s is a mix, of which there are no views: take samples of one of its sources, or"
                         " declare a mix of views in feedd.conf",
                         base->name);
    if (!base->of)
        return 0;
    return error_set(error, -EINVAL,
                     "%s is a view of dataset %s, and views cannot be nested: take samples of dataset %s",
                     base->name, base->of, base->of);
}

static int read_want(struct session *session, const Feedd__Bring *bring, struct brought_want *want,
                     struct error *error) {
    const struct dataset *base = NULL;
    if (session->supervisor->state != SUPERVISOR_RUNNING)
        return error_set(error, -ESHUTDOWN, "feedd is stopping and accepts no new consumers");
    int err = admission_find(session, bring->dataset, &base, error);
    if (!err)
        err = check_base(base, error);
    if (err)
        return err;
    *want = (struct brought_want){.base = (struct dataset *)base,
                                  .selection = {.kind = bring->kind, .of = base->layout->samples}};
    switch (bring->kind) {
    case SELECTION_RANGE:
    case SELECTION_SPLIT_1:
        return want_part(bring, &want->selection, error);
    case SELECTION_LIST:
        want->dtype = bring->dtype;
        return want_list(bring, &want->selection, error);
    case SELECTION_WEIGHTED_1:
        want->dtype = bring->dtype;
        want->chooses = bring->chooses;
        return want_weights(bring, base, &want->selection, error);
    default:
        return error_set(error, -EINVAL, "this daemon does not know views of kind %" PRIu32, bring->kind);
    }
}

// ---- Messages ----------------------------------------------------------------------------------------------

bool bring_view(struct session *session, const Feedd__Bring *bring) {
    struct brought_want want;
    struct error error = {0};
    if (session->brought) {
        session_fail(session, -EPROTO, "a session brings at most one view");
        return true;
    }
    int err = read_want(session, bring, &want, &error);
    if (!err)
        err = brought_hold(session, &want, &session->brought, &error);
    if (err == -EAGAIN)
        return false;
    if (err) {
        session_fail(session, err, "%s", error.text);
        return true;
    }
    session_set_state(session, SESSION_BRINGING);
    session_mark(session);
    return true;
}

bool bring_piece(struct session *session, const Feedd__Piece *piece) {
    struct brought *brought = session->brought;
    struct error error = {0};
    if (brought->bringer != session) {
        session_fail(session, -EPROTO, "a piece of a view came that nobody wants");
        return true;
    }
    if (!user_may_send_piece(session->user, monotonic_ns()))
        return false;
    int err = brought_words_take(brought, piece->words.data, piece->words.len, &error);
    if (err)
        session_fail(session, err, "%s", error.text);
    return true;
}

// It is of the dataset as it was then, even if that has been opened again since.
int bring_find(const struct session *session, const char *name, const struct dataset **dataset,
               struct error *error) {
    const struct brought *brought = session->brought;
    if (strcmp(brought->want.base->name, name) != 0)
        return error_set(error, -EINVAL,
                         "the view that was brought is of dataset %s, not of the one asked for",
                         brought->want.base->name);
    *dataset = brought->dataset;
    return 0;
}

// ---- The turn ----------------------------------------------------------------------------------------------

static void tell_ready(struct session *session) {
    Feedd__Brought there = FEEDD__BROUGHT__INIT;
    Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
    there.samples = session->brought->dataset->layout->samples;
    frame.body_case = FEEDD__SERVER_MESSAGE__BODY_BROUGHT;
    frame.brought = &there;
    session_set_state(session, SESSION_GREETED);
    session_send(session, &frame.base);
}

static void ask_for_words(struct session *session) {
    Feedd__Wanted wanted = FEEDD__WANTED__INIT;
    Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
    struct error error = {0};
    int err = brought_words_from(session->brought, session, &error);
    if (err) {
        session_fail(session, err, "%s", error.text);
        return;
    }
    frame.body_case = FEEDD__SERVER_MESSAGE__BODY_WANTED;
    frame.wanted = &wanted;
    session_send(session, &frame.base);
}

void bring_act(struct session *session) {
    struct brought *brought = session->brought;
    if (session->state != SESSION_BRINGING)
        return;
    brought_act(brought);
    if (brought->state == BROUGHT_READY)
        tell_ready(session);
    else if (brought->state == BROUGHT_FAILED)
        session_fail(session, brought->error.code, "%s", brought->error.text);
    else if (brought->state == BROUGHT_ARRIVING && !brought->bringer)
        ask_for_words(session);
}

void bring_leave(struct session *session) {
    if (session->brought)
        brought_let_go(session->brought, session);
    session->brought = NULL;
}
