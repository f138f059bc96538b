#include "client/ctl/top/gather.h"

#include <string.h>

#include "base/time.h"

#define ANSWER_MS    300u // the screen stands still for as long as the daemon does not answer
#define HEARTBEAT_NS (1 * NS_PER_S)
#define RETRY_NS     (5 * NS_PER_S)

static int take_clients(const Feedd__Answer *page, void *context, struct error *error) {
    struct top_look *look = context;
    for (size_t i = 0; i < page->n_clients; i++) {
        const Feedd__Client *client = page->clients[i];
        if (!client->feed)
            continue;
        if (look->client_count == look->client_room) {
            uint32_t room = look->client_room ? 2 * look->client_room : 32;
            struct top_client *clients = realloc(look->clients, room * sizeof *clients);
            if (!clients)
                return error_set(error, -ENOMEM, "out of memory");
            look->clients = clients;
            look->client_room = room;
        }
        struct top_client *taken = &look->clients[look->client_count++];
        *taken = (struct top_client){.session = client->session,
                                     .pid = client->pid,
                                     .feed = client->feed,
                                     .batches = client->batches,
                                     .user = client->user,
                                     .rank = client->rank,
                                     .held = client->held,
                                     .prefetch = client->prefetch,
                                     .waiting = client->waiting};
        snprintf(taken->name, sizeof taken->name, "%s", client->name);
        snprintf(taken->device, sizeof taken->device, "%s", client->device);
        snprintf(taken->state, sizeof taken->state, "%s", client->state);
    }
    return 0;
}

// A daemon that seems to hang is not asked, and one that did not answer is left alone for a while.
static void ask_clients(struct gathered *gathered) {
    struct top_look *now = &gathered->now;
    struct error error = {0};
    uint64_t time = now->stats.taken_ns;
    now->client_count = 0;
    now->asked_ns = 0;
    if (now->stats.stopped || time > now->stats.heartbeat_ns + HEARTBEAT_NS ||
        (gathered->failed_ns && time < gathered->failed_ns + RETRY_NS))
        return;
    int err = gathered->connection.socket >= 0
                  ? 0
                  : query_open_within(&gathered->connection, gathered->look.ctl, ANSWER_MS, &error);
    if (err == 0)
        err = query_ask_within(&gathered->connection, FEEDD__QUERY__KIND__CLIENTS, NULL, ANSWER_MS,
                               take_clients, now, &error);
    if (err == 0) {
        now->asked_ns = monotonic_ns();
        return;
    }
    connection_close(&gathered->connection);
    now->client_count = 0;
    gathered->failed_ns = time;
}

static int look_again(struct gathered *gathered, struct error *error) {
    int err = look_at(&gathered->look, &gathered->now.stats, error);
    if (err < 0)
        return err;
    gathered->now.loader_count = look_at_loaders(&gathered->look, gathered->now.loaders);
    ask_clients(gathered);
    return 0;
}

int gather_open(struct gathered *gathered, const struct ctl *ctl, struct error *error) {
    gathered->connection.socket = -1;
    int err = look_open(&gathered->look, ctl, error);
    return err < 0 ? err : look_again(gathered, error);
}

int gather(struct gathered *gathered, struct error *error) {
    struct top_look before = gathered->before; // its memory is used again
    gathered->before = gathered->now;
    gathered->now.clients = before.clients;
    gathered->now.client_room = before.client_room;
    gathered->now.client_count = 0;
    gathered->now.loader_count = 0;
    gathered->have_before = true;
    int err = look_again(gathered, error);
    if (err == -ENOENT) { // a daemon that stops takes its statistics along
        gathered->now.stats.stopped = true;
        gathered->now.stats.feed_count = 0;
        gathered->now.stats.gpu_count = 0;
    }
    return err;
}

void gather_close(struct gathered *gathered) {
    connection_close(&gathered->connection);
    free(gathered->before.clients);
    free(gathered->now.clients);
}
