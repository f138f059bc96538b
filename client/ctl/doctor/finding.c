#include "client/ctl/doctor/finding.h"

#include <stdarg.h>
#include <stdlib.h>

#include "client/ctl/render.h"
#include "client/ctl/text.h"

#define TEXT_COLUMN 27 // where the sentence begins: after "warning" and the subject

static const char *const state_names[FINDING_STATES] = {
    [FINDING_OK] = "ok", [FINDING_WARNING] = "warning", [FINDING_PROBLEM] = "problem"};

static struct finding *new_finding(struct findings *findings) {
    if (findings->count == findings->room) {
        uint32_t room = findings->room ? 2 * findings->room : 32;
        struct finding *list = realloc(findings->list, room * sizeof *list);
        if (!list) {
            findings->incomplete = true;
            return NULL;
        }
        findings->list = list;
        findings->room = room;
    }
    return &findings->list[findings->count++];
}

void findings_add(struct findings *findings, enum finding_state state, const char *subject,
                  const char *remedy, const char *text, ...) {
    struct finding *finding = new_finding(findings);
    va_list list;
    if (!finding)
        return;
    finding->state = state;
    finding->subject = subject;
    va_start(list, text);
    vsnprintf(finding->text, sizeof finding->text, text, list);
    va_end(list);
    snprintf(finding->remedy, sizeof finding->remedy, "%s", remedy ? remedy : "");
    text_clean(finding->text);
    text_clean(finding->remedy);
}

uint32_t findings_count(const struct findings *findings, enum finding_state state) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < findings->count; i++)
        count += findings->list[i].state == state;
    return count;
}

static void print_summary(const struct findings *findings, FILE *out) {
    uint32_t problems = findings_count(findings, FINDING_PROBLEM);
    uint32_t warnings = findings_count(findings, FINDING_WARNING);
    fprintf(out, "%u problem%s, %u warning%s\n", problems, problems == 1 ? "" : "s", warnings,
            warnings == 1 ? "" : "s");
}

void findings_print(const struct findings *findings, uint32_t width, FILE *out) {
    // On a narrow terminal the sentence stands below what it is about.
    bool narrow = width && width < 60;
    uint32_t column = narrow ? 4 : TEXT_COLUMN;
    for (uint32_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        fprintf(out, "%-8s %-*s%s", state_names[finding->state], narrow ? 0 : TEXT_COLUMN - 9,
                finding->subject, narrow ? "\n    " : "");
        text_fold(finding->text, column, width, out);
        if (*finding->remedy) {
            fprintf(out, "%*s", (int)column, "");
            fputs("-> ", out);
            text_fold(finding->remedy, column + 3, width, out);
        }
    }
    print_summary(findings, out);
}

json_t *findings_json(const struct findings *findings) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->list[i];
        json_t *remedy = *finding->remedy ? ctl_json_text(finding->remedy) : json_null();
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o}", "state", state_names[finding->state],
                                              "subject", finding->subject, "text",
                                              ctl_json_text(finding->text), "remedy", remedy));
    }
    return json_pack("{s:I, s:I, s:o}", "problems", (json_int_t)findings_count(findings, FINDING_PROBLEM),
                     "warnings", (json_int_t)findings_count(findings, FINDING_WARNING), "findings", list);
}

void findings_free(struct findings *findings) {
    free(findings->list);
    *findings = (struct findings){0};
}
