// A cache of decoded samples as a loader uses it. Its file may be truncated, or its disk may fail, under the map: that
// becomes an error, and this loader does without the cache from then on.
#ifndef FEEDD_DAEMON_LOADER_STAGE_GUARDED_CACHE_H
#define FEEDD_DAEMON_LOADER_STAGE_GUARDED_CACHE_H

#include "daemon/image/image.h"
#include "daemon/image/pipeline.h"
#include "shm/sample_cache.h"

// Opens a cache of so many entries; file_fd -1: it has no file. On failure nothing has to be closed.
int guarded_cache_open(struct sample_cache **cache, uint64_t entries, int memory_fd, int file_fd,
                       struct error *error);
void guarded_cache_close(struct sample_cache *cache); // NULL is fine

// As the functions of shm/sample_cache.h and daemon/image/pipeline.h. -EIO: the file cannot be read.
struct sample_cached guarded_cache_find(struct sample_cache *cache, uint64_t entry, uint32_t channels);
void guarded_cache_expect(struct sample_cache *cache, uint64_t entry, uint32_t channels);
void guarded_cache_store(struct sample_cache *cache, uint64_t entry, const struct image *image);
int guarded_cache_run(struct sample_cache *cache, struct image_pipeline *pipeline, const struct image *image,
                      const struct image_place *place, void *slot, struct error *error);

#endif
