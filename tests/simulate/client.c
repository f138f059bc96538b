#include "tests/simulate/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/simulate/daemon.h"
#include "tests/simulate/kernel.h"
#include "tests/simulate/loader.h"
#include "tests/simulate/network.h"
#include "tests/simulate/oracle.h"
#include "tests/simulate/request.h"

struct client *client_running;

static struct client clients[GROUPS_MOST * 3];
static uint32_t client_count;

// ---- Waiting -----------------------------------------------------------------------------------------------

void client_yield(struct client *client) {
    client_running = NULL;
    coroutine_yield(&client->coroutine);
    client_running = client;
}

void client_sleep(struct client *client, uint64_t ns) {
    uint64_t until = sim.now_ns + ns;
    while (sim.now_ns < until && !client->dead) {
        client->actor.due_ns = until;
        client_yield(client);
    }
}

static void act(struct actor *actor) {
    struct client *client = CONTAINER_OF(actor, struct client, actor);
    if (client->coroutine.ended)
        return;
    if (sim.now_ns < client->stands_still_ns && !client->dead) {
        actor_wake(actor, client->stands_still_ns - sim.now_ns);
        return;
    }
    client_running = client;
    coroutine_resume(&client->coroutine);
    client_running = NULL;
}

// Its application does something else.
static void pause_between_calls(struct client *client) {
    const struct group *group = client->group;
    uint64_t ns = sim_below(1 + group->pace_us * NS_PER_US);
    if (sim_fault(group->pauses))
        ns = sim_below(3 * plan.max_lag_s * NS_PER_S);
    client->called_ns = sim.now_ns;
    client_sleep(client, ns);
    client->longest_pause_ns = max_u64(client->longest_pause_ns, sim.now_ns - client->called_ns);
}

// Whoever waits for company would wait for one that does not come back as it was: the job starts over.
static void leave_group(struct client *client) {
    client->group->left++;
    for (uint32_t i = 0; i < client_count; i++) {
        struct client *other = &clients[i];
        bool waits = other != client && other->group == client->group && other->waits_for > 1 && !other->dead;
        if (!waits || other->coroutine.ended || other->done)
            continue;
        other->dead = true;
        actor_wake(&other->actor, network_delay());
    }
}

// ---- Attaching ---------------------------------------------------------------------------------------------

// True: attached.
static bool open_feed(struct client *client) {
    const struct feed_options options = request_options(client);
    bool resumed = options.resume != NULL;
    client->waits_for = options.wait_for;
    client->held_count = 0;
    client->longest_pause_ns = 0;
    client->group->opening++;
    int err = request_open(client, &options);
    client->group->opening--;
    client->refused = err;
    if (client->dead) {
        client->group->fresh_ns = sim.now_ns; // perhaps the daemon still gives it a place
        return false;
    }
    if (err) {
        oracle_not_opened(client, err, resumed);
        client_sleep(client, sim_below(300 * NS_PER_MS));
        if (client->dead)
            return false;
        if (err == -ESTALE || err == -EIO)
            leave_group(client);
        if (err == -ESTALE && client->group->wandered && sim_fault(700))
            *client->saved = '\0'; // begins where the others are, as another job
        else if (err == -ESTALE)
            client->alone = true;
        if (oracle_cannot_continue(client, err))
            client->done = client->gives_up = true;
        return false;
    }
    client->group->fresh_ns = sim.now_ns;
    client->fingerprint = feed_describe(client->feed)->fingerprint;
    oracle_opened(client, resumed);
    if (client->device)
        kernels_begin(client);
    return true;
}

static void close_feed(struct client *client) {
    feed_close(client->feed);
    client->feed = NULL;
    client->held_count = 0;
}

// ---- Batches -----------------------------------------------------------------------------------------------

static void save(struct client *client) {
    char token[FEED_TOKEN_BYTES];
    if (feed_token(client->feed, token) < 0)
        return;
    memcpy(client->saved, token, sizeof token);
    client->saved_place = client->place;
}

// The handle is of no use any more.
static void lose(struct client *client, int err) {
    if (client->dead)
        return;
    oracle_failed(client, err);
    save(client);
    leave_group(client);
    if (err == -ESTALE)
        client->alone = true;
    if (oracle_cannot_continue(client, err))
        client->done = client->gives_up = true;
}

// False: the handle is of no use any more.
static bool release_one(struct client *client) {
    uint32_t which = (uint32_t)sim_below(client->held_count);
    struct held held = client->held[which];
    bool intact = client->device || oracle_is_intact(&held); // on a GPU, its kernel looks
    client->held[which] = client->held[--client->held_count];
    int err =
        client->device ? kernels_release(client, &held) : feed_batch_release(client->feed, &held.batch, NULL);
    if (err) {
        lose(client, err);
        return false;
    }
    if (!intact && !client->dead)
        oracle_intact(client, &held);
    return true;
}

static bool take(struct client *client, int timeout_ms) {
    struct feed_batch batch;
    int err = feed_next(client->feed, &batch, timeout_ms);
    if (client->dead)
        return false;
    if (err == 1) {
        client->waits_for = 0;
        oracle_batch(client, &batch);
        oracle_samples(client, &client->held[client->held_count - 1]);
        if (client->device)
            kernels_launch(client, &client->held[client->held_count - 1]);
        return true;
    }
    if (err == 0) {
        oracle_ended(client);
        client->done = true;
        return false;
    }
    if (err == -EAGAIN) {
        if (timeout_ms < 2)
            client_sleep(client, sim_below(20 * NS_PER_MS));
        return !client->dead;
    }
    if (err == -ENOBUFS) {
        SIM_MUST(client->held_count >=
                 feed_describe(client->feed)->prefetch); // some may be of past attachments
        return release_one(client);
    }
    lose(client, err);
    return false;
}

// One call of libfeed or two. False: this life is over.
static bool step(struct client *client) {
    static const int timeouts[] = {0, 1, 100, 3000, -1};
    const struct group *group = client->group;
    if (client->held_count == HELD_MOST || (client->held_count && sim_chance(500)))
        if (!release_one(client))
            return false;
    pause_between_calls(client);
    if (client->dead || !take(client, timeouts[sim_below(COUNT_OF(timeouts))]))
        return false;
    if (sim_chance(200))
        save(client);
    if (sim_fault(group->leaves)) {
        save(client);
        leave_group(client);
        sim_trace("client %u: leaves", client->number);
        if (sim_fault(group->wanders))
            request_wander(client);
        return false;
    }
    pause_between_calls(client);
    return true;
}

// ---- Lives -------------------------------------------------------------------------------------------------

// The processes of a client, one after the other.
static void live(void *context) {
    struct client *client = context;
    if (sim_fault(client->group->wanders / 2))
        request_wander(client);
    while (!client->done) {
        client_sleep(client, sim_below(20 * NS_PER_MS));
        if (!client->dead && open_feed(client))
            while (step(client))
                ;
        while (client->done && client->held_count && !client->dead && release_one(client))
            ;
        close_feed(client);
        if (client->done && !client->dead && !client->gives_up && sim_fault(client->group->wanders)) {
            client->done = false; // another job
            client->waits_for = 0;
            leave_group(client);
            request_wander(client);
        }
        if (client->dead) { // continues from its checkpoint, or from the beginning
            client->dead = false;
            if (client->dismissed)
                break;
            client->done = client->gives_up = false;
            client->waits_for = 0;
            leave_group(client);
        }
    }
    sim_trace("client %u: done", client->number);
}

static struct client *any_alive(void) {
    struct client *found = NULL;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < client_count; i++)
        if (!clients[i].coroutine.ended && !clients[i].dead && sim_below(++seen) == 0)
            found = &clients[i];
    return found;
}

// What is in its sockets still arrives.
void clients_kill_one(void) {
    struct client *client = any_alive();
    if (!client)
        return;
    sim_trace("client %u: killed", client->number);
    client->dead = true;
    actor_wake(&client->actor, 0);
}

void clients_stop_one(uint64_t for_ns) {
    struct client *client = any_alive();
    if (!client)
        return;
    sim_trace("client %u: stands still for %.3f s", client->number, (double)for_ns / (double)NS_PER_S);
    client->stands_still_ns = sim.now_ns + for_ns;
    client->longest_pause_ns = max_u64(client->longest_pause_ns, for_ns);
}

// ---- All of them -------------------------------------------------------------------------------------------

void clients_begin(void) {
    client_count = 0;
    for (uint32_t i = 0; i < plan.group_count; i++) {
        struct group *group = &plan.groups[i];
        for (uint32_t j = 0; j < group->clients; j++) {
            struct client *client = &clients[client_count];
            *client = (struct client){.group = group, .number = client_count++, .run = group->run, .fd = -1};
            client->run.rank = j % group->world_size;
            client->device = group->devices[j];
            coroutine_begin(&client->coroutine, live, client);
            actor_add(&client->actor, "client", act, sim_below(5 * NS_PER_MS));
        }
    }
}

uint64_t clients_last_together(const struct group *group) {
    uint64_t last = UINT64_MAX;
    for (uint32_t i = 0; i < client_count; i++) {
        const struct client *client = &clients[i];
        bool returned = client->daemon_ns == daemon_.started_ns;
        uint64_t heard_ns = returned ? client->before_ns : client->heard_ns;
        if (client->group == group && heard_ns)
            last = min_u64(last, heard_ns);
    }
    return last;
}

static bool waits_in_vain(const struct client *client) {
    uint32_t others = 0;
    for (uint32_t i = 0; i < client_count; i++)
        others += &clients[i] != client && clients[i].group == client->group && !clients[i].coroutine.ended;
    return client->waits_for > others + 1 || (client->refused == -ENOSPC && loaders_hang());
}

void clients_dismiss(void) {
    for (uint32_t i = 0; i < client_count; i++) {
        struct client *client = &clients[i];
        if (client->coroutine.ended || !waits_in_vain(client))
            continue;
        sim_trace("client %u: is dismissed", client->number);
        client->dismissed = client->dead = true;
        actor_wake(&client->actor, 0);
    }
}

bool clients_done(void) {
    for (uint32_t i = 0; i < client_count; i++)
        if (!clients[i].coroutine.ended)
            return false;
    return true;
}

void clients_end(void) {
    for (uint32_t i = 0; i < client_count; i++) {
        actor_remove(&clients[i].actor);
        coroutine_free(&clients[i].coroutine);
    }
}

void clients_describe(void) {
    for (uint32_t i = 0; i < client_count; i++) {
        const struct client *client = &clients[i];
        if (client->coroutine.ended)
            continue;
        fprintf(stderr,
                "  client %u (%s %s%s on %s, rank %" PRIu64 " of %" PRIu64 "): at %" PRIu64 "/%" PRIu64
                ", holds %u\n",
                client->number, *client->group->share ? client->group->share : "private",
                client->group->brings ? "view of " : "", dataset_plans[client->group->dataset].name,
                client->device ? client->device : "cpu", client->run.rank, client->run.world_size,
                client->place.epoch, client->place.consumed, client->held_count);
    }
}

uint64_t clients_batches(void) {
    uint64_t batches = 0;
    for (uint32_t i = 0; i < client_count; i++)
        batches += clients[i].batches;
    return batches;
}
