#include "daemon/supervisor/clients/query_errors.h"

#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/dataset/incomplete_list.h"
#include "daemon/supervisor/clients/admission.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/feeds/bad_samples.h"

#define PAGE_ROWS   12u // a path can have 4 KiB
#define REASON_TEXT 96u

struct error_page {
    Feedd__BadSample rows[PAGE_ROWS];
    Feedd__BadSample *list[PAGE_ROWS];
    char reasons[PAGE_ROWS][REASON_TEXT];
    uint32_t count;
};

static void describe(const struct bad_sample *bad, Feedd__BadSample *row, char reason[REASON_TEXT]) {
    feedd__bad_sample__init(row);
    row->sample = bad->sample;
    row->dataset = (char *)bad->dataset;
    row->path = bad->path;
    row->offset = bad->offset;
    row->at_ns = bad->at_ns;
    row->fate = (char *)bad_fate_name(bad->fate);
    const int code = (int)min_u64(bad->code, INT16_MAX);
    if (bad->refused && *bad->reason)
        snprintf(reason, REASON_TEXT, "%s", bad->reason);
    else if (bad->refused)
        snprintf(reason, REASON_TEXT, "refused after the read: %s", dataset_read_reason(false, -code));
    else
        snprintf(reason, REASON_TEXT, "%s", dataset_read_reason(bad->in_folder, -code));
    row->reason = reason;
}

// As the index has them. In the numbers of pages, they follow those that could not be read.
static void list_incomplete(const struct dataset *dataset, uint32_t start, struct error_page *page,
                            uint32_t *next) {
    const struct incomplete_list *list = dataset->incomplete;
    for (uint32_t i = start; list && i < list->listed; i++) {
        const struct incomplete_sample *sample = &list->first[i];
        if (page->count == PAGE_ROWS) {
            *next = BAD_SAMPLES_KEPT + i;
            return;
        }
        Feedd__BadSample *row = page->list[page->count] = &page->rows[page->count];
        feedd__bad_sample__init(row);
        row->sample = sample->sample;
        row->path = dataset->paths[sample->file];
        row->fate = (char *)"incomplete";
        row->reason = sample->reason;
        page->count++;
    }
}

// Newest first. What belongs to other users is only counted.
static void list_errors(const struct session *session, const struct bad_samples *bad, uint32_t start,
                        struct error_page *page, Feedd__Errors *errors, uint32_t *next) {
    uint32_t kept = (uint32_t)min_u64(bad->count, BAD_SAMPLES_KEPT);
    for (uint32_t i = start; i < kept; i++) {
        const struct bad_sample *sample = &bad->last[(bad->count - 1 - i) % BAD_SAMPLES_KEPT];
        if (!admission_shows_user(session, sample->user)) {
            errors->others++;
            continue;
        }
        if (page->count == PAGE_ROWS) {
            *next = i;
            return;
        }
        uint32_t row = page->count++;
        describe(sample, &page->rows[row], page->reasons[row]);
        page->list[row] = &page->rows[row];
    }
}

// The dataset need not be there: it may have been before a reload.
static int find(struct session *session, const char *name, const struct dataset **dataset) {
    struct error error = {0};
    int err = admission_find(session, name, dataset, &error);
    size_t number;
    if (err)
        *dataset = NULL;
    if (!err || (err != -EACCES && datasets_find(session->supervisor, name, &number)))
        return 0;
    session_refuse(session, err, error.text);
    return err;
}

void query_errors(struct session *session, const char *name, uint32_t start,
                  void (*send)(struct session *session, Feedd__Answer *answer)) {
    struct error_page page = {.count = 0};
    Feedd__Errors errors = FEEDD__ERRORS__INIT;
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    const struct dataset *dataset;
    if (find(session, name, &dataset))
        return;
    if (!start) // a later page continues the list as it was
        bad_samples_collect(session->supervisor, name);
    const struct bad_samples *bad = bad_samples_of(session->supervisor, name);
    if (bad) {
        if (start < BAD_SAMPLES_KEPT)
            list_errors(session, bad, start, &page, &errors, &answer.next);
        errors.failed = bad->total[BAD_FATAL];
        errors.skipped = bad->total[BAD_SKIPPED];
        errors.replaced = bad->total[BAD_REPLACED];
    }
    if (dataset && dataset->incomplete) {
        errors.incomplete = dataset->incomplete->count;
        if (!answer.next)
            list_incomplete(dataset, start - (uint32_t)min_u64(start, BAD_SAMPLES_KEPT), &page, &answer.next);
    }
    errors.n_samples = page.count;
    errors.samples = page.list;
    answer.errors = &errors;
    send(session, &answer);
}
