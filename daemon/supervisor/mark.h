// Marks: an event that changes an object marks it, and the turn (turn.h) acts on marked objects. So an event can never
// end an object while a caller walks a list that contains it.
#ifndef FEEDD_DAEMON_SUPERVISOR_MARK_H
#define FEEDD_DAEMON_SUPERVISOR_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/queue.h"

struct mark {
    TAILQ_ENTRY(mark) link;
    bool set;
};

// The marked objects of one kind, in the order in which they were marked.
struct mark_queue {
    TAILQ_HEAD(, mark) marks;
    uint32_t count;
};

static inline void mark_queue_init(struct mark_queue *queue) {
    TAILQ_INIT(&queue->marks);
    queue->count = 0;
}

// Does nothing if it is marked already.
static inline void mark_set(struct mark_queue *queue, struct mark *mark) {
    if (mark->set)
        return;
    mark->set = true;
    queue->count++;
    TAILQ_INSERT_TAIL(&queue->marks, mark, link);
}

// Before its object is freed.
static inline void mark_clear(struct mark_queue *queue, struct mark *mark) {
    if (!mark->set)
        return;
    mark->set = false;
    queue->count--;
    TAILQ_REMOVE(&queue->marks, mark, link);
}

// Takes the mark off the first one and returns it; NULL: none is marked.
static inline struct mark *mark_take(struct mark_queue *queue) {
    struct mark *mark = TAILQ_FIRST(&queue->marks);
    if (mark)
        mark_clear(queue, mark);
    return mark;
}

#endif
