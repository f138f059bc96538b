#include "client/ctl/dataset_question.h"

#include "base/error.h"
#include "client/feed.h"

static int ask(const struct dataset_question *question, struct error *error) {
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    int err = query_open(&connection, question->ctl, error);
    return err ? err
               : query_ask(&connection, FEEDD__QUERY__KIND__DATASETS, NULL, question->take, question->context,
                           error);
}

// Attaching does both, with the smallest ring that there is.
static int wait_or_say_why(const struct dataset_question *question, struct error *error) {
    const struct feed_options options = {
        .socket = question->ctl->socket,
        .dataset = question->name,
        .batch_size = 1,
        .prefetch = 1,
        .ring_bytes = 1,
        .client_name = "feedctl",
        .interrupted = question->interrupted,
        .reconnect_timeout_ms = -1,
    };
    struct feed *feed = NULL;
    int err = feed_open(&feed, &options);
    if (err)
        error_set(error, err, "%s", feed_strerror(feed));
    feed_close(feed);
    return err;
}

int dataset_ask(const struct dataset_question *question, struct error *error) {
    int err = ask(question, error);
    if (err || *question->known)
        return err;
    err = wait_or_say_why(question, error);
    if (!err)
        err = ask(question, error);
    if (err || *question->known)
        return err;
    return error_set(error, -EAGAIN, "dataset %s has just been added: try again", question->name);
}
