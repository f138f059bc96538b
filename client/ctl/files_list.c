#include "client/ctl/files_list.h"

#include <inttypes.h>

#include "client/ctl/grow.h"
#include "client/ctl/query.h"
#include "order/shares.h"
#include "order/window.h"

// What the daemon says is not believed: a sample outside the dataset would lie outside its files.
int files_list_take(struct files_list *list, const Feedd__Selection *row, struct error *error) {
    struct selection selection = {
        .kind = row->kind, .of = row->of, .first = row->first, .count = row->count, .seed = row->seed};
    bool part = row->kind <= SELECTION_SPLIT_1 && row->count <= row->of && row->first <= row->of - row->count;
    bool drawn = row->kind == SELECTION_WEIGHTED_1 && row->of >= 1 && row->of <= SHARES_MOST;
    if (!part && !drawn && row->kind != SELECTION_LIST)
        return error_set(error, -EPROTO, "feedd describes a view that this version does not know");
    if (part)
        selector_init(&list->selector, &selection, NULL);
    list->selector.selection = selection; // of the others, until their list is there
    return 0;
}

static int add(struct files_list *list, uint64_t word, struct error *error) {
    if (!grow((void **)&list->words, list->count, &list->room, sizeof *list->words))
        return error_set(error, -ENOMEM, "out of memory");
    list->words[list->count++] = word;
    return 0;
}

static int take_indices(const Feedd__Answer *page, void *context, struct error *error) {
    struct files_list *list = context;
    const struct selection *selection = &list->selector.selection;
    int err = 0;
    for (size_t i = 0; i < page->n_indices && !err; i++) {
        if (page->indices[i] >= selection->of || list->count == selection->count)
            return error_set(error, -EPROTO, "feedd lists too many samples, or one outside the dataset");
        err = add(list, page->indices[i], error);
    }
    return err;
}

static int ask_for_indices(struct files_list *list, struct connection *connection, const char *name,
                           struct error *error) {
    const struct selection selection = list->selector.selection;
    int err = query_ask(connection, FEEDD__QUERY__KIND__INDICES, name, take_indices, list, error);
    if (err)
        return err;
    if (list->count != selection.count)
        return error_set(error, -EPROTO, "feedd names %zu of %" PRIu64 " samples", list->count,
                         selection.count);
    selector_init(&list->selector, &selection, list->words);
    return 0;
}

static int take_shares(const Feedd__Answer *page, void *context, struct error *error) {
    struct files_list *list = context;
    uint64_t sum = list->count ? list->words[list->count - 1] : 0;
    int err = 0;
    for (size_t i = 0; i < page->n_shares && !err; i++) {
        if (page->shares[i] < sum || list->count == list->selector.selection.of)
            return error_set(error, -EPROTO, "feedd names too many weights, or sums of them that fall");
        sum = page->shares[i];
        err = add(list, sum, error);
    }
    return err;
}

static int ask_for_shares(struct files_list *list, struct connection *connection, const char *name,
                          struct error *error) {
    const struct selection selection = list->selector.selection;
    int err = query_ask(connection, FEEDD__QUERY__KIND__SHARES, name, take_shares, list, error);
    if (err)
        return err;
    if (list->count != selection.of || list->words[selection.of - 1] == 0)
        return error_set(error, -EPROTO, "feedd names %zu weights of %" PRIu64 " samples, or none above 0",
                         list->count, selection.of);
    uint64_t *table = realloc(list->words, selection_list_bytes(&selection));
    if (!table)
        return error_set(error, -ENOMEM, "out of memory");
    list->words = table;
    draw_prepare(list->words, selection.of);
    selector_init(&list->selector, &selection, list->words);
    return 0;
}

static int take_groups(const Feedd__Answer *page, void *context, struct error *error) {
    struct files_list *list = context;
    int err = 0;
    for (size_t i = 0; i < page->n_groups && !err; i++) {
        if (list->count == window_groups_bytes(WINDOW_MAX_GROUPS) / sizeof *list->words)
            return error_set(error, -EPROTO, "feedd names too many groups");
        err = add(list, page->groups[i], error);
    }
    return err;
}

int files_list_ask(struct files_list *list, struct connection *connection, const char *name, bool windows,
                   struct error *error) {
    switch (list->selector.selection.kind) {
    case SELECTION_LIST:
        return ask_for_indices(list, connection, name, error);
    case SELECTION_WEIGHTED_1:
        return ask_for_shares(list, connection, name, error);
    default:
        return windows ? query_ask(connection, FEEDD__QUERY__KIND__GROUPS, name, take_groups, list, error)
                       : 0;
    }
}

void files_list_free(struct files_list *list) {
    free(list->words);
    list->words = NULL;
}
