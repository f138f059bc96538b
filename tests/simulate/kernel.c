#include "tests/simulate/kernel.h"

#include <inttypes.h>

#include "client/lib/handle.h"
#include "gpu/gpu_host.h"
#include "tests/simulate/storage.h"
#include "tests/simulate/stream.h"

struct kernel {
    LIST_ENTRY(kernel) link;
    struct client *client;
    uint64_t connection; // that its batch came over
    uint64_t sequence, ns;
    uint32_t slot;
    bool began;
    struct contents contents;
};

void __real_gpu_close(struct gpu *gpu);
void __wrap_gpu_close(struct gpu *gpu);

void kernels_begin(struct client *client) {
    struct error error = {0};
    LIST_INIT(&client->kernels);
    for (uint32_t i = 0; i < COUNT_OF(client->streams); i++)
        SIM_MUST(gpu_stream_create(client->feed->gpu, &client->streams[i], &error) == 0);
}

// libfeed has waited for all that was queued, as the last thing that uses its memory.
void __wrap_gpu_close(struct gpu *gpu) {
    struct client *client = client_running;
    for (uint32_t i = 0; client && i < COUNT_OF(client->streams); i++) {
        SIM_MUST(client->dead || !client->streams[i] || stream_is_idle(client->streams[i]));
        if (client->streams[i])
            gpu_stream_destroy(gpu, client->streams[i]);
        client->streams[i] = NULL;
    }
    __real_gpu_close(gpu);
}

// ---- In a stream -------------------------------------------------------------------------------------------

void kernel_run(void *kernel) {
    (void)kernel;
    sim_violated("a kernel runs outside of its stream");
}

void kernel_drop(struct kernel *kernel) {
    LIST_REMOVE(kernel, link);
    free(kernel);
}

uint64_t kernel_ns(const struct kernel *kernel) {
    return kernel->began ? kernel->ns : 500;
}

// Once a client is detached, what it holds is given to others.
static void look(const struct kernel *kernel) {
    const struct client *client = kernel->client;
    if (client->dead || kernel->connection <= client->detached_connection)
        return;
    if (!storage_is_right(&kernel->contents))
        sim_violated("client %u: when a kernel %s, the bytes of batch %" PRIu64 " in slot %u are wrong",
                     client->number, kernel->began ? "ends" : "begins", kernel->sequence, kernel->slot);
}

bool kernel_step(struct kernel *kernel) {
    look(kernel);
    if (kernel->began) {
        kernel_drop(kernel);
        return true;
    }
    kernel->began = true;
    return false;
}

// ---- What the application does -----------------------------------------------------------------------------

static gpu_stream stream_of(const struct client *client, const struct feed_batch *batch) {
    return client->streams[batch->sequence % COUNT_OF(client->streams)];
}

void kernels_launch(struct client *client, const struct held *held) {
    const struct feed_batch *batch = &held->batch;
    struct group *group = client->group;
    struct error error = {0};
    struct kernel *kernel = calloc(1, sizeof *kernel);
    SIM_MUST(kernel);
    *kernel = (struct kernel){.client = client,
                              .connection = client->connection,
                              .sequence = batch->sequence,
                              .slot = batch->slot,
                              .contents = held->contents,
                              .ns = sim_below(1 + group->pace_us * NS_PER_US)};
    if (sim_fault(group->pauses))
        kernel->ns = sim_below(3 * plan.max_lag_s * NS_PER_S);
    client->longest_pause_ns = max_u64(client->longest_pause_ns, kernel->ns);
    LIST_INSERT_HEAD(&client->kernels, kernel, link);
    SIM_MUST(feed_batch_wait(client->feed, batch, stream_of(client, batch)) == 0);
    SIM_MUST(gpu_host_stream_call(client->feed->gpu, stream_of(client, batch), kernel_run, kernel, &error) ==
             0);
}

static bool is_in_use(const struct client *client, const struct feed_batch *batch) {
    const struct kernel *kernel;
    LIST_FOREACH(kernel, &client->kernels, link)
        if (kernel->contents.data == batch->field[0].data && kernel->sequence == batch->sequence)
            return true;
    return false;
}

int kernels_release(struct client *client, const struct held *held) {
    const struct feed_batch *batch = &held->batch;
    gpu_stream behind = stream_of(client, batch);
    if (sim_chance(200))
        behind = FEED_EVERY_STREAM;
    else if (!is_in_use(client, batch) && sim_chance(500))
        behind = FEED_NO_STREAM;
    return feed_batch_release(client->feed, batch, behind);
}
