#include "base/states.h"

const char *state_name(const struct state_table *table, uint32_t state) {
    return state < table->count ? table->states[state].name : "?";
}

uint32_t state_next(const struct state_table *table, uint32_t from, uint32_t to) {
    if (from < table->count && to < table->count && table->states[from].next & STATE(to))
        return to;
    fprintf(stderr, "feedd: bug: a %s went from %s to %s\n", table->subject, state_name(table, from),
            state_name(table, to));
    abort();
}
