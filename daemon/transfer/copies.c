#include "daemon/transfer/copies.h"
#include "base/error.h"
#include "base/lack.h"
#include "base/sizes.h"
#include "gpu/gpu_cuda_ranges.h"
#include "shm/ring_loader.h"

#include <string.h>
#include <sys/mman.h>

// Copies whose words are written together. Writing words between copies leaves the bus idle for a moment, but a batch
// that waits for the words of other batches is granted later.
#define GROUP_BYTES (4ull << 20)
#define GROUP_MOST  (GPU_WORDS_MOST / 2)

struct group {
    gpu_stream stream;
    struct gpu_word words[GPU_WORDS_MOST];
    uint32_t count;
    uint32_t mark; // behind its copies
    uint64_t bytes;
};

// ---- Opening and closing -----------------------------------------------------------------------------------

static int open_done_words(struct copies *copies, struct error *error) {
    copies->done_bytes = align_up(ring_slot_words_bytes(copies->ring->header), RING_PAGE);
    void *memory = mmap(NULL, copies->done_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "cannot map sequence words: %m");
    int err = gpu_host_register(copies->gpu, memory, copies->done_bytes, false, &copies->done_address, error);
    if (err) {
        munmap(memory, copies->done_bytes);
        return err;
    }
    copies->done = memory;
    return 0;
}

int copies_open(struct copies *copies, struct gpu *gpu, struct ring *ring, uint32_t owner,
                const struct gpu_slots *slots, struct error *error) {
    uint32_t count = ring->header->slot_count;
    copies->gpu = gpu;
    copies->ring = ring;
    copies->owner = owner;
    copies->slots = slots;
    copies->waiting = calloc(count, sizeof *copies->waiting);
    copies->under_way = calloc(count, sizeof *copies->under_way);
    int err = copies->waiting && copies->under_way ? 0 : error_set(error, -ENOMEM, "out of memory");
    if (!err)
        err = open_done_words(copies, error);
    for (uint32_t i = 0; !err && i < COPY_STREAMS; i++)
        err = gpu_stream_create(gpu, &copies->streams[i], error);
    return err;
}

void copies_close(struct copies *copies) {
    images_close(copies->images);
    for (uint32_t i = 0; i < COPY_STREAMS; i++)
        if (copies->streams[i])
            gpu_stream_destroy(copies->gpu, copies->streams[i]);
    copy_marks_close(&copies->marks, copies->gpu);
    if (copies->done) {
        gpu_host_unregister(copies->gpu, (void *)copies->done);
        munmap((void *)copies->done, copies->done_bytes);
    }
    for (uint32_t i = 0; i < RING_MAX_CONSUMERS; i++)
        if (copies->consumers[i].words)
            munmap((void *)copies->consumers[i].words, copies->consumers[i].bytes);
    free(copies->waiting);
    free(copies->under_way);
}

// ---- Moving ------------------------------------------------------------------------------------------------

// From the slot's start to the end of the last sample in it.
static uint64_t used_bytes(const struct ring *ring, uint32_t slot, uint32_t samples) {
    const struct ring_header *header = ring->header;
    struct ring_values values;
    uint64_t end = 0;
    if (samples && header->ragged_count)
        return ring_find_values(ring, slot, header->ragged_count, 0, 1, &values) ? values.end : 0;
    for (uint32_t i = 0; samples && i < header->field_count; i++)
        end = max_u64(end, header->fields[i].slot_offset + samples * header->fields[i].sample_bytes);
    return min_u64(end, header->slot_bytes);
}

static struct copy take(const struct copies *copies, const struct ring_claim *claim, uint64_t now_ns) {
    const struct ring_slot *batch = ring_slot(copies->ring, claim->slot);
    // A loader could have written another number of slots into the header before it was mapped here: then there is
    // nothing to copy, and no other feed suffers.
    const struct ring *from = copies->images ? &copies->source : copies->ring;
    bool exists = batch->source < copies->source.header->slot_count;
    // The supervisor lets nothing be copied that has no room there.
    const uint64_t room = copies->images ? UINT64_MAX : gpu_slot_bytes(copies->slots, claim->slot);
    return (struct copy){
        .claim = *claim,
        .source = exists ? batch->source : 0,
        .fill = batch->fill,
        .bytes = exists ? min_u64(used_bytes(from, claim->slot, batch->count - batch->skipped), room) : 0,
        .count = exists && batch->skipped <= batch->count
                     ? (uint32_t)min_u64(batch->count - batch->skipped, copies->ring->header->batch_size)
                     : 0,
        .again = atomic_load_explicit(&batch->recovered, memory_order_relaxed) != 0,
        .mark = NO_MARK,
        .since_ns = now_ns,
    };
}

static void claim_all(struct copies *copies, uint64_t now_ns) {
    struct ring_claim claim;
    uint32_t slots = copies->ring->header->slot_count;
    while (copies->waiting_count + copies->decoding_count + copies->under_way_count < slots &&
           ring_claim(copies->ring, copies->owner, &claim)) {
        copies->waiting[copies->waiting_count++] = take(copies, &claim, now_ns);
    }
}

// The consumers that have not released the slot's last batch. The supervisor takes out those that have left.
static uint64_t unreleased(const struct copies *copies, const struct copy *copy) {
    const struct ring_slot *batch = ring_slot(copies->ring, copy->claim.slot);
    // Acquire: the last reads of those whose bits are gone came before; pairs with left in fill_tap.c.
    uint64_t left = atomic_load_explicit(&batch->unread, memory_order_acquire);
    for (uint64_t rest = left; rest; rest &= rest - 1) {
        uint32_t consumer = (uint32_t)__builtin_ctzll(rest);
        const struct release_words *words = &copies->consumers[consumer];
        // Acquire: the consumer's reads of the slot came before its word. It can write anything there, but harms only
        // the processes that share its pool, which belong to the same user. A consumer whose words have not arrived
        // here yet has released nothing: dispatches in the ring can overtake messages.
        if (words->words &&
            atomic_load_explicit(&words->words[copy->claim.slot], memory_order_acquire) + 1 >= copy->fill)
            left &= ~(1ull << consumer);
    }
    return left;
}

static struct group open_group(const struct copies *copies) {
    return (struct group){.stream = copies->streams[copies->next_stream], .mark = NO_MARK};
}

static int flush_group(struct copies *copies, struct group *group, struct error *error) {
    if (!group->count)
        return 0;
    copy_marks_put(&copies->marks, group->mark, group->stream);
    int err = gpu_write_words(copies->gpu, group->stream, group->words, group->count, error);
    copies->next_stream = (copies->next_stream + 1) % COPY_STREAMS;
    *group = open_group(copies);
    return err;
}

static int copy_slot(struct copies *copies, gpu_stream stream, const struct copy *copy, struct error *error) {
    uint64_t to = gpu_slot_address(copies->slots, copy->claim.slot);
    const uint8_t *from = ring_slot_data(&copies->source, copy->source);
    int err = registration_cover(copies->pinned, copy->source, copy->bytes, error);
    if (err)
        return registration_judge(copies->gpu, err, error);
    for (uint64_t at = 0, part; !err && at < copy->bytes; at += part) {
        part = min_u64(copy->bytes - at, registration_run(copies->pinned, at));
        err = gpu_copy_in(copies->gpu, stream, to + at, from + at, part, error);
    }
    return err;
}

static void note_latency(const struct copies *copies, enum gpu_latency kind, const struct copy *copy,
                         uint64_t since_ns, uint64_t now_ns) {
    if (!copies->latencies)
        return;
    latency_add(&copies->latencies[kind], now_ns - since_ns, 1);
    trace_write_of(copies->trace, kind == GPU_LATENCY_copy ? TRACE_COPY : TRACE_RELEASE, since_ns, now_ns,
                   copies->trace->process, copies->pool, copy->claim.slot);
}

static int queue_copy(struct copies *copies, struct group *group, const struct copy *copy,
                      struct error *error) {
    uint32_t slot = copy->claim.slot;
    const struct ring_header *header = copies->ring->header;
    int err = copy_slot(copies, group->stream, copy, error);
    if (err)
        return err;
    if (!group->count)
        group->mark = copy_marks_take(&copies->marks, copies->gpu, copies->next_stream, copy->queued_ns);
    group->words[group->count++] =
        (struct gpu_word){copies->slots->first.address + ring_pool_word(header, slot), copy->fill};
    group->words[group->count++] = (struct gpu_word){copies->done_address + ring_slot_word(slot), copy->fill};
    group->bytes += copy->bytes;
    copy_marks_share(&copies->marks, group->mark);
    copies->under_way[copies->under_way_count] = *copy;
    copies->under_way[copies->under_way_count++].mark = group->mark;
    copies->bytes_under_way += copy->bytes;
    if (group->bytes >= GROUP_BYTES || group->count == 2 * GROUP_MOST)
        return flush_group(copies, group, error);
    return 0;
}

static int begin_images(struct copies *copies, struct copy *copy, struct error *error) {
    const struct images_batch batch = {copy->source, copy->claim.slot, copy->count, copy->again};
    copy->stream = copies->streams[copies->next_stream];
    copies->next_stream = (copies->next_stream + 1) % COPY_STREAMS;
    int err = images_begin(copies->images, copy->stream, &batch, &copy->place, error);
    if (err)
        return err;
    copies->decoding[copies->decoding_count++] = *copy;
    copies->bytes_under_way += copy->bytes;
    return 0;
}

// What is decoded: the words follow on the same stream.
static int end_images(struct copies *copies, struct error *error) {
    while (copies->decoding_count && images_are_decoded(copies->images, copies->decoding[0].place)) {
        const struct copy copy = copies->decoding[0];
        const struct gpu_word words[] = {
            {copies->slots->first.address + ring_pool_word(copies->ring->header, copy.claim.slot), copy.fill},
            {copies->done_address + ring_slot_word(copy.claim.slot), copy.fill}};
        int err = images_end(copies->images, copy.place, error);
        if (err > 0)
            return 0; // the rest with the next step
        copies->decoding_count--;
        memmove(copies->decoding, copies->decoding + 1, copies->decoding_count * sizeof copy);
        if (!err)
            err = gpu_write_words(copies->gpu, copy.stream, words, COUNT_OF(words), error);
        if (err)
            return err;
        copies->under_way[copies->under_way_count++] = copy;
    }
    return 0;
}

static int queue_one(struct copies *copies, struct group *group, struct copy *copy, struct error *error) {
    return copies->images ? begin_images(copies, copy, error) : queue_copy(copies, group, copy, error);
}

// The machine may have memory later. False: the copy has waited for it long enough.
static bool may_wait_for_memory(struct copy *copy, uint64_t now_ns) {
    if (!copy->lacked_ns)
        copy->lacked_ns = now_ns;
    copy->again_ns = now_ns + LACK_PAUSE_NS;
    return now_ns < copy->lacked_ns + LACK_MOST_NS;
}

static bool must_wait(const struct copies *copies, const struct copy *copy, uint64_t now_ns) {
    return unreleased(copies, copy) || now_ns < copy->again_ns ||
           (copies->images && !images_have_room(copies->images));
}

static int queue_released(struct copies *copies, uint64_t now_ns, struct error *error) {
    struct group group = open_group(copies);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < copies->waiting_count; i++) {
        struct copy copy = copies->waiting[i];
        if (must_wait(copies, &copy, now_ns)) {
            copies->waiting[kept++] = copy;
            continue;
        }
        copy.queued_ns = now_ns;
        int err = queue_one(copies, &group, &copy, error);
        if (err == PINNING_LACKS && may_wait_for_memory(&copy, now_ns)) {
            copies->waiting[kept++] = copy;
            continue;
        }
        if (err)
            return err == PINNING_LACKS ? POOL_REFUSED : err;
        note_latency(copies, GPU_LATENCY_release, &copy, copy.since_ns, now_ns);
    }
    copies->waiting_count = kept;
    return flush_group(copies, &group, error);
}

static bool report_done(struct copies *copies, uint64_t now_ns) {
    uint32_t kept = 0;
    bool wake = false;
    for (uint32_t i = 0; i < copies->under_way_count; i++) {
        const struct copy *copy = &copies->under_way[i];
        // Acquire: pairs with the word that the GPU writes after the copy.
        if (atomic_load_explicit(&copies->done[copy->claim.slot], memory_order_acquire) < copy->fill) {
            copies->under_way[kept++] = *copy;
            continue;
        }
        wake |= ring_chunk_done(copies->ring, &copy->claim, 0);
        note_latency(copies, GPU_LATENCY_copy, copy, copy->queued_ns, now_ns);
        copy_marks_done(&copies->marks, copy->mark, copy->claim.slot);
        copies->bytes_under_way -= copy->bytes;
        copies->copied++;
        copies->copied_bytes += copy->bytes;
    }
    copies->under_way_count = kept;
    return wake;
}

int copies_step(struct copies *copies, uint64_t now_ns, bool *wake, struct error *error) {
    *wake = report_done(copies, now_ns);
    int err = end_images(copies, error);
    if (err)
        return err;
    claim_all(copies, now_ns);
    if (!copies->waiting_count)
        return 0;
    gpu_range_begin("feedd: queue copies");
    err = queue_released(copies, now_ns, error);
    gpu_range_end();
    return err;
}

uint64_t copies_held_up(const struct copies *copies, uint64_t before_ns,
                        uint64_t since_ns[RING_MAX_CONSUMERS]) {
    uint64_t consumers = 0;
    for (uint32_t i = 0; i < copies->waiting_count; i++) {
        const struct copy *copy = &copies->waiting[i];
        if (copy->since_ns >= before_ns)
            continue;
        for (uint64_t rest = unreleased(copies, copy); rest; rest &= rest - 1) {
            uint32_t consumer = (uint32_t)__builtin_ctzll(rest);
            bool known = consumers >> consumer & 1;
            since_ns[consumer] = known ? min_u64(since_ns[consumer], copy->since_ns) : copy->since_ns;
            consumers |= 1ull << consumer;
        }
    }
    return consumers;
}
