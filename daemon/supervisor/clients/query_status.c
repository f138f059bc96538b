#include "daemon/supervisor/clients/query_status.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/confine/confine.h"
#include "daemon/io_mode.h"
#include "daemon/supervisor/clients/admission.h"
#include "daemon/supervisor/clients/attach_images.h"
#include "daemon/supervisor/clients/query_confinement.h"
#include "daemon/supervisor/clients/query_indexing.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/prepared_loaders.h"
#include "daemon/supervisor/feeds/prepared_ring.h"
#include "daemon/supervisor/feeds/room.h"
#include "daemon/supervisor/feeds/sample_caches.h"
#include "gpu/gpu.h"
#include "shm/stats.h"
#include "shm/stats_read.h"

#define ERROR_TEXT 320u

// Errors name files and feeds of anybody.
static uint32_t count_errors(const struct supervisor *supervisor, char text[ERROR_TEXT]) {
    if (supervisor->error_count)
        snprintf(text, ERROR_TEXT,
                 "%" PRIu32 " since the start, shown to root and the daemon's user (show_others)",
                 supervisor->error_count);
    return supervisor->error_count != 0;
}

static uint32_t list_errors(const struct session *session, char texts[LAST_ERRORS][ERROR_TEXT], char **list) {
    const struct supervisor *supervisor = session->supervisor;
    list[0] = texts[0];
    if (!admission_shows_all(session))
        return count_errors(supervisor, texts[0]);
    uint32_t kept = (uint32_t)min_u64(supervisor->error_count, LAST_ERRORS);
    uint64_t now = monotonic_ns();
    for (uint32_t i = 0; i < kept; i++) {
        uint32_t place = (supervisor->error_count - kept + i) % LAST_ERRORS;
        snprintf(texts[i], ERROR_TEXT, "%" PRIu64 " s ago: %s",
                 (now - supervisor->last_errors[place].at_ns) / NS_PER_S,
                 supervisor->last_errors[place].text);
        list[i] = texts[i];
    }
    return kept;
}

static uint64_t read_word(const _Atomic uint64_t *word) {
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void describe_gpu(const struct stats_gpu *record, uint64_t now, Feedd__Gpu *row) {
    uint64_t beat = read_word(&record->heartbeat_ns);
    feedd__gpu__init(row);
    row->pid = read_word(&record->pid);
    row->state = (char *)stats_gpu_state_name(atomic_load_explicit(&record->state, memory_order_relaxed));
    row->pools = atomic_load_explicit(&record->pools, memory_order_relaxed);
    row->pool_bytes = read_word(&record->pool_bytes);
    row->pinned_bytes = read_word(&record->pinned_bytes);
    row->bus_bytes_per_s = read_word(&record->bus_bytes_per_s);
    row->copied_bytes = read_word(&record->counters[GPU_copied_bytes]);
    row->heartbeat_age_ns = now > beat ? now - beat : 0;
}

// This same thread writes the identities, so there is no need to check `version`.
void query_list_gpus(const struct stats_region *stats, uint64_t now, struct query_gpus *gpus) {
    gpus->count = 0;
    for (uint32_t i = 0; i < STATS_MAX_GPUS; i++) {
        const struct stats_gpu *record = &stats->gpus[i];
        if (!record->used)
            continue;
        size_t place = gpus->count++;
        Feedd__Gpu *row = gpus->list[place] = &gpus->rows[place];
        describe_gpu(record, now, row);
        row->uuid = stats_copy_text(gpus->uuids[place], record->uuid);
        row->name = stats_copy_text(gpus->names[place], record->name);
    }
}

static void name_decoders(const struct supervisor *supervisor, struct query_gpus *gpus) {
    const struct device *device;
    LIST_FOREACH(device, &supervisor->devices, link)
        for (size_t i = 0; i < gpus->count; i++)
            if (strcmp(gpus->rows[i].uuid, device->uuid) == 0)
                gpus->rows[i].images =
                    (char *)(device->state == DEVICE_READY ? attach_images_device(device) : "loaders");
}

// Absolute, because the client is in another directory.
static char *absolute_path(const struct config *config, char *path, size_t bytes) {
    const char *name = strrchr(config->file, '/');
    if (*config->file == '/')
        return config->file;
    snprintf(path, bytes, "%s/%s", config->folder, name ? name + 1 : config->file);
    return path;
}

static uint32_t count_datasets(struct session *session) {
    uint32_t count = 0;
    for (size_t i = 0; i < session->supervisor->dataset_count; i++)
        count += admission_shows_dataset(session, i);
    return count;
}

void query_status(struct session *session, void (*send)(struct session *session, Feedd__Answer *answer)) {
    const struct supervisor *supervisor = session->supervisor;
    uint64_t now = monotonic_ns();
    char texts[LAST_ERRORS][ERROR_TEXT];
    char *errors[LAST_ERRORS];
    char support[192], work[80], path[PATH_MAX];
    struct query_gpus gpus;
    struct query_confinement confinement;
    struct query_indexing indexing;
    Feedd__Status status = FEEDD__STATUS__INIT;
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    gpu_support((uint32_t)supervisor->config->simulated_gpus, support, sizeof support);
    status.version = (char *)FEEDD_VERSION;
    status.pid = (uint64_t)getpid();
    status.uptime_ns = now - supervisor->started_ns;
    status.config_path = absolute_path(supervisor->config, path, sizeof path);
    status.socket_path = (char *)supervisor->socket_path;
    status.stats_path = (char *)supervisor->stats_path;
    status.ring_memory = supervisor->config->ring_memory;
    status.ring_bytes = room_held_bytes(supervisor);
    const struct cache_memory caches = sample_caches_memory(supervisor);
    status.cache_memory = caches.limit;
    status.cache_bytes = caches.counted;
    status.cache_taken = caches.taken;
    status.loaders = (uint32_t)supervisor->config->loaders;
    status.prepared_loaders = prepared_loaders_count(supervisor);
    status.prepared_ring_bytes = prepared_ring_bytes(supervisor);
    status.io = (char *)io_mode_name(supervisor->config->io);
    status.sessions = supervisor->session_count;
    status.feeds = supervisor->feed_count;
    status.datasets = count_datasets(session);
    status.draining = supervisor->state != SUPERVISOR_RUNNING;
    status.n_last_errors = list_errors(session, texts, errors);
    status.last_errors = errors;
    turn_clock_describe(supervisor->clock.longest_part, work, sizeof work);
    status.longest_turn_ns = supervisor->clock.longest_ns;
    status.longest_turn_age_ns = now - supervisor->clock.longest_ended_ns;
    status.longest_turn_work = work;
    status.long_turns = supervisor->clock.long_turns;
    query_list_gpus(supervisor->stats, now, &gpus);
    name_decoders(supervisor, &gpus);
    status.n_gpus = gpus.count;
    status.gpus = gpus.list;
    status.gpu_support = support;
    query_list_confinement(supervisor, &confinement);
    status.n_confinement = confinement.count;
    status.confinement = confinement.list;
    status.confinement_note = (char *)confine_note();
    query_list_indexing(session, &indexing);
    status.n_indexing = indexing.count;
    status.indexing = indexing.lines;
    answer.status = &status;
    send(session, &answer);
}
