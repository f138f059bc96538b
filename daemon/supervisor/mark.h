// Marks: an event says that an object has changed by marking it, and the turn (turn.h) acts on what is marked. So
// nothing that an event does can end an object while somebody walks a list that it is on.
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

// Objects of one kind that are marked, the one marked first in front.
struct mark_queue {
    TAILQ_HEAD(, mark) marks;
    uint32_t count;
};

static inline void mark_queue_init(struct mark_queue *queue) {
    TAILQ_INIT(&queue->marks);
    queue->count = 0;
}

// Nothing if it is marked already.
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

// The first one, no longer marked; NULL: none is.
static inline struct mark *mark_take(struct mark_queue *queue) {
    struct mark *mark = TAILQ_FIRST(&queue->marks);
    if (mark)
        mark_clear(queue, mark);
    return mark;
}

#endif
