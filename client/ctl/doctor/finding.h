// What the checks of feedctl doctor have found: a list that is printed as text or as JSON.
#ifndef FEEDD_CLIENT_CTL_DOCTOR_FINDING_H
#define FEEDD_CLIENT_CTL_DOCTOR_FINDING_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/scope.h"

enum finding_state {
    FINDING_OK,
    FINDING_WARNING, // feedd works, but slower, or with less, than this machine could
    FINDING_PROBLEM, // something will fail
    FINDING_STATES
};

struct finding {
    enum finding_state state;
    const char *subject;         // what was looked at, in a word or two; a literal
    char text[320], remedy[256]; // a sentence; the command that mends it, or ""
};

struct findings {
    struct finding *list;
    uint32_t count, room;
    bool incomplete; // memory ran out
};

// `remedy` NULL: none.
void findings_add(struct findings *findings, enum finding_state state, const char *subject,
                  const char *remedy, const char *text, ...) PRINTF_LIKE(5, 6);
uint32_t findings_count(const struct findings *findings, enum finding_state state);

void findings_print(const struct findings *findings, uint32_t width, FILE *out);
json_t *findings_json(const struct findings *findings);
void findings_free(struct findings *findings);

#endif
