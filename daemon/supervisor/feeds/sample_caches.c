#include "daemon/supervisor/feeds/sample_caches.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/states.h"
#include "base/time.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/feeds/cache_file.h"
#include "daemon/supervisor/feeds/cache_room.h"
#include "daemon/supervisor/task.h"

enum cache_state {
    CACHE_NEW,
    CACHE_OPENING, // in a thread
    CACHE_OPEN,
    CACHE_FAILED, // tried again for the next feed if it failed for a lack, or once no feed uses it
};

static const struct state cache_states[] = {
    [CACHE_NEW] = {"new", STATE(CACHE_OPENING) | STATE(CACHE_OPEN) | STATE(CACHE_FAILED)},
    [CACHE_OPENING] = {"opening", STATE(CACHE_OPEN) | STATE(CACHE_FAILED)},
    [CACHE_OPEN] = {"open", 0},
    [CACHE_FAILED] = {"failed", STATE(CACHE_OPENING) | STATE(CACHE_OPEN) | STATE(CACHE_FAILED)},
};
static const struct state_table cache_table = STATE_TABLE("cache of decoded images", cache_states);

// What a thread works with: all of it is its own until it has ended.
struct opening {
    struct user_cache *cache; // on the loop
    struct cache_file file;
    char *folder, *dataset;
    struct sample_cache_key *wanted;
    int memory_fd, file_fd;
    int err;
    struct error error;
};

struct user_cache {
    LIST_ENTRY(user_cache) link;
    struct supervisor *supervisor;
    enum cache_state state;
    int err; // with CACHE_FAILED
    uid_t user;
    char *dataset; // the name of that which views are of
    struct sample_cache_key key;
    struct sample_cache_plan plan;
    uint32_t feeds;
    uint64_t begun_ns;
    uint64_t idle_since_ns; // while it has no feeds
    struct task *task;
    int memory_fd, file_fd;
    const struct sample_cache_head *head; // read here, written by loaders; NULL: not mapped
};

static void set_state(struct user_cache *cache, enum cache_state state) {
    cache->state = (enum cache_state)state_next(&cache_table, cache->state, state);
}

static const char *name_of(const struct dataset *dataset) {
    return dataset->of ? dataset->of : dataset->name;
}

static bool same_key(const struct sample_cache_key *left, const struct sample_cache_key *right) {
    return left->low == right->low && left->high == right->high;
}

static bool is_of(const struct user_cache *cache, const struct dataset *dataset) {
    struct sample_cache_plan plan;
    const struct dataset_layout *layout = dataset->layout;
    return dataset_cache_entries(layout) && same_key(&cache->key, &layout->cache.key) &&
           strcmp(cache->dataset, name_of(dataset)) == 0 &&
           sample_cache_plan(&plan, dataset_cache_entries(layout), layout->cache.bytes,
                             dataset->cache_path) &&
           memcmp(&plan, &cache->plan, sizeof plan) == 0;
}

// ---- Room -----------------------------------------------------------------------------------------------------------

static void leave_task(struct user_cache *cache) {
    if (cache->task)
        task_leave(cache->task);
    cache->task = NULL;
}

// Frees all but its descriptors.
static void forget(struct user_cache *cache) {
    LIST_REMOVE(cache, link);
    leave_task(cache);
    if (cache->head)
        munmap((void *)(uintptr_t)cache->head, SAMPLE_CACHE_HEAD);
    free(cache->dataset);
    free(cache);
}

static void give_back(struct user_cache *cache) {
    struct closer *closer = cache->supervisor->own_closer;
    uint32_t one = 1;
    if (cache->memory_fd >= 0)
        closer_take(closer, cache->user, &cache->memory_fd, &one);
    one = 1;
    if (cache->file_fd >= 0)
        closer_take(closer, cache->user, &cache->file_fd, &one);
    forget(cache);
}

// Of memory, once it is full.
static uint64_t bytes_of(const struct user_cache *cache) {
    return cache->state == CACHE_OPENING || cache->state == CACHE_OPEN ? cache->plan.memory_bytes : 0;
}

static bool is_idle(const struct user_cache *cache) {
    return !cache->feeds && cache->state == CACHE_OPEN;
}

static struct cache_usage usage_of(const struct supervisor *supervisor, uid_t user, bool in_use_only) {
    struct cache_usage usage = {0};
    const struct user_cache *cache;
    LIST_FOREACH(cache, &supervisor->caches, link) {
        const uint64_t bytes = in_use_only && is_idle(cache) ? 0 : bytes_of(cache);
        usage.own += cache->user == user ? bytes : 0;
        usage.all += bytes;
    }
    return usage;
}

// The user's go first.
static struct user_cache *idle_longest(const struct supervisor *supervisor, uid_t user) {
    struct user_cache *longest = NULL, *cache;
    LIST_FOREACH(cache, &supervisor->caches, link) {
        if (!is_idle(cache))
            continue;
        const bool mine = cache->user == user;
        const bool same = longest && mine == (longest->user == user);
        if (!longest || (same ? cache->idle_since_ns < longest->idle_since_ns : mine))
            longest = cache;
    }
    return longest;
}

// Caches that no feed uses make way.
static int make_room(const struct user_cache *cache, struct error *error) {
    const struct supervisor *supervisor = cache->supervisor;
    const uint64_t bytes = cache->plan.memory_bytes;
    struct user_cache *idle;
    int err = cache_room_check(supervisor->config, cache->user, bytes,
                               usage_of(supervisor, cache->user, true), error);
    while (
        !err &&
        !cache_room_fits(supervisor->config, cache->user, bytes, usage_of(supervisor, cache->user, false)) &&
        (idle = idle_longest(supervisor, cache->user)))
        give_back(idle);
    return err;
}

// ---- Opening --------------------------------------------------------------------------------------------------------

static void map_head(struct user_cache *cache) {
    const void *map = mmap(NULL, SAMPLE_CACHE_HEAD, PROT_READ, MAP_SHARED, cache->memory_fd, 0);
    cache->head = map == MAP_FAILED ? NULL : map;
}

static void fail(struct user_cache *cache, int err, const char *why) {
    cache->err = err;
    set_state(cache, CACHE_FAILED);
    supervisor_report(cache->supervisor, "dataset %s has no cache, so every image is decoded each time: %s",
                      cache->dataset, why);
}

static void open_in_thread(void *context) {
    struct opening *opening = context;
    opening->err = cache_file_open(&opening->file, &opening->memory_fd, &opening->file_fd, &opening->error);
}

static void discard(void *context) {
    struct opening *opening = context;
    close_fd(&opening->memory_fd);
    close_fd(&opening->file_fd);
    free(opening->folder);
    free(opening->dataset);
    free(opening->wanted);
    free(opening);
}

static void mark_those_that_wait(const struct supervisor *supervisor) {
    struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        if (feed->making)
            served_feed_mark(feed);
}

static void on_opened(void *context) {
    struct opening *opening = context;
    struct user_cache *cache = opening->cache;
    if (opening->err) {
        fail(cache, opening->err, opening->error.text);
    } else {
        cache->memory_fd = opening->memory_fd;
        cache->file_fd = opening->file_fd;
        opening->memory_fd = opening->file_fd = -1;
        map_head(cache);
        set_state(cache, CACHE_OPEN);
    }
    mark_those_that_wait(cache->supervisor);
}

// Of all datasets. While one of them has no index yet, its key is not known: then no file is removed.
static struct sample_cache_key *list_keys(const struct supervisor *supervisor, struct cache_file *file) {
    struct sample_cache_key *keys = calloc(supervisor->dataset_count + 1, sizeof *keys);
    file->wanted = keys;
    file->removes_others = true;
    for (size_t i = 0; keys && i < supervisor->dataset_count; i++) {
        if (!supervisor->datasets[i])
            file->removes_others = false;
        else if (supervisor->datasets[i]->layout->cache.bytes)
            keys[file->wanted_count++] = supervisor->datasets[i]->layout->cache.key;
    }
    return keys;
}

static int begin_file(struct user_cache *cache, const struct dataset *dataset, struct error *error) {
    struct opening *opening = calloc(1, sizeof *opening);
    if (!opening)
        return error_set(error, -ENOMEM, "out of memory");
    opening->cache = cache;
    opening->memory_fd = opening->file_fd = -1;
    opening->folder = strdup(dataset->cache_path);
    opening->dataset = strdup(cache->dataset);
    opening->wanted = list_keys(cache->supervisor, &opening->file);
    opening->file.folder = opening->folder;
    opening->file.dataset = opening->dataset;
    opening->file.user = cache->user;
    opening->file.plan = cache->plan;
    opening->file.key = cache->key;
    const struct task_work work = {
        .run = open_in_thread, .ended = on_opened, .discard = discard, .context = opening};
    int err = opening->folder && opening->dataset && opening->wanted ? 0 : -ENOMEM;
    if (!err)
        err = task_start(&cache->supervisor->poll_set, &work, &cache->task);
    if (!err) {
        set_state(cache, CACHE_OPENING);
        return 0;
    }
    discard(opening);
    return error_set(error, err, "%s", strerror(-err));
}

static int begin_memory(struct user_cache *cache, struct error *error) {
    int err = sample_cache_create(&cache->plan, &cache->memory_fd, error);
    if (err)
        return err;
    map_head(cache);
    set_state(cache, CACHE_OPEN);
    return 0;
}

static void begin(struct user_cache *cache, const struct dataset *dataset) {
    struct error error = {0};
    leave_task(cache); // of the attempt that failed
    cache->begun_ns = monotonic_ns();
    int err = make_room(cache, &error);
    if (!err)
        err = dataset->cache_path ? begin_file(cache, dataset, &error) : begin_memory(cache, &error);
    if (err)
        fail(cache, err, error.text);
}

// ---- The end --------------------------------------------------------------------------------------------------------

static bool is_wanted(const struct user_cache *cache) {
    const struct supervisor *supervisor = cache->supervisor;
    for (size_t i = 0; i < supervisor->dataset_count; i++)
        if (supervisor->datasets[i] && is_of(cache, supervisor->datasets[i]))
            return true;
    return false;
}

void sample_caches_tick(struct supervisor *supervisor) {
    struct user_cache *cache, *next;
    LIST_FOREACH_SAFE(cache, &supervisor->caches, link, next) {
        if (cache->state == CACHE_OPENING)
            continue;
        leave_task(cache); // not in its own callback
        if (!cache->feeds && (cache->state == CACHE_FAILED || !is_wanted(cache)))
            give_back(cache);
    }
}

void sample_caches_leave(struct supervisor *supervisor) {
    struct user_cache *cache;
    while ((cache = LIST_FIRST(&supervisor->caches))) {
        close_fd(&cache->memory_fd);
        close_fd(&cache->file_fd);
        forget(cache);
    }
}

// ---- Feeds ----------------------------------------------------------------------------------------------------------

static const struct dataset *source_of(const struct served_feed *feed, uint32_t source) {
    return feed->dataset->layout->part_count ? feed->dataset->sources[source] : feed->dataset;
}

static struct user_cache *find(const struct supervisor *supervisor, const struct dataset *dataset,
                               uid_t user) {
    struct user_cache *cache;
    LIST_FOREACH(cache, &supervisor->caches, link)
        if (cache->user == user && is_of(cache, dataset))
            return cache;
    return NULL;
}

static struct user_cache *make(struct supervisor *supervisor, const struct dataset *dataset, uid_t user) {
    const struct dataset_layout *layout = dataset->layout;
    struct user_cache *cache = calloc(1, sizeof *cache);
    if (!cache || !(cache->dataset = strdup(name_of(dataset)))) {
        free(cache);
        return NULL;
    }
    cache->supervisor = supervisor;
    cache->user = user;
    cache->key = layout->cache.key;
    cache->memory_fd = cache->file_fd = -1;
    sample_cache_plan(&cache->plan, dataset_cache_entries(layout), layout->cache.bytes, dataset->cache_path);
    LIST_INSERT_HEAD(&supervisor->caches, cache, link);
    begin(cache, dataset);
    return cache;
}

void sample_caches_begin(struct served_feed *feed) {
    const uint32_t count = feed->dataset->layout->part_count ? feed->dataset->layout->part_count : 1;
    struct supervisor *supervisor = feed->supervisor;
    feed->caches = calloc(count, sizeof(struct user_cache *));
    feed->cache_count = feed->caches ? count : 0;
    for (uint32_t i = 0; i < feed->cache_count; i++) {
        const struct dataset *dataset = source_of(feed, i);
        if (!dataset_cache_entries(dataset->layout))
            continue;
        feed->caches[i] = find(supervisor, dataset, feed->user);
        if (!feed->caches[i])
            feed->caches[i] = make(supervisor, dataset, feed->user);
        else if (feed->caches[i]->state == CACHE_FAILED && error_is_lack(feed->caches[i]->err))
            begin(feed->caches[i], dataset);
        if (feed->caches[i])
            feed->caches[i]->feeds++;
    }
}

bool sample_caches_are_ready(const struct served_feed *feed, uint64_t now) {
    const uint64_t patience_ns = feed->supervisor->config->loader_timeout_s * NS_PER_S;
    for (uint32_t i = 0; i < feed->cache_count; i++) {
        const struct user_cache *cache = feed->caches[i];
        if (cache && cache->state == CACHE_OPENING && now < cache->begun_ns + patience_ns)
            return false;
    }
    return true;
}

void sample_caches_fds(const struct served_feed *feed, struct cache_fds *fds) {
    const uint32_t parts = feed->dataset->layout->part_count;
    for (uint32_t i = 0; i < (parts ? parts : 1); i++) {
        const struct user_cache *cache = i < feed->cache_count ? feed->caches[i] : NULL;
        fds[i] = (struct cache_fds){-1, -1};
        if (cache && cache->state == CACHE_OPEN)
            fds[i] = (struct cache_fds){cache->memory_fd, cache->file_fd};
    }
}

void sample_caches_end(struct served_feed *feed) {
    for (uint32_t i = 0; i < feed->cache_count; i++)
        if (feed->caches[i] && --feed->caches[i]->feeds == 0)
            feed->caches[i]->idle_since_ns = monotonic_ns();
    free(feed->caches);
    feed->caches = NULL;
    feed->cache_count = 0;
}

struct cache_memory sample_caches_memory(const struct supervisor *supervisor) {
    struct cache_memory memory = {.limit = cache_room_limit(supervisor->config),
                                  .counted = usage_of(supervisor, 0, false).all};
    const struct user_cache *cache;
    LIST_FOREACH(cache, &supervisor->caches, link)
        if (cache->head && cache->plan.file_bytes)
            memory.taken += cache->plan.memory_bytes;
        else if (cache->head)
            memory.taken += sample_cache_used(&cache->plan, cache->head);
    return memory;
}

uint64_t sample_caches_used(const struct supervisor *supervisor, const struct dataset *dataset, uid_t user) {
    const struct user_cache *cache;
    uint64_t used = 0;
    LIST_FOREACH(cache, &supervisor->caches, link)
        if ((user == CACHES_OF_ANYBODY || cache->user == user) && cache->head && is_of(cache, dataset))
            used += sample_cache_used(&cache->plan, cache->head);
    return used;
}
