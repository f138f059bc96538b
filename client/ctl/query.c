#include "client/ctl/query.h"

#include <string.h>

#include "base/error.h"

int query_open_within(struct connection *connection, const struct ctl *ctl, uint32_t timeout_ms,
                      struct error *error) {
    return connection_open(connection, ctl->socket, "feedctl", (struct interrupt){0},
                           deadline_after_ms(timeout_ms), error);
}

int query_open(struct connection *connection, const struct ctl *ctl, struct error *error) {
    return query_open_within(connection, ctl, CTL_TIMEOUT_MS, error);
}

static int send_question(struct connection *connection, const Feedd__ClientMessage *question,
                         struct error *error) {
    int sent = connection_send(connection, question);
    return sent < 0
               ? error_set(error, sent, "cannot send to feedd on %s: %s", connection->path, strerror(-sent))
               : 0;
}

// Waits for the one answer, which is `wanted` or an error. NULL with the error filled.
static const Feedd__ServerMessage *await_answer(struct connection *connection,
                                                Feedd__ServerMessage__BodyCase wanted, uint32_t timeout_ms,
                                                struct error *error) {
    const Feedd__ServerMessage *answer;
    int got = connection_receive(connection, &answer, deadline_after_ms(timeout_ms), error);
    if (got == 1 && answer->body_case == wanted)
        return answer;
    if (got == 1 && answer->body_case == FEEDD__SERVER_MESSAGE__BODY_ERROR)
        connection_refusal(answer->error, error);
    else if (got == 1)
        error_set(error, -EPROTO, "feedd on %s answered a question with message %d", connection->path,
                  answer->body_case);
    else if (got == 0)
        error_set(error, -ETIMEDOUT,
                  "feedd on %s did not answer within %u s: it may hang (feedctl stats works without it)",
                  connection->path, timeout_ms / 1000);
    return NULL;
}

int query_ask_within(struct connection *connection, Feedd__Query__Kind kind, const char *name,
                     uint32_t timeout_ms,
                     int (*take)(const Feedd__Answer *page, void *context, struct error *error),
                     void *context, struct error *error) {
    Feedd__Query query = FEEDD__QUERY__INIT;
    query.kind = kind;
    if (name)
        query.name = (char *)name;
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_QUERY;
    message.query = &query;
    do {
        if (send_question(connection, &message, error) < 0)
            return error->code;
        const Feedd__ServerMessage *answer =
            await_answer(connection, FEEDD__SERVER_MESSAGE__BODY_ANSWER, timeout_ms, error);
        int err = answer ? take(answer->answer, context, error) : error->code;
        if (err < 0 || !answer)
            return err;
        if (answer->answer->next && answer->answer->next <= query.start)
            return error_set(error, -EPROTO, "feedd on %s sends the same part of a list again",
                             connection->path);
        query.start = answer->answer->next;
    } while (query.start);
    return 0;
}

int query_ask(struct connection *connection, Feedd__Query__Kind kind, const char *name,
              int (*take)(const Feedd__Answer *page, void *context, struct error *error), void *context,
              struct error *error) {
    return query_ask_within(connection, kind, name, CTL_TIMEOUT_MS, take, context, error);
}

static int send_command(struct connection *connection, const Feedd__Command *command, struct error *error) {
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_COMMAND;
    message.command = (Feedd__Command *)command;
    return send_question(connection, &message, error);
}

int query_command(struct connection *connection, const Feedd__Command *command, char *text, size_t bytes,
                  struct error *error) {
    int err = send_command(connection, command, error);
    if (err < 0)
        return err;
    const Feedd__ServerMessage *answer =
        await_answer(connection, FEEDD__SERVER_MESSAGE__BODY_DONE, CTL_TIMEOUT_MS, error);
    if (!answer)
        return error->code;
    snprintf(text, bytes, "%s", answer->done->text);
    return 0;
}

int query_command_patiently(struct connection *connection, Feedd__Command__Kind kind, const char *name,
                            const struct query_patience *patience, char *text, size_t bytes,
                            struct error *error) {
    const Feedd__ServerMessage *answer = NULL;
    Feedd__Command command = FEEDD__COMMAND__INIT;
    command.kind = kind;
    command.name = (char *)name;
    int err = send_command(connection, &command, error);
    while (err == 0 && !answer) {
        answer = await_answer(connection, FEEDD__SERVER_MESSAGE__BODY_DONE, patience->every_ms, error);
        if (!answer && error->code != -ETIMEDOUT)
            return error->code;
        if (!answer)
            patience->waiting(patience->context);
    }
    if (answer)
        snprintf(text, bytes, "%s", answer->done->text);
    return err;
}
