// The part that a range or split takes of a list of sample numbers, or of all samples of a dataset; and how often each
// sample of the dataset is in such a part.
#ifndef FEEDD_CLIENT_LIB_VIEW_PART_H
#define FEEDD_CLIENT_LIB_VIEW_PART_H

#include "base/error.h"
#include "client/feed.h"
#include "order/selection.h"

// Which of `of` samples or sample numbers, which `what` calls them, a range or split takes. -EINVAL: none of them.
int view_part_select(const struct feed_view *view, uint64_t of, const char *what, struct selection *part,
                     struct error *error);

// Replaces the list, which is freed, by that part of it: part->count numbers. -ENOMEM.
int view_part_cut(const struct selection *part, uint64_t **list, struct error *error);

// Counts in times[0] to times[part->of - 1], which are 0, how often each sample is in the part. `list` is that of a
// SELECTION_LIST, with numbers of type `dtype`; NULL for other kinds. -ERANGE: it has a number that is not below
// part->of.
int view_part_count(const struct selection *part, const uint64_t *list, enum feed_dtype dtype,
                    uint32_t *times, struct error *error);

#endif
