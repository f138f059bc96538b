#include "daemon/supervisor/index_entry.h"

#include <errno.h>
#include <stdio.h>

#include "base/sizes.h"
#include "base/states.h"
#include "base/time.h"

#define LONGEST_PAUSE 6u // doublings of a second

static const struct state states[] = {
    [INDEX_OPEN] = {"open", STATE(INDEX_QUEUED)},
    [INDEX_QUEUED] = {"queued", STATE(INDEX_BUILDING)},
    [INDEX_BUILDING] = {"indexing", STATE(INDEX_OPEN) | STATE(INDEX_FAILED)},
    [INDEX_FAILED] = {"failed", STATE(INDEX_QUEUED)},
};
static const struct state_table table = STATE_TABLE("index of a dataset", states);

static void set_state(struct index_entry *entry, enum index_state state) {
    entry->state = (enum index_state)state_next(&table, entry->state, state);
}

const char *index_state_name(enum index_state state) {
    return state_name(&table, state);
}

static bool may_pass(int code) {
    switch (-code) {
    case EAGAIN:
    case EBUSY:
    case EDQUOT:
    case EIO:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC:
    case ENOTCONN:
    case ESTALE:
    case ETIMEDOUT:
        return true;
    default:
        return false;
    }
}

void index_entry_queue(struct index_entry *entry) {
    set_state(entry, INDEX_QUEUED);
}

void index_entry_begin(struct index_entry *entry) {
    set_state(entry, INDEX_BUILDING);
}

void index_entry_end(struct index_entry *entry, bool served, int code, const char *text, uint64_t now) {
    entry->rounds++;
    entry->code = code;
    snprintf(entry->text, sizeof entry->text, "%s", text);
    entry->failures = !served && may_pass(code) ? entry->failures + 1 : 0;
    entry->retry_ns = entry->failures ? now + (NS_PER_S << min_u64(entry->failures - 1, LONGEST_PAUSE)) : 0;
    set_state(entry, served ? INDEX_OPEN : INDEX_FAILED);
    if (entry->again)
        set_state(entry, INDEX_QUEUED);
    entry->again = false;
}

uint64_t index_entry_want(struct index_entry *entry, bool served) {
    // A check that has begun may have looked at the files already; a dataset that is not there is only to be built.
    bool later = entry->state == INDEX_BUILDING && served;
    if (entry->state == INDEX_OPEN || entry->state == INDEX_FAILED)
        set_state(entry, INDEX_QUEUED);
    entry->again |= later;
    return entry->rounds + 1 + later;
}

bool index_entry_is_due(const struct index_entry *entry, uint64_t now) {
    return entry->state == INDEX_FAILED && entry->retry_ns && now >= entry->retry_ns;
}
