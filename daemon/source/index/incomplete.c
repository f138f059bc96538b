#include "daemon/source/index/incomplete.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/on_error.h"

#define REASON_BYTES 1024u // of a kept index: more is not believed

bool incomplete_add(struct incomplete_part *part, uint64_t sample, const char *reason) {
    if (!index_rows_add(&part->rows, &sample, sizeof sample))
        return false;
    if (part->reason_count == INCOMPLETE_LISTED)
        return true;
    char *copy = strdup(reason);
    if (copy)
        part->reasons[part->reason_count++] = copy;
    return copy != NULL;
}

void incomplete_part_release(struct incomplete_part *part) {
    index_rows_release(&part->rows);
    for (uint32_t i = 0; i < part->reason_count; i++)
        free(part->reasons[i]);
    part->reason_count = 0;
}

static bool list_sample(struct incomplete_list *list, uint64_t sample, uint32_t file, const char *reason) {
    struct incomplete_sample *next = &list->first[list->listed];
    *next = (struct incomplete_sample){sample, file, strdup(reason)};
    list->listed += next->reason != NULL;
    return next->reason != NULL;
}

static bool collect_part(struct incomplete_list *list, const struct incomplete_part *part, uint32_t file,
                         uint64_t first_sample, uint64_t *bits) {
    const uint64_t *numbers = (const uint64_t *)(const void *)part->rows.rows;
    for (uint64_t i = 0; i < part->rows.count; i++) {
        uint64_t sample = first_sample + numbers[i];
        bits[sample / 64] |= UINT64_C(1) << (sample % 64);
        if (list->listed < INCOMPLETE_LISTED && i < part->reason_count &&
            !list_sample(list, sample, file, part->reasons[i]))
            return false;
    }
    list->count += part->rows.count;
    return true;
}

int incomplete_collect(struct builder *builder, const struct incomplete_part *parts, const uint64_t *counts,
                       uint32_t file_count, uint64_t **bits) {
    uint64_t samples = 0, found = 0;
    *bits = NULL;
    for (uint32_t i = 0; i < file_count; i++) {
        samples += counts[i];
        found += parts[i].rows.count;
    }
    if (!found)
        return 0;
    struct incomplete_list *list = builder->dataset->incomplete = calloc(1, sizeof *list);
    *bits = calloc(divide_up(samples, 64), sizeof **bits);
    if (!list || !*bits)
        return builder_out_of_memory(builder);
    for (uint32_t i = 0, first = 0; i < file_count; first += (uint32_t)counts[i], i++)
        if (!collect_part(list, &parts[i], i, first, *bits))
            return builder_out_of_memory(builder);
    return 0;
}

// ---- Notes -------------------------------------------------------------------------------------------------

// The notes: this, and then struct noted with its reason, filled up to a multiple of 8, for each that is listed.
struct notes {
    uint64_t count, listed;
    uint32_t unended, first_unended; // of the dataset
};

struct noted {
    uint64_t sample;
    uint32_t file, reason_bytes;
};

static size_t noted_bytes(size_t reason_bytes) {
    return align_up(sizeof(struct noted) + reason_bytes, 8);
}

int incomplete_write_notes(struct builder *builder, struct index_cache *cache) {
    const struct incomplete_list *list = builder->dataset->incomplete;
    size_t bytes = sizeof(struct notes);
    const uint32_t listed = list ? list->listed : 0;
    if (!list && !builder->dataset->unended)
        return 0;
    for (uint32_t i = 0; i < listed; i++)
        bytes += noted_bytes(strlen(list->first[i].reason));
    uint8_t *at = calloc(1, bytes);
    if (!at)
        return builder_out_of_memory(builder);
    free(cache->notes);
    cache->notes = at;
    cache->notes_bytes = bytes;
    *(struct notes *)(void *)at = (struct notes){list ? list->count : 0, listed, builder->dataset->unended,
                                                 builder->dataset->first_unended};
    at += sizeof(struct notes);
    for (uint32_t i = 0; i < listed; i++) {
        const struct incomplete_sample *sample = &list->first[i];
        size_t length = strlen(sample->reason);
        *(struct noted *)(void *)at = (struct noted){sample->sample, sample->file, (uint32_t)length};
        memcpy(at + sizeof(struct noted), sample->reason, length);
        at += noted_bytes(length);
    }
    return 0;
}

static int read_list(struct incomplete_list *list, const struct index_cache *cache, uint32_t file_count) {
    const uint8_t *at = cache->notes, *end = at + cache->notes_bytes;
    struct notes notes;
    struct noted noted;
    if (cache->notes_bytes < sizeof notes)
        return -EINVAL;
    memcpy(&notes, at, sizeof notes);
    at += sizeof notes;
    list->count = notes.count;
    for (uint64_t i = 0; i < notes.listed; i++) {
        char reason[REASON_BYTES];
        if (i == INCOMPLETE_LISTED || (size_t)(end - at) < sizeof noted)
            return -EINVAL;
        memcpy(&noted, at, sizeof noted);
        if (noted.reason_bytes >= sizeof reason || (size_t)(end - at) < noted_bytes(noted.reason_bytes) ||
            noted.file >= file_count)
            return -EINVAL;
        snprintf(reason, sizeof reason, "%.*s", (int)noted.reason_bytes,
                 (const char *)at + sizeof(struct noted));
        if (!list_sample(list, noted.sample, noted.file, reason))
            return -ENOMEM;
        at += noted_bytes(noted.reason_bytes);
    }
    return list->listed > 0 && list->count >= list->listed ? 0 : -EINVAL;
}

int incomplete_read_notes(struct builder *builder, const struct index_cache *cache, uint32_t file_count) {
    struct notes notes = {0};
    if (cache->notes_bytes >= sizeof notes)
        memcpy(&notes, cache->notes, sizeof notes);
    if (notes.unended <= file_count && notes.first_unended < file_count) {
        builder->dataset->unended = notes.unended;
        builder->dataset->first_unended = notes.first_unended;
    }
    if (!builder->dataset->layout->incomplete_offset)
        return 0;
    struct incomplete_list *list = builder->dataset->incomplete = calloc(1, sizeof *list);
    if (!list)
        return builder_out_of_memory(builder);
    int err = read_list(list, cache, file_count);
    if (err == -ENOMEM)
        return builder_out_of_memory(builder);
    return err ? builder_refuse(builder, err, NULL,
                                "the kept index in %s is damaged; remove it, so that another is made",
                                cache->folder)
               : 0;
}

int incomplete_check(struct builder *builder, const struct source_file *files, uint64_t samples) {
    const struct incomplete_list *list = builder->dataset->incomplete;
    if (!list || (builder->config->on_error && list->count < samples))
        return 0;
    const struct incomplete_sample *first = &list->first[0];
    if (list->count >= samples)
        return builder_refuse(builder, -ENODATA, files[first->file].path,
                              "found no complete sample; of the first one: %s", first->reason);
    return builder_refuse(builder, -ENODATA, files[first->file].path,
                          "%s; %" PRIu64 " samples are incomplete, which on_error = %s does not allow",
                          first->reason, list->count, on_error_name(builder->config->on_error));
}
