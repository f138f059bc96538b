// What feedctl asks about one dataset. The daemon cannot answer all of it before the dataset's index is there.
#ifndef FEEDD_CLIENT_CTL_DATASET_QUESTION_H
#define FEEDD_CLIENT_CTL_DATASET_QUESTION_H

#include "client/ctl/ctl.h"
#include "client/ctl/query.h"

struct dataset_question {
    const struct ctl *ctl;
    const char *name;
    int (*take)(const Feedd__Answer *page, void *context, struct error *error); // as of query_ask
    void *context;
    const bool *known;                  // `take` sets it once it has found the dataset and its samples
    bool (*interrupted)(void *context); // as in struct feed_options
};

// Waits for the index, or says why there is none, or no such dataset.
int dataset_ask(const struct dataset_question *question, struct error *error);

#endif
