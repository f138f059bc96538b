#include <flatcc/flatcc_verifier.h>

// Tables may be shared, so that a few hundred bytes can hold a schema with more fields than anybody can visit. flatcc's
// verifier visits them all. The functions below count what it does, and stop it.
#define MOST_STEPS (1u << 22)

static _Thread_local uint32_t steps;

static int take_step(void) {
    return ++steps > MOST_STEPS ? flatcc_verify_error_max_nesting_level_reached : 0;
}

static int verify_string(flatcc_table_verifier_descriptor_t *table, flatbuffers_voffset_t id, int required) {
    int reason = take_step();
    return reason ? reason : flatcc_verify_string_field(table, id, required);
}

static int verify_tables(flatcc_table_verifier_descriptor_t *table, flatbuffers_voffset_t id, int required,
                         flatcc_table_verifier_f *verify) {
    int reason = take_step();
    return reason ? reason : flatcc_verify_table_vector_field(table, id, required, verify);
}

#define flatcc_verify_string_field       verify_string
#define flatcc_verify_table_vector_field verify_tables
#include "daemon/source/arrow/arrow_format.h"

int arrow_verify_message(const void *bytes, size_t count) {
    steps = 0;
    return ns(Message_verify_as_root)(bytes, count);
}

int arrow_verify_footer(const void *bytes, size_t count) {
    steps = 0;
    return ns(Footer_verify_as_root)(bytes, count);
}
