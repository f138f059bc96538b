// Clients of the supervisor: what four of them send, well-formed or not, in any order, while loaders work, fail, hang
// and die, and time passes. What each is sent must keep the protocol's promises.
//
// Input: steps, a byte each that says who does what, and what the step takes.
#include "base/time.h"
#include "order/token.h"
#include "tests/fuzz/session_client.h"
#include "tests/fuzz/session_tokens.h"
#include "tests/fuzz/session_view.h"

#define WORLD_MUST FUZZ_CHECK
#include "tests/world/check.h"

#define CLIENTS         4u
#define READ_AT_ONCE    64u
#define FLOOD           0xf8 // a kind of question from which on it is asked many times
#define STEPS_MOST      400u // so that no input takes long
#define QUESTIONS_MOST  64u
#define FLOOD_QUESTIONS 520u // more than a user may ask at once

static struct client clients[CLIENTS];
static uint32_t questions; // of all clients, those that have gone included
static struct codec_arena arena;

static void read_messages(struct client *client);

// ---- What clients say --------------------------------------------------------------------------------------

static void say_hello(struct client *client) {
    char name[80];
    Feedd__Hello hello = FEEDD__HELLO__INIT;
    hello.version = PROTO_VERSION;
    hello.client_name = fuzz_line(&world.input, name, sizeof name);
    SAY(client, HELLO, hello, &hello);
}

static void say_attach(struct client *client) {
    static const char *const datasets[] = {"numbers", "few", "nothing", "both"};
    char token[RESUME_TOKEN_BYTES] = "", device[40] = "", share[2] = "";
    Feedd__Attach attach = FEEDD__ATTACH__INIT;
    uint8_t flags = fuzz_byte(&world.input), more = fuzz_byte(&world.input);
    attach.dataset = (char *)datasets[(flags & 3) % COUNT_OF(datasets)];
    attach.shuffle = flags & 4;
    attach.drop_last = flags & 8;
    attach.seed = flags & 16;
    attach.reconnect = more & 1;
    attach.confirms = more & 8;
    attach.batch_size = (uint32_t)fuzz_number(&world.input);
    attach.world_size = (uint32_t)fuzz_number(&world.input);
    attach.rank = client->rank = (uint32_t)fuzz_number(&world.input);
    attach.epochs = fuzz_number(&world.input);
    if (more & 2) {
        attach.prefetch = (uint32_t)fuzz_number(&world.input);
        attach.local_world_size = (uint32_t)fuzz_number(&world.input);
        attach.ring_bytes = fuzz_number(&world.input);
        attach.max_lag_s = (uint32_t)fuzz_number(&world.input);
    }
    if (more & 4) {
        attach.run_epoch = fuzz_number(&world.input);
        attach.run_consumed = fuzz_number(&world.input);
        attach.wait_for = (uint32_t)fuzz_number(&world.input);
    }
    if (flags & 32)
        snprintf(share, sizeof share, "%c", 'a' + (more >> 6));
    if (flags & 64)
        write_token(&attach, token);
    if (flags & 128)
        snprintf(device, sizeof device, "HOST-%u", more >> 6);
    attach.share = share;
    attach.resume = token;
    attach.device = device;
    SAY(client, ATTACH, attach, &attach);
}

// The daemon asks for the words, or has them.
static void say_bring(struct client *client) {
    static const char *const datasets[] = {"numbers", "few", "numbers", "nothing"};
    static struct fuzz_view view;
    uint8_t which = fuzz_byte(&world.input) % 4;
    size_t i = 0;
    datasets_find(&world.supervisor, datasets[which], &i);
    fuzz_view_read(&world.input, (char *)datasets[which], world.supervisor.datasets[i % 2]->layout->samples,
                   &view);
    client->over |=
        client->brought || client->attached || view.flags || which == 3 || view.bring.begin >= view.bring.end;
    client->brought = true;
    SAY(client, BRING, bring, &view.bring);
    world_turn();
    read_messages(client);
    const uint64_t words = fuzz_view_words(&view);
    for (uint64_t at = 0; client->wanted && at < words; at += PROTO_PIECE_WORDS) {
        Feedd__Piece piece = FEEDD__PIECE__INIT;
        uint64_t count = min_u64(PROTO_PIECE_WORDS, words - at);
        if (view.flags & VIEW_IS_TORN)
            count = fuzz_byte(&world.input) & 1 ? count : fuzz_number(&world.input) % (count + 1);
        piece.words.data = (uint8_t *)&view.words[at];
        piece.words.len = count * sizeof view.words[0] - (count && view.flags == 3);
        SAY(client, PIECE, piece, &piece);
        world_turn();
    }
    client->wanted = false;
}

static bool holds(const struct client *client, uint32_t slot) {
    return slot < RING_MAX_SLOTS && client->held[slot / 64] >> (slot % 64) & 1;
}

// Slots that the client holds, some or all, or one that the input names.
static void say_release(struct client *client) {
    uint32_t slots[PROTO_MAX_GRANTS];
    Feedd__Release release = FEEDD__RELEASE__INIT;
    uint8_t how = fuzz_byte(&world.input);
    release.slots = slots;
    release.waiting = how & 1;
    if (how & 2) {
        read_messages(client);
        slots[release.n_slots++] = (uint32_t)fuzz_number(&world.input);
        // With many answers unread, it may be cut off before it gets to the Error.
        client->wrong |= !client->over && !holds(client, slots[0]) && questions < QUESTIONS_MOST;
        client->over = true;
    }
    for (uint32_t slot = 0; slot < RING_MAX_SLOTS && !(how & 2); slot++) {
        if (!holds(client, slot) || release.n_slots == how >> 2)
            continue;
        client->held[slot / 64] &= ~(1ull << (slot % 64));
        client->held_count--;
        slots[release.n_slots++] = slot;
    }
    SAY(client, RELEASE, release, &release);
}

static void say_query(struct client *client) {
    static const char *const names[] = {"", "numbers", "few", "both"};
    Feedd__Query query = FEEDD__QUERY__INIT;
    uint8_t kind = fuzz_byte(&world.input);
    query.kind = (Feedd__Query__Kind)(kind % 12);
    query.name = (char *)names[fuzz_byte(&world.input) % COUNT_OF(names)];
    query.start = (uint32_t)fuzz_number(&world.input);
    for (uint32_t times = kind < FLOOD ? 1 : FLOOD_QUESTIONS; times; times--, questions++) {
        SAY(client, QUERY, query, &query);
        if (times % 128 == 0)
            world_turn(); // the socket is full
    }
}

static void say_command(struct client *client) {
    Feedd__Command command = FEEDD__COMMAND__INIT;
    command.kind = (Feedd__Command__Kind)(fuzz_byte(&world.input) % 4);
    if (command.kind == FEEDD__COMMAND__KIND__LOADERS) {
        static const char *const feeds[] = {"1", "2", "job", "x", ""};
        command.name = (char *)feeds[fuzz_byte(&world.input) % COUNT_OF(feeds)];
        command.count = fuzz_byte(&world.input) % 70;
    }
    SAY(client, COMMAND, command, &command);
}

static void say_frame(struct client *client) {
    const uint8_t *bytes;
    struct frame_writer writer = {0};
    size_t count = fuzz_bytes(&world.input, &bytes, fuzz_u16(&world.input));
    uint8_t *place = frame_reserve(&writer, count, SIZE_MAX / 2);
    if (place && count)
        memcpy(place, bytes, count);
    send_bytes(client, writer.buffer, frame_pending(&writer), 0);
    frame_writer_free(&writer);
    client->over = true;
}

static void say_bytes(struct client *client) {
    const uint8_t *bytes;
    uint8_t how = fuzz_byte(&world.input);
    size_t count = fuzz_bytes(&world.input, &bytes, how >> 2);
    send_bytes(client, bytes, count, how % 4);
    client->over = true;
}

// ---- What clients are told ---------------------------------------------------------------------------------

static void take_attached(struct client *client, const Feedd__Attached *attached) {
    FUZZ_CHECK(!client->attached && attached->prefetch >= 1);
    FUZZ_CHECK(client->reader.fd_count == (attached->pool_bytes ? 3 : 1));
    for (int fd; (fd = frame_take_fd(&client->reader)) >= 0;)
        close(fd);
    client->attached = true;
    client->feed = attached->feed;
    client->prefetch = attached->prefetch;
    client->next_sequence = attached->sequence;
}

// No gaps, no repetitions, no slot that it holds, and no more than agreed. What a client that broke the rules still
// holds is not known here.
static void take_grant(struct client *client, const Feedd__Grant *grant) {
    FUZZ_CHECK(client->attached && grant->sequence == client->next_sequence);
    FUZZ_CHECK(grant->n_fills == grant->n_slots);
    client->next_sequence += grant->n_slots;
    for (size_t i = 0; i < grant->n_slots && !client->over; i++) {
        uint32_t slot = grant->slots[i];
        FUZZ_CHECK(slot < RING_MAX_SLOTS && !holds(client, slot));
        client->held[slot / 64] |= 1ull << (slot % 64);
        FUZZ_CHECK(++client->held_count <= client->prefetch);
    }
}

static void take_message(struct client *client, const uint8_t *bytes, size_t count) {
    const Feedd__ServerMessage *message = codec_unpack_server(&arena, bytes, count);
    FUZZ_CHECK(message);
    switch (message->body_case) {
    case FEEDD__SERVER_MESSAGE__BODY_ATTACHED:
        take_attached(client, message->attached);
        return;
    case FEEDD__SERVER_MESSAGE__BODY_GRANT:
        take_grant(client, message->grant);
        return;
    case FEEDD__SERVER_MESSAGE__BODY_ERROR:
        FUZZ_CHECK(message->error->code > 0 && *message->error->text);
        client->told_why = true;
        return;
    case FEEDD__SERVER_MESSAGE__BODY_END:
        client->ended = true;
        return;
    case FEEDD__SERVER_MESSAGE__BODY_WANTED:
        FUZZ_CHECK(client->brought && !client->wanted);
        client->wanted = true;
        return;
    case FEEDD__SERVER_MESSAGE__BODY_BROUGHT:
        FUZZ_CHECK(client->brought && message->brought->samples);
        return;
    default:
        return;
    }
}

static void read_messages(struct client *client) {
    const uint8_t *bytes;
    size_t count;
    for (uint32_t reads = 0; reads < READ_AT_ONCE && frame_read(&client->reader, client->fd) > 0; reads++)
        while (frame_next(&client->reader, &bytes, &count) == 1)
            take_message(client, bytes, count);
}

// ---- Everybody is served -----------------------------------------------------------------------------------

#define ROUNDS 6u

static void release_all(struct client *client) {
    uint32_t slots[PROTO_MAX_GRANTS];
    Feedd__Release release = FEEDD__RELEASE__INIT;
    release.slots = slots;
    for (uint32_t slot = 0; slot < RING_MAX_SLOTS && release.n_slots < PROTO_MAX_GRANTS; slot++)
        if (holds(client, slot))
            slots[release.n_slots++] = slot;
    release.waiting = true;
    SAY(client, RELEASE, release, &release);
    memset(client->held, 0, sizeof client->held);
    client->held_count = 0;
}

static bool is_served(const struct client *client) {
    return client->fd >= 0 && client->attached && !client->over && !client->told_why && !client->ended;
}

// Nobody breaks the rules or has to wait with questions, no feed waits for more clients, and no GPU is involved.
static bool all_is_well(void) {
    const struct served_feed *feed;
    for (uint32_t i = 0; i < CLIENTS; i++)
        if (clients[i].fd >= 0 && (clients[i].over || clients[i].held_count > PROTO_MAX_GRANTS))
            return false;
    LIST_FOREACH(feed, &world.supervisor.feeds, link)
        if (feed->state == FEED_GATHERING)
            return false;
    return LIST_EMPTY(&world.supervisor.devices) && questions < QUESTIONS_MOST;
}

// Somebody of its rank has been granted more. It need not be the client itself, which may have come with a token from
// further ahead.
static bool is_moving(const struct client *client, const uint64_t before[CLIENTS]) {
    for (uint32_t i = 0; i < CLIENTS; i++)
        if (is_served(&clients[i]) && clients[i].feed == client->feed && clients[i].rank == client->rank &&
            clients[i].next_sequence > before[i])
            return true;
    return false;
}

// From now on loaders work, and clients release what they are granted, so every rank is granted more.
static void expect_progress(void) {
    uint64_t before[CLIENTS];
    world.threads_stall = world.spawns_fail = world.reads_hang = false;
    for (uint32_t i = 0; i < CLIENTS; i++)
        before[i] = clients[i].next_sequence;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < CLIENTS; i++) {
            if (clients[i].fd >= 0)
                read_messages(&clients[i]);
            if (is_served(&clients[i]))
                release_all(&clients[i]);
        }
        world_turn();
        work_well();
        for (uint32_t second = 0; second < 10; second++)
            world_wait(NS_PER_S); // a loader that died too often is replaced
        work_well();
        world_turn();
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (clients[i].fd >= 0)
            read_messages(&clients[i]);
        FUZZ_CHECK(!all_is_well() || !is_served(&clients[i]) || is_moving(&clients[i], before));
    }
}

// ---- Steps -------------------------------------------------------------------------------------------------

static void act(struct client *client, uint8_t what) {
    static void (*const says[])(struct client *) = {say_hello,   say_attach, say_release, say_query,
                                                    say_command, say_frame,  say_bytes};
    if (client->fd < 0)
        connect_client(client, fuzz_byte(&world.input) % 3);
    if (what < COUNT_OF(says))
        says[what](client);
    else if (what == COUNT_OF(says))
        hang_up(client);
    else if (what == COUNT_OF(says) + 1)
        say_bring(client);
    else
        read_messages(client);
}

static void step(void) {
    uint8_t who = fuzz_byte(&world.input), what = who >> 2 & 15;
    if (what < 10)
        act(&clients[who % CLIENTS], what);
    else if (what < 12)
        work();
    else if (what == 12)
        transfer();
    else if (what == 13)
        die();
    else if (what == 14)
        wait_long();
    else if (who & 2)
        expect_progress();
    else if (who & 1)
        world.threads_stall = !world.threads_stall;
    else
        world.spawns_fail = !world.spawns_fail;
    world_turn();
    world_check(&world.supervisor);
}

#define ENDING_ROUNDS 4u

// Whoever has released what it does not hold has been told so.
static void end_clients(void) {
    world.threads_stall = world.reads_hang = false;
    world_turn();
    for (uint32_t i = 0; i < ENDING_ROUNDS * CLIENTS; i++) {
        if (i % CLIENTS == 0)
            world_wait(NS_PER_S); // for those that have asked too much, or have not read
        if (clients[i % CLIENTS].fd >= 0)
            read_messages(&clients[i % CLIENTS]);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        FUZZ_CHECK(clients[i].fd < 0 || !clients[i].wrong || clients[i].told_why);
        hang_up(&clients[i]);
    }
}

static void begin(const uint8_t *data, size_t size) {
    if (!world.supervisor.config) {
        world_open();
        for (uint32_t i = 0; i < CLIENTS; i++)
            clients[i].fd = -1;
    }
    world.input = (struct fuzz_input){data, size};
    questions = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    begin(data, size);
    uint32_t before = fuzz_count_descriptors(); // not the lowest free one: a reload opens files anew
    for (uint32_t steps = 0; world.input.left && steps < STEPS_MOST; steps++)
        step();
    end_clients();
    world_settle();
    FUZZ_CHECK(fuzz_count_descriptors() == before);
    return 0;
}
