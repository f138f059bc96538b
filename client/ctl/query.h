// Questions and commands to the daemon, on a connection that is not a consumer.
#ifndef FEEDD_CLIENT_CTL_QUERY_H
#define FEEDD_CLIENT_CTL_QUERY_H

#include "base/error.h"
#include "client/ctl/ctl.h"
#include "client/lib/connection.h"

#define CTL_TIMEOUT_MS 10000 // for the daemon to answer a question

// Connects for questions. 0, or negative with the error filled.
int query_open(struct connection *connection, const struct ctl *ctl, struct error *error);
int query_open_within(struct connection *connection, const struct ctl *ctl, uint32_t timeout_ms,
                      struct error *error);

// Asks, and hands every page of the answer to `take`.
int query_ask(struct connection *connection, Feedd__Query__Kind kind, const char *name,
              int (*take)(const Feedd__Answer *page, void *context, struct error *error), void *context,
              struct error *error);

// The same, with another limit on the time that each page may take.
int query_ask_within(struct connection *connection, Feedd__Query__Kind kind, const char *name,
                     uint32_t timeout_ms,
                     int (*take)(const Feedd__Answer *page, void *context, struct error *error),
                     void *context, struct error *error);

// Sends a command and copies what the daemon says to `text`.
int query_command(struct connection *connection, const Feedd__Command *command, char *text, size_t bytes,
                  struct error *error);

// For commands that may take long: every `every_ms` of waiting, `waiting` is called.
struct query_patience {
    uint32_t every_ms;
    void (*waiting)(void *context);
    void *context;
};
int query_command_patiently(struct connection *connection, Feedd__Command__Kind kind, const char *name,
                            const struct query_patience *patience, char *text, size_t bytes,
                            struct error *error);

#endif
