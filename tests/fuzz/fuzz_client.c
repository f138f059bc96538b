// libfeed with a hostile daemon: messages, descriptors and the ring say what the input says, and change at any time.
// The application does what an application may do, in any order.
//
// Input: a byte for the options, and steps: a byte each, and what the step takes. While libfeed waits, the steps are
// the daemon's; else they are the application's, one of which lets the daemon take a step.
#include "client/feed.h"
#include "client/lib/handle.h"
#include "shm/ring_make.h"
#include "tests/fuzz/hostile.h"
#include "tests/fuzz/ring_image.h"

#define HELD_MOST 6u
#define RUN       4u
// More than a socket and libfeed's buffers take before the daemon reads.
#define VIEW_NUMBERS 60000u

enum {
    ON_DEVICE = 1,
    RECONNECT = 2,
    SHARE = 4,
    VIEW = 8,
    RAGGED = 16
};

static struct world {
    struct ring_image images[4]; // in host memory, on a device; the same with a ragged field
    const struct ring_image *image;
    int ring_fd, memory_fd, words_fd;
    uint8_t *shared; // the whole ring, mapped
    uint64_t next_sequence;
    struct feed_batch held[HELD_MOST];
    uint32_t held_count;
} world;

// ---- The daemon --------------------------------------------------------------------------------------------

static int some_descriptor(void) {
    const int fds[] = {world.ring_fd, world.memory_fd, world.words_fd, STDERR_FILENO, hostile.peer};
    return fds[fuzz_byte(&hostile.input) % COUNT_OF(fds)];
}

// As a daemon would say it, or with numbers and descriptors of the input's.
static void say_attached(bool honest) {
    const struct ring_plan *plan = &world.image->plan;
    Feedd__Attached attached = FEEDD__ATTACHED__INIT;
    attached.run = RUN;
    attached.ring_bytes = plan->total_bytes;
    attached.prefetch = 4;
    attached.pool_bytes = plan->on_device ? plan->slot_bytes * plan->slot_count + RING_PAGE : 0;
    uint32_t descriptors = plan->on_device ? 3 : 1;
    if (honest) {
        hostile_attach_fd(world.ring_fd);
        if (plan->on_device) {
            hostile_attach_fd(world.memory_fd);
            hostile_attach_fd(world.words_fd);
        }
    } else {
        attached.prefetch = (uint32_t)fuzz_number(&hostile.input);
        attached.sequence = fuzz_number(&hostile.input);
        attached.epoch = fuzz_number(&hostile.input);
        attached.consumed = fuzz_number(&hostile.input);
        attached.pool_bytes = fuzz_number(&hostile.input);
        for (descriptors = fuzz_byte(&hostile.input) % 5; descriptors; descriptors--)
            hostile_attach_fd(some_descriptor());
    }
    world.next_sequence = attached.sequence;
    HOSTILE_SAY(ATTACHED, attached, &attached);
}

// What the supervisor and the loaders write before a grant.
static void fill(uint32_t slot, uint64_t sequence) {
    struct ring_header header;
    memcpy(&header, world.image->bytes, sizeof header);
    struct ring_slot *record = (struct ring_slot *)(void *)(world.shared + header.slots_offset) + slot;
    record->run = RUN;
    record->rank = 0;
    record->sequence = sequence;
    record->count = IMAGE_BATCH;
    record->skipped = sequence % 4 == 3 ? 2 : 0;
    record->first_position = sequence * IMAGE_BATCH;
    record->consumed = (sequence + 1) * IMAGE_BATCH;
    record->last_of_epoch = sequence % 16 == 15;
    record->fill = sequence + 1;
    if (!header.ragged_count)
        return;
    record->chunk_count = header.chunks_per_slot;
    uint64_t *places =
        (uint64_t *)(void *)(world.shared + header.places_offset) + slot * (header.chunks_per_slot + 2ull);
    for (uint32_t i = 0; i <= header.chunks_per_slot + 1; i++)
        places[i] = header.values_offset + 100ull * i;
}

static void say_grant(bool honest) {
    uint32_t slots[16];
    uint64_t fills[16];
    Feedd__Grant grant = FEEDD__GRANT__INIT;
    grant.sequence = honest ? world.next_sequence : fuzz_number(&hostile.input);
    grant.n_slots = fuzz_byte(&hostile.input) % (honest ? 4 : COUNT_OF(slots));
    grant.n_fills = honest ? grant.n_slots : fuzz_byte(&hostile.input) % COUNT_OF(fills);
    grant.slots = slots;
    grant.fills = fills;
    for (size_t i = 0; i < grant.n_slots; i++) {
        slots[i] = honest ? fuzz_byte(&hostile.input) % IMAGE_SLOTS : (uint32_t)fuzz_number(&hostile.input);
        if (honest)
            fill(slots[i], grant.sequence + i);
    }
    for (size_t i = 0; i < grant.n_fills; i++)
        fills[i] = grant.sequence + i + 1;
    world.next_sequence += grant.n_slots;
    HOSTILE_SAY(GRANT, grant, &grant);
}

// With memory that is there, and grows, or with anything.
static void say_slot_memory(void) {
    Feedd__SlotMemory memory = FEEDD__SLOT_MEMORY__INIT;
    const uint8_t choice = fuzz_byte(&hostile.input);
    memory.slot = choice % IMAGE_SLOTS;
    memory.bytes = world.image->plan.slot_allocated_bytes + (1 + choice / IMAGE_SLOTS) * RING_PAGE;
    if (choice >= 128) {
        memory.slot = (uint32_t)fuzz_number(&hostile.input);
        memory.bytes = fuzz_number(&hostile.input);
    }
    for (uint32_t descriptors = choice >= 192 ? choice % 4 : 0; descriptors; descriptors--)
        hostile_attach_fd(some_descriptor());
    if (choice < 192)
        hostile_attach_fd(world.memory_fd);
    HOSTILE_SAY(SLOT_MEMORY, slot_memory, &memory);
}

static void hostile_step(void) {
    Feedd__End end = FEEDD__END__INIT;
    Feedd__Wanted wanted = FEEDD__WANTED__INIT;
    Feedd__Brought brought = FEEDD__BROUGHT__INIT;
    switch (fuzz_byte(&hostile.input) % 15) {
    case 0:
    case 1:
        say_grant(true);
        return;
    case 2:
        say_grant(false);
        return;
    case 3:
        hostile_welcome(fuzz_byte(&hostile.input) % 8 ? PROTO_VERSION : 2);
        return;
    case 4:
        say_attached(true);
        return;
    case 5:
        say_attached(false);
        return;
    case 6:
        HOSTILE_SAY(END, end, &end);
        return;
    case 7:
        hostile_error((int32_t)fuzz_number(&hostile.input));
        return;
    case 8:
        hostile_frame();
        return;
    case 9:
        hostile_bytes();
        return;
    case 10:
        fuzz_patch(&hostile.input, world.shared, world.image->plan.total_bytes, ring_pages,
                   COUNT_OF(ring_pages), 1 + fuzz_byte(&hostile.input) % 4);
        hostile_read();
        return;
    case 12:
        HOSTILE_SAY(WANTED, wanted, &wanted);
        return;
    case 13:
        HOSTILE_SAY(BROUGHT, brought, &brought);
        return;
    case 14:
        say_slot_memory();
        return;
    default:
        hostile_hang_up();
    }
}

// ---- The application ---------------------------------------------------------------------------------------

static void check_inside(const struct feed *feed, uint32_t slot, const void *at, uint64_t bytes) {
    const struct attachment *now = feed->now;
    uint64_t begin = (uint64_t)(uintptr_t)now->ring.control, size = now->ring.mapped_bytes;
    if (feed->gpu) {
        begin = gpu_slot_address(&now->pool.slots, slot);
        size = gpu_slot_bytes(&now->pool.slots, slot);
    }
    uint64_t offset = (uint64_t)(uintptr_t)at - begin;
    FUZZ_CHECK((uint64_t)(uintptr_t)at >= begin && offset <= size && bytes <= size - offset);
}

static void take(struct feed *feed) {
    struct feed_batch batch;
    static uint8_t copy[1u << 16];
    int got = feed_next(feed, &batch, (int)(fuzz_byte(&hostile.input) % 8));
    FUZZ_CHECK(got <= 1);
    FUZZ_CHECK(got >= 0 || *feed_strerror(feed));
    if (got != 1)
        return;
    FUZZ_CHECK(batch.field_count >= 1 && batch.field_count <= FEED_MAX_FIELDS);
    FUZZ_CHECK(batch.count + batch.skipped <= IMAGE_BATCH);
    for (uint32_t i = 0; i < batch.field_count; i++) {
        const struct feed_array *array = &batch.field[i];
        FUZZ_CHECK(array->dimensions >= 1 && array->dimensions <= FEED_MAX_DIMS + 1 && array->name);
        check_inside(feed, batch.slot, array->data, array->bytes);
        FUZZ_CHECK(array->ragged == (array->offsets != NULL));
        if (array->ragged) {
            check_inside(feed, batch.slot, array->offsets, sizeof(int64_t) * (batch.count + 1));
            FUZZ_CHECK(feed_batch_fetch_offsets(feed, &batch, i, (int64_t *)(void *)copy) == 0);
        }
        if (array->bytes <= sizeof copy)
            FUZZ_CHECK(feed_batch_fetch(feed, &batch, i, copy) == 0);
    }
    for (uint64_t i = 0; i <= batch.count; i += 1 + batch.count / 4) {
        int64_t sample = feed_batch_sample(feed, &batch, i);
        FUZZ_CHECK(sample < 0 || (uint64_t)sample < feed->now->ring.header->samples);
    }
    if (world.held_count < HELD_MOST)
        world.held[world.held_count++] = batch;
    else
        feed_batch_release(feed, &batch, FEED_NO_STREAM);
}

static void give_back(struct feed *feed) {
    uint8_t choice = fuzz_byte(&hostile.input);
    if (!world.held_count)
        return;
    struct feed_batch *batch = &world.held[choice % world.held_count];
    feed_batch_release(feed, batch, FEED_NO_STREAM);
    if (choice & 0x80) // it stays in the list: the next time it is released twice
        return;
    *batch = world.held[--world.held_count];
}

static void ask(struct feed *feed) {
    char token[FEED_TOKEN_BYTES];
    const struct feed_description *about = feed_describe(feed);
    feed_token(feed, token);
    feed_token_at(feed, fuzz_number(&hostile.input), fuzz_number(&hostile.input), token);
    FUZZ_CHECK(about->field_count <= FEED_MAX_FIELDS);
    FUZZ_CHECK(feed_fd(feed) >= -1);
    if (world.held_count)
        feed_batch_sample(feed, &world.held[0], fuzz_byte(&hostile.input));
}

static void use(struct feed *feed) {
    while (hostile.input.left) {
        switch (fuzz_byte(&hostile.input) % 8) {
        case 0:
        case 1:
        case 2:
            take(feed);
            break;
        case 3:
        case 4:
            give_back(feed);
            break;
        case 5:
            ask(feed);
            break;
        default:
            hostile_step();
        }
    }
}

// ---- The beginning -----------------------------------------------------------------------------------------

static void make_world(void) {
    for (int i = 0; i < 4; i++)
        ring_image_make(&world.images[i], i & 1, i & 2);
    world.ring_fd = fuzz_memory_file();
    world.memory_fd = fuzz_memory_file();
    world.words_fd = fuzz_memory_file();
    world.shared =
        mmap(NULL, world.images[2].plan.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, world.ring_fd, 0);
    FUZZ_CHECK(world.shared != MAP_FAILED);
    FUZZ_CHECK(ftruncate(world.memory_fd, (IMAGE_SLOTS + 1) * world.images[3].plan.slot_bytes) == 0);
    FUZZ_CHECK(ftruncate(world.words_fd, 8 * IMAGE_SLOTS) == 0);
}

static void begin(uint8_t kind) {
    world.image = &world.images[(kind & ON_DEVICE) + (kind & RAGGED ? 2 : 0)];
    world.held_count = 0;
    fuzz_write(world.ring_fd, world.image->bytes, world.image->plan.data_offset);
    FUZZ_CHECK(ftruncate(world.ring_fd, (off_t)world.image->plan.total_bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct feed *feed;
    if (!world.shared)
        make_world();
    hostile_begin(data, size);
    uint8_t kind = fuzz_byte(&hostile.input);
    begin(kind);
    int before = fuzz_free_descriptor();
    const struct feed_options options = {.socket = "/nowhere",
                                         .dataset = "numbers",
                                         .batch_size = IMAGE_BATCH,
                                         .shuffle = true,
                                         .seed = 7,
                                         .device = kind & ON_DEVICE ? "host:0" : NULL,
                                         .share = kind & SHARE ? "all" : NULL,
                                         .client_name = "fuzz",
                                         .connect_timeout_ms = 100,
                                         .reconnect_timeout_ms = kind & RECONNECT ? 200 : -1};
    static const uint32_t numbers[VIEW_NUMBERS] = {1, 0, 1};
    const struct feed_view view = {.bytes = sizeof view,
                                   .kind = FEED_INDICES,
                                   .data = numbers,
                                   .count = VIEW_NUMBERS,
                                   .dtype = FEED_U32};
    int err = feed_open_view(&feed, &options, kind & VIEW ? &view : NULL);
    FUZZ_CHECK(feed && (err == 0 || *feed_strerror(feed)));
    if (!err)
        use(feed);
    feed_close(feed);
    hostile_hang_up();
    FUZZ_CHECK(fuzz_free_descriptor() == before);
    return 0;
}
