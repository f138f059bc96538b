// The words of a view that a client brings: 8 bytes for each sample number or weight. They are checked as they arrive;
// a thread completes the list.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_BROUGHT_WORDS_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_BROUGHT_WORDS_H

#include "daemon/supervisor/clients/brought.h"

// Bytes of memory for them, and for what becomes of them.
uint64_t brought_words_memory(const struct brought_want *want);

// Prepares for them: the view has none, and nobody sends any.
int brought_words_begin(struct brought *brought, struct error *error);

// This session sends them from now on, from the first.
int brought_words_from(struct brought *brought, struct session *session, struct error *error);

// Takes the next ones. -EPROTO: it is another number of them than is due, or they are not what was announced; -ERANGE:
// they are not valid; or another errno. The sender is to blame, or nobody is. With the last ones, the view is WORKING.
int brought_words_take(struct brought *brought, const uint8_t *words, size_t bytes, struct error *error);

// While WORKING: if the thread is done, the view is READY or FAILED.
void brought_words_finish(struct brought *brought);

// Ends a session that does not send what it said it would.
void brought_words_watch(struct brought *brought, uint64_t now);

// Gives up what has arrived, and the thread.
void brought_words_leave(struct brought *brought);

#endif
