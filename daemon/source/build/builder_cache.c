#include "daemon/source/build/builder_cache.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "daemon/source/build/builder_files.h"

#define CACHE_VERSION 1u // of the pixels that are kept

// ---- Which files ---------------------------------------------------------------------------------------------------

// What differs when a file was written to or replaced; zeros for one that cannot be looked at.
static void hash_state(XXH3_state_t *state, int fd) {
    struct stat status = {0};
    if (fstat(fd, &status) < 0)
        status = (struct stat){0};
    const uint64_t words[] = {(uint64_t)status.st_size, (uint64_t)status.st_mtim.tv_sec,
                              (uint64_t)status.st_mtim.tv_nsec};
    XXH3_128bits_update(state, words, sizeof words);
}

static void hash_files(XXH3_state_t *state, const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    XXH3_128bits_update(state, &layout->index_hash, sizeof layout->index_hash);
    // Paths and sizes of files in a folder are in the index.
    XXH3_128bits_update(state, &dataset->files_written, sizeof dataset->files_written);
    for (uint32_t i = 0; i < dataset_plain_files(layout); i++)
        hash_state(state, dataset->fds[i]);
}

// ---- Which fields --------------------------------------------------------------------------------------------------

static bool is_kept(const struct dataset_image *image) {
    return image->used && image->stored.encoded && image->steps.side;
}

static void choose_fields(struct dataset_layout *layout) {
    for (uint32_t i = 0; i < layout->field_count; i++)
        if (is_kept(&layout->images[i]))
            layout->cache.number[i] = ++layout->cache.fields;
}

static void hash_fields(XXH3_state_t *state, const struct dataset_layout *layout) {
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const struct image_steps *steps = &layout->images[i].steps;
        const uint32_t words[] = {i, steps->side, steps->side_filter, steps->channels, steps->flags};
        if (layout->cache.number[i])
            XXH3_128bits_update(state, words, sizeof words);
    }
}

static int make_key(struct builder *builder) {
    struct dataset_layout *layout = builder->dataset->layout;
    // With the size: a file of another one gets another name, since feeds may still use this one.
    const uint64_t words[] = {CACHE_VERSION, dataset_stored_samples(layout), layout->cache.bytes};
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return builder_out_of_memory(builder);
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, words, sizeof words);
    hash_fields(state, layout);
    hash_files(state, builder->dataset);
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    layout->cache.key = (struct sample_cache_key){hash.low64, hash.high64};
    return 0;
}

int builder_cache(struct builder *builder) {
    const struct dataset_config *config = builder->config;
    struct dataset_layout *layout = builder->dataset->layout;
    struct sample_cache_plan plan;
    if (!config->cache)
        return 0;
    builder->key = "cache";
    choose_fields(layout);
    if (!layout->cache.fields)
        return builder_refuse(
            builder, -EINVAL, NULL,
            "found no field of encoded images with steps on images, wanted one, because the cache"
            " keeps decoded images: set transform.NAME");
    layout->cache.bytes = config->cache;
    const uint64_t entries = dataset_cache_entries(layout);
    if (!sample_cache_plan(&plan, entries, config->cache, config->cache_path))
        return builder_refuse(builder, -EINVAL, NULL,
                              "found %" PRIu64 " bytes, wanted at least %" PRIu64 " for %" PRIu64 " images",
                              config->cache, sample_cache_least_bytes(entries), entries);
    if (config->cache_path && !(builder->dataset->cache_path = builder_absolute(builder, config->cache_path)))
        return builder_out_of_memory(builder);
    return make_key(builder);
}
