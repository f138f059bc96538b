#include "daemon/supervisor/clients/query_indices.h"

#include <unistd.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/dataset/dataset.h"
#include "daemon/on_error.h"
#include "daemon/supervisor/clients/admission.h"
#include "order/mix.h"

#define PAGE_WORDS 4096u

struct words {
    uint64_t words[PAGE_WORDS];
    uint64_t here; // words of the page
    uint32_t next;
};

static const struct dataset *find_dataset(struct session *session, const char *name) {
    const struct dataset *dataset;
    struct error error = {0};
    int err = admission_find(session, name, &dataset, &error);
    if (err)
        session_refuse(session, err, error.text);
    return err ? NULL : dataset;
}

// `count` words lie at `offset` in the file. `whose` is for messages: "the view's sample numbers".
static int read_page(struct session *session, int fd, uint64_t offset, uint64_t count, uint32_t start,
                     const char *whose, struct words *page) {
    page->here = min_u64(count - min_u64(start, count), PAGE_WORDS);
    page->next = start + page->here < count ? start + PAGE_WORDS : 0;
    const ssize_t bytes = (ssize_t)(page->here * sizeof *page->words);
    if (bytes == 0 ||
        pread(fd, page->words, (size_t)bytes, (off_t)(offset + start * sizeof *page->words)) == bytes)
        return 0;
    char text[64];
    snprintf(text, sizeof text, "%s cannot be read", whose);
    session_refuse(session, -EIO, text);
    return -EIO;
}

// Its selection is of `kind`, or the page is empty.
static int read_list(struct session *session, const char *name, uint32_t kind, uint32_t start,
                     const char *whose, struct words *page) {
    const struct dataset *dataset = find_dataset(session, name);
    if (!dataset)
        return -ENOENT;
    const struct selection *selection = &dataset->layout->selection;
    uint64_t count = kind == SELECTION_LIST ? selection->count : selection->of;
    return read_page(session, dataset->list_fd, sizeof(struct dataset_list),
                     selection->kind == kind ? count : 0, start, whose, page);
}

void query_indices(struct session *session, const char *name, uint32_t start,
                   void (*send)(struct session *session, Feedd__Answer *answer)) {
    struct words page;
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    if (read_list(session, name, SELECTION_LIST, start, "the view's sample numbers", &page))
        return;
    answer.n_indices = page.here;
    answer.indices = page.words;
    answer.next = page.next;
    send(session, &answer);
}

void query_shares(struct session *session, const char *name, uint32_t start,
                  void (*send)(struct session *session, Feedd__Answer *answer)) {
    struct words page;
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    if (read_list(session, name, SELECTION_WEIGHTED_1, start, "the view's weights", &page))
        return;
    answer.n_shares = page.here;
    answer.shares = page.words;
    answer.next = page.next;
    send(session, &answer);
}

void query_groups(struct session *session, const char *name, uint32_t start,
                  void (*send)(struct session *session, Feedd__Answer *answer)) {
    struct words page;
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    const struct dataset *dataset = find_dataset(session, name);
    if (!dataset)
        return;
    const struct dataset_layout *layout = dataset->layout;
    const uint64_t words = layout->window ? window_groups_bytes(layout->groups) / sizeof(uint64_t) : 0;
    if (read_page(session, dataset->list_fd, sizeof(struct dataset_list), words, start,
                  "the groups of the shuffle window", &page))
        return;
    answer.n_groups = page.here;
    answer.groups = page.words;
    answer.next = page.next;
    send(session, &answer);
}

void query_index(struct session *session, const char *name, uint32_t start,
                 void (*send)(struct session *session, Feedd__Answer *answer)) {
    struct words page;
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    const struct dataset *dataset = find_dataset(session, name);
    if (!dataset || read_page(session, dataset->index_fd, 0, dataset->layout->index_bytes / sizeof(uint64_t),
                              start, "the dataset's index", &page))
        return;
    answer.n_index = page.here;
    answer.index = page.words;
    answer.next = page.next;
    send(session, &answer);
}

void query_sources(struct session *session, const char *name,
                   void (*send)(struct session *session, Feedd__Answer *answer)) {
    Feedd__Source rows[MIX_MAX_SOURCES], *list[MIX_MAX_SOURCES];
    const struct dataset *dataset;
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    struct error error = {0};
    int err = admission_find(session, name, &dataset, &error);
    if (err) {
        session_refuse(session, err, error.text);
        return;
    }
    for (uint32_t i = 0; i < dataset->layout->part_count; i++) {
        feedd__source__init(&rows[i]);
        rows[i].name = dataset->sources[i]->name;
        rows[i].weight = dataset->weights[i];
        rows[i].samples = dataset->sources[i]->layout->samples;
        rows[i].windows = dataset->sources[i]->layout->window != 0;
        list[i] = &rows[i];
    }
    answer.replaces = dataset->on_error == ON_ERROR_REPLACE;
    answer.n_sources = dataset->layout->part_count;
    answer.sources = list;
    send(session, &answer);
}
