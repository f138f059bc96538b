// Which samples of a dataset a view has, and which of them are shuffled together, according to the daemon.
#ifndef FEEDD_CLIENT_CTL_FILES_LIST_H
#define FEEDD_CLIENT_CTL_FILES_LIST_H

#include "base/error.h"
#include "client/lib/connection.h"
#include "order/selection.h"

struct files_list {
    struct selector selector; // of a view
    uint64_t *words; // its numbers, its table of draws, or a struct window_groups; NULL: none of these
    size_t count, room;
};

// Takes what came with a list of files.
int files_list_take(struct files_list *list, const Feedd__Selection *row, struct error *error);

// Asks for the numbers or the weights of a view that has them. `windows`: for the groups of the windows in which it is
// shuffled, which are not checked yet (sampler_open does).
int files_list_ask(struct files_list *list, struct connection *connection, const char *name, bool windows,
                   struct error *error);

void files_list_free(struct files_list *list);

#endif
