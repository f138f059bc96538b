#include "daemon/supervisor/clients/query_indices.h"

#include <unistd.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/source/dataset.h"
#include "daemon/supervisor/clients/admission.h"

#define PAGE_WORDS 4096u

struct page {
    uint64_t words[PAGE_WORDS];
    uint64_t here; // words of the page
    uint32_t next;
};

// The view's selection is of `kind`, or the page is empty. `whose` is for messages: "sample numbers".
static int read_page(struct session *session, const char *name, uint32_t kind, uint32_t start,
                     const char *whose, struct page *page) {
    const struct dataset *dataset;
    struct error error = {0};
    int err = admission_find(session, name, &dataset, &error);
    if (err) {
        session_refuse(session, err, error.text);
        return err;
    }
    const struct selection *selection = &dataset->layout->selection;
    uint64_t count = kind == SELECTION_LIST ? selection->count : selection->of;
    if (selection->kind != kind)
        count = 0;
    page->here = min_u64(count - min_u64(start, count), PAGE_WORDS);
    page->next = start + page->here < count ? start + PAGE_WORDS : 0;
    const ssize_t bytes = (ssize_t)(page->here * sizeof *page->words);
    const off_t offset = (off_t)(sizeof(struct dataset_list) + start * sizeof *page->words);
    if (bytes && pread(dataset->list_fd, page->words, (size_t)bytes, offset) != bytes) {
        char text[64];
        snprintf(text, sizeof text, "the view's %s cannot be read", whose);
        session_refuse(session, -EIO, text);
        return -EIO;
    }
    return 0;
}

void query_indices(struct session *session, const char *name, uint32_t start,
                   void (*send)(struct session *session, Feedd__Answer *answer)) {
    struct page page;
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    if (read_page(session, name, SELECTION_LIST, start, "sample numbers", &page))
        return;
    answer.n_indices = page.here;
    answer.indices = page.words;
    answer.next = page.next;
    send(session, &answer);
}

void query_shares(struct session *session, const char *name, uint32_t start,
                  void (*send)(struct session *session, Feedd__Answer *answer)) {
    struct page page;
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    if (read_page(session, name, SELECTION_WEIGHTED_1, start, "weights", &page))
        return;
    answer.n_shares = page.here;
    answer.shares = page.words;
    answer.next = page.next;
    send(session, &answer);
}
