// Questions and commands to the daemon, on a session that is no consumer.
#include <string.h>

#include "client/ctl.h"

int query_open(struct session *session, const struct ctl *ctl, struct error *error) {
    return session_open(session, ctl->socket, "feedctl", (struct interrupt){0},
                        deadline_after_ms(CTL_TIMEOUT_MS), error);
}

// Sends and waits for the one answer, which is `wanted` or an error. NULL with the error filled.
static const Feedd__ServerMessage *exchange(struct session *session, const Feedd__ClientMessage *question,
                                            Feedd__ServerMessage__BodyCase wanted, struct error *error) {
    const Feedd__ServerMessage *answer;
    int sent = session_send(session, question);
    if (sent < 0) {
        error_set(error, sent, "cannot send to feedd on %s: %s", session->path, strerror(-sent));
        return NULL;
    }
    int got = session_receive(session, &answer, deadline_after_ms(CTL_TIMEOUT_MS), error);
    if (got == 1 && answer->body_case == wanted)
        return answer;
    if (got == 1 && answer->body_case == FEEDD__SERVER_MESSAGE__BODY_ERROR)
        session_refusal(answer->error, error);
    else if (got == 1)
        error_set(error, -EPROTO, "feedd on %s answered a question with message %d", session->path,
                  answer->body_case);
    else if (got == 0)
        error_set(error, -ETIMEDOUT,
                  "feedd on %s did not answer within %d s: it may hang (feedctl stats works without it)",
                  session->path, CTL_TIMEOUT_MS / 1000);
    return NULL;
}

int query_ask(struct session *session, Feedd__Query__Kind kind, const char *name,
              int (*take)(const Feedd__Answer *page, void *context, struct error *error), void *context,
              struct error *error) {
    Feedd__Query query = FEEDD__QUERY__INIT;
    query.kind = kind;
    if (name)
        query.name = (char *)name;
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_QUERY;
    message.query = &query;
    do {
        const Feedd__ServerMessage *answer =
            exchange(session, &message, FEEDD__SERVER_MESSAGE__BODY_ANSWER, error);
        int result = answer ? take(answer->answer, context, error) : error->code;
        if (result < 0 || !answer)
            return result;
        if (answer->answer->next && answer->answer->next <= query.start)
            return error_set(error, -EPROTO, "feedd on %s goes round in circles in a list", session->path);
        query.start = answer->answer->next;
    } while (query.start);
    return 0;
}

int query_command(struct session *session, Feedd__Command__Kind kind, char *text, size_t bytes,
                  struct error *error) {
    Feedd__Command command = FEEDD__COMMAND__INIT;
    command.kind = kind;
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_COMMAND;
    message.command = &command;
    const Feedd__ServerMessage *answer = exchange(session, &message, FEEDD__SERVER_MESSAGE__BODY_DONE, error);
    if (!answer)
        return error->code;
    snprintf(text, bytes, "%s", answer->done->text);
    return 0;
}
