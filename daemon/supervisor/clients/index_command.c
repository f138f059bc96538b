#include "daemon/supervisor/clients/index_command.h"

#include "base/error.h"
#include "base/time.h"
#include "daemon/supervisor/clients/admission.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/indexing.h"

static void answer(struct session *session, int code, const char *text) {
    session->index.round = 0;
    if (code)
        session_refuse(session, code, text);
    else
        session_done(session, text);
}

bool index_command(struct session *session, const char *name) {
    struct supervisor *supervisor = session->supervisor;
    const struct dataset *dataset;
    struct error error = {0};
    const char *text;
    size_t number;
    int code;
    if (!datasets_find(supervisor, name, &number)) {
        code = admission_find(session, name, &dataset, &error); // says what there is
        answer(session, code, error.text);
        return true;
    }
    if (!session->index.round) {
        session->index.round = indexing_want(supervisor, number);
        session->index.generation = indexing_generation(supervisor);
        if (!session->index.round)
            answer(session, -ENOMEM, "feedd has no memory to keep track of indices");
        return !session->index.round;
    }
    if (session->index.generation != indexing_generation(supervisor)) {
        answer(session, 0,
               "a reload has opened all datasets meanwhile, and indexed them where that was needed");
        return true;
    }
    if (!indexing_outcome(supervisor, number, session->index.round, &code, &text))
        return false;
    answer(session, code, text);
    return true;
}

// The answer has to arrive before the client gives up, and a postponed message is looked at on the next tick.
#define PATIENCE_MARGIN_NS (600 * NS_PER_MS)

bool index_is_awaited(struct session *session, uint32_t patience_ms) {
    uint64_t now = monotonic_ns();
    if (!session->attaching_since_ns)
        session->attaching_since_ns = now;
    return !patience_ms ||
           now + PATIENCE_MARGIN_NS < session->attaching_since_ns + patience_ms * (uint64_t)NS_PER_MS;
}
