// The lists of <sys/queue.h>, with what glibc's lacks.
#ifndef FEEDD_BASE_QUEUE_H
#define FEEDD_BASE_QUEUE_H

#include <sys/queue.h>

// The body may take `item` off the list, and no other.
#ifndef LIST_FOREACH_SAFE
#define LIST_FOREACH_SAFE(item, head, link, next)                                                            \
    for ((item) = LIST_FIRST(head); (item) && ((next) = LIST_NEXT(item, link), 1); (item) = (next))
#endif
#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(item, head, link, next)                                                           \
    for ((item) = TAILQ_FIRST(head); (item) && ((next) = TAILQ_NEXT(item, link), 1); (item) = (next))
#endif

#endif
