#include "daemon/loader/mix_parts.h"

#include <string.h>
#include <unistd.h>

#include "daemon/role.h"

// After the files, each part has these.
enum {
    PART_LIST,
    PART_INDEX,
    PART_CACHE,
    PART_CACHE_FILE,
    PART_FDS
};

static int part_fd(const struct loader_settings *settings, uint32_t part, int which) {
    return HERITAGE_FILES + (int)settings->layout.file_count + PART_FDS * (int)part + which;
}

static int map_list(const struct loader_settings *settings, uint32_t part,
                    const struct dataset_layout *layout, const uint64_t **list, struct error *error) {
    const size_t bytes = dataset_list_bytes(layout);
    const void *map = NULL;
    if (!bytes)
        return 0;
    int err = role_map(part_fd(settings, part, PART_LIST), "list of a view",
                       sizeof(struct dataset_list) + bytes, &map, error);
    if (!err)
        *list = ((const struct dataset_list *)map)->words;
    return err;
}

static int map_index(const struct loader_settings *settings, uint32_t part,
                     const struct dataset_layout *layout, const uint8_t **index, struct error *error) {
    const void *map = NULL;
    if (!layout->index_bytes)
        return 0;
    int err = role_map(part_fd(settings, part, PART_INDEX), "index", layout->index_bytes, &map, error);
    if (!err)
        *index = map;
    return err;
}

static void add_folder(struct mix_parts *mix, const struct chunk_part *part) {
    struct folder_files files = folder_files_of(part->layout, part->index);
    if (!files.extents)
        return;
    files.first_number = part->first_number;
    files.first_folder = part->first_file;
    mix->folders[mix->folder_count++] = files;
}

static int open_part(struct mix_parts *mix, const struct loader_settings *settings,
                     const struct dataset_parts *described, uint32_t i, const struct ring_header *header,
                     struct error *error) {
    const struct dataset_layout *layout = dataset_part_layout(described, i);
    struct chunk_part *part = &mix->parts[i];
    const uint64_t *list = NULL;
    *part = (struct chunk_part){.layout = layout,
                                .stages = &mix->stages[i],
                                .first_sample = described->part[i].first_sample,
                                .first_file = described->part[i].first_file,
                                .first_number = described->part[i].first_number,
                                .first_block = i ? part[-1].first_block + part[-1].layout->blocks.count : 0};
    int err = map_list(settings, i, layout, &list, error);
    if (!err)
        err = map_index(settings, i, layout, &part->index, error);
    if (!err)
        err = stage_set_open(&mix->stages[i], layout, header->fields, settings->gpu_images, error);
    if (!err)
        stage_set_open_cache(&mix->stages[i], layout, part_fd(settings, i, PART_CACHE),
                             part_fd(settings, i, PART_CACHE_FILE));
    if (!err)
        err = sampler_open(&mix->samplers[i], dataset_source_order(layout, settings->mix_shuffle),
                           layout->samples, header->seed, &layout->selection, list,
                           dataset_list_bytes(layout), error);
    if (err)
        return err;
    add_folder(mix, part);
    return 0;
}

static int open_samples(struct mix_parts *mix, const struct loader_settings *settings,
                        const struct ring_header *header, struct error *error) {
    struct mix_source sources[MIX_MAX_SOURCES];
    for (uint32_t i = 0; i < mix->count; i++)
        sources[i] = (struct mix_source){&mix->samplers[i], mix->parts[i].first_sample};
    return mix_samples_open(&settings->mix, sources, header->chunk_samples, &mix->samples, error);
}

static int open_all(struct mix_parts *mix, const struct loader_settings *settings,
                    const struct ring_header *header, struct error *error) {
    const void *map;
    int err = role_map(HERITAGE_PARTS, "parts of the mix", sizeof(struct dataset_parts), &map, error);
    if (err)
        return err;
    const struct dataset_parts *described = map;
    mix->count = described->count;
    mix->stored_samples = described->samples;
    if (mix->count != settings->layout.part_count || mix->count != settings->mix.sources)
        return error_set(error, -EINVAL, "the mix has %u parts, its run %u", mix->count,
                         settings->mix.sources);
    mix->parts = calloc(mix->count, sizeof *mix->parts);
    mix->stages = calloc(mix->count, sizeof *mix->stages);
    mix->samplers = calloc(mix->count, sizeof *mix->samplers);
    mix->folders = calloc(mix->count, sizeof *mix->folders);
    if (!mix->parts || !mix->stages || !mix->samplers || !mix->folders)
        return error_set(error, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < mix->count && !err; i++)
        err = open_part(mix, settings, described, i, header, error);
    for (uint32_t i = 0; i < mix->count; i++) {
        for (int which = 0; which < PART_FDS; which++)
            close(part_fd(settings, i, which));
    }
    return err ? err : open_samples(mix, settings, header, error);
}

int mix_parts_open(struct mix_parts **mix, const struct loader_settings *settings,
                   const struct ring_header *header, struct error *error) {
    struct mix_parts *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, -ENOMEM, "out of memory");
    int err = open_all(made, settings, header, error);
    if (err)
        mix_parts_close(made);
    else
        *mix = made;
    return err;
}

void mix_parts_close(struct mix_parts *mix) {
    if (!mix)
        return;
    for (uint32_t i = 0; mix->stages && i < mix->count; i++)
        stage_set_close(&mix->stages[i]);
    for (uint32_t i = 0; mix->samplers && i < mix->count; i++)
        sampler_close(&mix->samplers[i]);
    mix_samples_close(mix->samples);
    free(mix->parts);
    free(mix->stages);
    free(mix->samplers);
    free(mix->folders);
    free(mix);
}

void mix_parts_samples(const struct mix_parts *mix, uint64_t epoch_samples, const struct ring_claim *claim,
                       uint64_t *samples) {
    uint64_t first;
    if (mix_run_position(epoch_samples, claim->epoch, claim->first_position, &first))
        mix_samples_at(mix->samples, first, claim->count, samples);
    else
        memset(samples, 0xff, claim->count * sizeof *samples);
}

uint64_t mix_parts_replacement(const struct mix_parts *mix, uint64_t epoch_samples,
                               const struct ring_claim *claim, uint32_t attempt) {
    uint64_t position;
    if (!mix_run_position(epoch_samples, claim->epoch, claim->first_position, &position))
        return UINT64_MAX;
    return mix_samples_replacement(mix->samples, position, attempt);
}
