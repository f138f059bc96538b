#include "daemon/source/build/builder_finish.h"

#include <inttypes.h>
#include <sys/resource.h>

#include "base/sizes.h"
#include "daemon/heritage.h"
#include "daemon/source/build/builder_base.h"
#include "daemon/source/build/builder_cache.h"
#include "daemon/source/build/builder_direct.h"
#include "daemon/source/build/builder_fingerprint.h"
#include "daemon/source/build/builder_groups.h"
#include "daemon/source/build/builder_ragged.h"
#include "daemon/source/build/builder_select.h"
#include "daemon/source/build/builder_transform.h"

#define WORK_SHARE 16u // of the memory for blocks, for reading and decoding them

static const struct config_field *configured_field(const struct builder *builder, uint32_t field) {
    return field < builder->config->field_count ? &builder->config->fields[field] : NULL;
}

// idx and npy have one stream per field, in the order of the configuration.
static int check_samples(struct builder *builder) {
    struct dataset_layout *layout = builder->dataset->layout;
    layout->samples = dataset_stream_samples(layout, &layout->streams[0]);
    for (uint32_t i = 1; i < layout->stream_count; i++) {
        uint64_t samples = dataset_stream_samples(layout, &layout->streams[i]);
        builder->field = configured_field(builder, layout->streams[i].extents[0].field);
        if (samples != layout->samples)
            return builder_refuse(builder, -EINVAL, NULL,
                                  "found %" PRIu64 " samples, wanted %" PRIu64 " as in field.%s", samples,
                                  layout->samples, layout->fields[layout->streams[0].extents[0].field].name);
    }
    builder->field = NULL;
    return 0;
}

static int check_sample_bytes(struct builder *builder) {
    const struct dataset_layout *layout = builder->dataset->layout;
    uint64_t bytes = 0; // 16 fields of at most 1 GiB do not overflow
    for (uint32_t i = 0; i < layout->field_count; i++)
        bytes += layout->fields[i].sample_bytes;
    if (bytes <= BUILDER_MAX_SAMPLE_BYTES)
        return 0;
    return builder_refuse(builder, -EINVAL, NULL,
                          "found samples of %" PRIu64 " bytes in all fields together, wanted at most 1 GiB",
                          bytes);
}

// Divides the memory that a loader has for blocks, which is no more than all of them need together.
static int divide_block_memory(struct builder *builder) {
    struct dataset_blocks *blocks = &builder->dataset->layout->blocks;
    const uint64_t most = builder->config->block_memory;
    if (!blocks->coded)
        return 0;
    builder->key = "block_memory";
    if (blocks->most_work + blocks->most_room > most)
        return builder_refuse(builder, -EFBIG, NULL,
                              "found %" PRIu64 " bytes, wanted at least %" PRIu64
                              " for the largest block, stored and decoded; or write the files with smaller"
                              " record batches, pages or row groups",
                              most, blocks->most_work + blocks->most_room);
    blocks->work_memory = max_u64(blocks->most_work, min_u64(most / WORK_SHARE, most - blocks->most_room));
    blocks->memory = min_u64(most - blocks->work_memory, blocks->decoded_bytes + blocks->coded * CACHE_LINE);
    return 0;
}

// Every loader holds all files of the dataset, besides what it inherits and opens itself.
static int check_descriptors(struct builder *builder) {
    const uint64_t others = HERITAGE_FILES + 32;
    uint32_t files = builder->dataset->layout->file_count;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || files + others <= limit.rlim_cur)
        return 0;
    return builder_refuse(builder, -EMFILE, NULL,
                          "found %" PRIu32 " files, wanted at most %" PRIu64
                          ", because a process may open %" PRIu64 "; raise LimitNOFILE or ulimit -n",
                          files, limit.rlim_cur > others ? (uint64_t)limit.rlim_cur - others : 0,
                          (uint64_t)limit.rlim_cur);
}

int builder_finish(struct builder *builder) {
    struct dataset *dataset = builder->dataset;
    builder->field = NULL;
    builder->key = builder->config->path ? "path" : "field.NAME";
    int err = check_samples(builder);
    if (!err)
        err = builder_select(builder);
    if (!err)
        err = builder_groups(builder);
    if (!err)
        err = builder_ragged(builder);
    if (!err && !builder->config->view)
        err = builder_keep_stored(builder);
    if (!err)
        err = builder_transform(builder);
    if (!err)
        err = check_sample_bytes(builder);
    if (!err)
        builder_size_tables(builder);
    if (!err)
        err = divide_block_memory(builder);
    if (!err)
        err = builder_cache(builder);
    if (!err)
        err = check_descriptors(builder);
    if (!err)
        err = builder_fingerprint(builder);
    if (!err && dataset->io_direct && !dataset->base)
        err = builder_make_direct(builder);
    dataset->layout->bytes =
        sizeof *dataset->layout + dataset->layout->file_count * sizeof *dataset->layout->files;
    return err;
}
