#include "daemon/loader/stage/guarded_cache.h"

#include <string.h>

#include "daemon/loader/read/fault_guard.h"
#include "daemon/log.h"

int guarded_cache_open(struct sample_cache **cache, uint64_t entries, int memory_fd, int file_fd,
                       struct error *error) {
    struct sample_cache *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, -ENOMEM, "out of memory");
    int err = sample_cache_open(made, entries, memory_fd, file_fd, error);
    if (!err && made->file && (err = fault_guard_open()) < 0)
        error_set(error, err, "cannot guard the map of a cache: %s", strerror(-err));
    if (err) {
        sample_cache_close(made);
        free(made);
        return err;
    }
    *cache = made;
    return 0;
}

void guarded_cache_close(struct sample_cache *cache) {
    if (!cache)
        return;
    if (cache->file)
        fault_guard_close();
    sample_cache_close(cache);
    free(cache);
}

static void enter(const struct sample_cache *cache) {
    if (cache->file)
        fault_guard_enter(cache->file, cache->plan.file_bytes);
}

static void lose(struct sample_cache *cache) {
    cache->lost = cache->full = true;
    log_error("the file of the cache cannot be read or written: images are decoded each time");
}

struct sample_cached guarded_cache_find(struct sample_cache *cache, uint64_t entry, uint32_t channels) {
    if (cache->lost)
        return (struct sample_cached){0};
    if (cache->file && sigsetjmp(fault_guard.escape, 0) != 0) {
        lose(cache);
        return (struct sample_cached){0};
    }
    enter(cache);
    const struct sample_cached cached = sample_cache_find(cache, entry, channels);
    fault_guard_leave();
    return cached;
}

void guarded_cache_expect(struct sample_cache *cache, uint64_t entry, uint32_t channels) {
    if (!cache->file || cache->lost)
        return;
    if (sigsetjmp(fault_guard.escape, 0) != 0) {
        lose(cache);
        return;
    }
    enter(cache);
    sample_cache_expect(cache, entry, channels);
    fault_guard_leave();
}

void guarded_cache_store(struct sample_cache *cache, uint64_t entry, const struct image *image) {
    if (cache->file && sigsetjmp(fault_guard.escape, 0) != 0) {
        lose(cache);
        return;
    }
    enter(cache);
    sample_cache_store(cache, entry, image->pixels, image->stride, image->width, image->height,
                       image->channels);
    fault_guard_leave();
}

int guarded_cache_run(struct sample_cache *cache, struct image_pipeline *pipeline, const struct image *image,
                      const struct image_place *place, void *slot, struct error *error) {
    if (cache->file && sigsetjmp(fault_guard.escape, 0) != 0) {
        lose(cache);
        return error_set(error, -EIO, "its pixels cannot be read from the cache");
    }
    enter(cache);
    int err = image_pipeline_run_kept(pipeline, image, place, slot, error);
    fault_guard_leave();
    return err;
}
