#include "tests/simulate/request.h"

#include <inttypes.h>

#include "order/token.h"
#include "tests/simulate/daemon.h"

struct feed_options request_options(const struct client *client) {
    const struct group *group = client->group;
    return (struct feed_options){
        .socket = "simulated",
        .dataset = dataset_plans[group->dataset].name,
        .batch_size = (uint32_t)client->run.batch_size,
        .shuffle = client->run.shuffle,
        .drop_last = client->run.drop_last,
        .seed = client->run.seed,
        .rank = (uint32_t)client->run.rank,
        .world_size = group->world_size,
        .epochs = group->epochs,
        .share = *group->share && !client->alone ? group->share : NULL,
        .wait_for = group->left || client->alone ? 1 : group->wait_for,
        .prefetch = group->prefetch,
        .ring_bytes = group->ring_bytes,
        .device = client->device,
        .device_world_size = group->world_size,
        .resume = *client->saved ? client->saved : NULL,
        .connect_timeout_ms = 20000,
        .reconnect_timeout_ms = group->stays_lost ? -1 : 20000,
        .client_name = "simulated",
    };
}

// libfeed copies the numbers of a view, and brings it again after each restart of the daemon.
int request_open(struct client *client, const struct feed_options *options) {
    struct view_numbers numbers;
    if (!client->group->brings)
        return feed_open(&client->feed, options);
    const struct feed_view view = view_brought(&client->run.view, &numbers);
    return feed_open_view(&client->feed, options, &view);
}

void request_wander(struct client *client) {
    const struct group *group = client->group;
    const bool draws = client->run.view.kind == VIEW_DRAWS, shuffles = client->run.shuffle && !draws;
    if (group->brings && !client->fingerprint)
        return; // it does not know of which data
    const enum order_version shuffled = client->run.view.window ? ORDER_WINDOW_1 : ORDER_FEISTEL_1;
    struct resume_token token = {.version = shuffles ? shuffled : ORDER_SEQUENTIAL,
                                 .fingerprint = group->brings
                                                    ? client->fingerprint
                                                    : daemon_fingerprint(dataset_plans[group->dataset].name),
                                 .seed = shuffles || draws ? client->run.seed : 0,
                                 .epoch = sim_below(group->epochs),
                                 .consumed = sim_below(client->run.samples)};
    resume_token_format(&token, client->saved);
    client->saved_place = (struct reference_place){token.epoch, token.consumed};
    client->group->wandered = true;
    sim_trace("client %u: wanders to %" PRIu64 "/%" PRIu64, client->number, token.epoch, token.consumed);
}
