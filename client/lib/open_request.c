#include "client/lib/open_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "client/lib/connect.h"
#include "order/token.h"
#include "shm/layout.h"

static bool too_long(const char *name) {
    return name && strlen(name) > NAME_LENGTH_MAX;
}

static int check_options(const struct feed_options *options, struct error *error) {
    uint32_t world_size = options->world_size ? options->world_size : 1;
    if (!options->dataset || !*options->dataset)
        return error_set(error, -EINVAL, "no dataset is named: set feed_options.dataset");
    if (too_long(options->dataset) || too_long(options->share))
        return error_set(error, -EINVAL, "the name of a dataset or share has at most %u bytes",
                         NAME_LENGTH_MAX);
    if (options->wait_for > 1 && (!options->share || !*options->share))
        return error_set(
            error, -EINVAL,
            "wait_for %u needs a share name: without one, no other consumer, of any rank, can join the feed",
            options->wait_for);
    if (options->resume && strlen(options->resume) >= RESUME_TOKEN_BYTES)
        return error_set(error, -EINVAL, "that is not a resume token: it is too long");
    if (options->batch_size < 1 || options->batch_size > CHUNK_MAX_SAMPLES)
        return error_set(error, -EINVAL, "batch_size %u: it must be 1 to %u", options->batch_size,
                         CHUNK_MAX_SAMPLES);
    if (options->rank >= world_size)
        return error_set(error, -EINVAL, "rank %u of world size %u: ranks count from 0", options->rank,
                         world_size);
    if (options->local_world_size > world_size)
        return error_set(error, -EINVAL, "local_world_size %u is more than world_size %u",
                         options->local_world_size, world_size);
    return 0;
}

// A copy of `text`; `*complete` becomes false when memory is out. NULL stays NULL.
static char *copy_text(const char *text, bool *complete) {
    char *copy = text ? strdup(text) : NULL;
    *complete = *complete && (copy || !text);
    return copy;
}

int open_request_copy(struct open_request *request, const struct feed_options *options,
                      const struct feed_view *view, struct error *error) {
    *request = (struct open_request){0};
    int err = check_options(options, error);
    if (!err)
        err = own_view_copy(&request->view, view, error);
    if (err)
        return err;
    bool complete = true;
    const char *name = options->client_name ? options->client_name : program_invocation_short_name;
    request->socket = copy_text(connect_path(options->socket), &complete);
    request->dataset = copy_text(options->dataset, &complete);
    request->share = copy_text(options->share, &complete);
    request->resume = copy_text(options->resume, &complete);
    request->client_name = copy_text(name, &complete);
    request->options = *options;
    request->options.socket = request->socket;
    request->options.dataset = request->dataset;
    request->options.share = request->share;
    request->options.resume = request->resume;
    request->options.client_name = request->client_name;
    request->options.device = NULL;
    if (!options->world_size)
        request->options.world_size = 1;
    return complete ? 0 : error_set(error, -ENOMEM, "out of memory");
}

void open_request_free(struct open_request *request) {
    free(request->socket);
    free(request->dataset);
    free(request->share);
    free(request->resume);
    free(request->client_name);
    own_view_free(&request->view);
    *request = (struct open_request){0};
}
