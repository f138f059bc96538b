#include "daemon/source/mixture.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/dtype.h"
#include "base/sentence.h"
#include "base/sizes.h"
#include "daemon/dataset/gpu_images.h"
#include "daemon/dataset/incomplete_list.h"
#include "daemon/dataset/mix_sizes.h"
#include "daemon/heritage.h"
#include "daemon/on_error.h"

#define FINGERPRINT_MARK UINT64_C(0x3178696d) // "mix1": version 1 of the fingerprint

struct mixture {
    const struct dataset_config *config;
    struct dataset *dataset;
    struct error *error;
};

// "CONFIGURATION:LINE: [mix NAME] source.NAME: sentence"; without a source, that of the section. Returns `code`.
static int refuse(const struct mixture *mixture, const struct config_field *source, int code,
                  const char *format, ...) PRINTF_LIKE(4, 5);

static int refuse(const struct mixture *mixture, const struct config_field *source, int code,
                  const char *format, ...) {
    const struct dataset_config *config = mixture->config;
    char sentence[sizeof mixture->error->text], place[sizeof mixture->error->text];
    va_list arguments;
    va_start(arguments, format);
    sentence_format(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    config_place(config, source ? source->line : config->line, place, sizeof place);
    return error_set(mixture->error, code, "%s[mix %s] source.%s: %s", place, config->name,
                     source ? source->name : "NAME", sentence);
}

// ---- Fields ------------------------------------------------------------------------------------------------

static bool same_field(const struct ring_field *left, const struct ring_field *right) {
    return left->dtype == right->dtype && left->dimensions == right->dimensions &&
           !left->ragged == !right->ragged &&
           memcmp(left->shape, right->shape, left->dimensions * sizeof *left->shape) == 0;
}

static const char *shape_text(const struct ring_field *field, char text[DATASET_SHAPE_TEXT]) {
    return field->ragged ? "[]" : dataset_shape_text(field->dimensions, field->shape, text);
}

static int check_field(const struct mixture *mixture, const struct config_field *source,
                       const struct ring_field *found, const struct ring_field *wanted) {
    const char *first = mixture->config->sources[0].name;
    char is[DATASET_SHAPE_TEXT], shall[DATASET_SHAPE_TEXT];
    if (strncmp(found->name, wanted->name, sizeof found->name) != 0)
        return refuse(mixture, source, -EINVAL,
                      "found field %s, wanted field %s as in source %s: all sources of a mix have the same"
                      " fields in the same order",
                      found->name, wanted->name, first);
    if (same_field(found, wanted))
        return 0;
    return refuse(mixture, source, -EINVAL,
                  "found field %s of %s%s, wanted %s%s as in source %s: all sources of a mix have the same"
                  " fields",
                  found->name, dtype_name(found->dtype), shape_text(found, is), dtype_name(wanted->dtype),
                  shape_text(wanted, shall), first);
}

static int check_fields(const struct mixture *mixture, uint32_t part) {
    const struct config_field *source = &mixture->config->sources[part];
    const struct dataset_layout *wanted = mixture->dataset->layout,
                                *found = mixture->dataset->sources[part]->layout;
    int err = 0;
    const struct incomplete_list *incomplete = mixture->dataset->sources[part]->incomplete;
    if (incomplete && mixture->config->on_error == ON_ERROR_FAIL)
        err = refuse(mixture, source, -EINVAL,
                     "found %" PRIu64 " incomplete samples, which on_error = fail does not allow in the mix",
                     incomplete->count);
    for (uint32_t i = 0; i < min_u64(found->field_count, wanted->field_count) && !err; i++)
        err = check_field(mixture, source, &found->fields[i], &wanted->fields[i]);
    if (err || found->field_count == wanted->field_count)
        return err;
    bool more = found->field_count > wanted->field_count;
    return refuse(mixture, source, -EINVAL, "found %s field %s, which source %s %s", more ? "the" : "no",
                  more ? found->fields[wanted->field_count].name : wanted->fields[found->field_count].name,
                  mixture->config->sources[0].name, more ? "does not have" : "has");
}

static int sum_up_sizes(const struct mixture *mixture) {
    struct dataset *dataset = mixture->dataset;
    for (uint32_t i = 0; i < dataset->layout->field_count; i++) {
        if (!dataset->layout->fields[i].ragged)
            continue;
        dataset->sizes[i] = malloc(sizeof *dataset->sizes[i]);
        if (!dataset->sizes[i])
            return refuse(mixture, NULL, -ENOMEM, "out of memory");
        mix_sizes_average(dataset, dataset->weights, i, dataset->sizes[i]);
    }
    return 0;
}

// ---- Parts -------------------------------------------------------------------------------------------------

// Copies how a source is stored, except for its files, whose places change.
static void describe_part(const struct dataset *mix, uint32_t i, struct dataset_part *part,
                          struct dataset_layout *layout) {
    memcpy(layout, mix->sources[i]->layout, sizeof *layout);
    layout->bytes = sizeof *layout;
    layout->file_count = 0;
    for (uint32_t k = 0; k < layout->stream_count; k++)
        layout->streams[k].first_file += part->first_file;
    for (uint32_t k = 0; k < layout->field_count; k++)
        layout->images[k].ring_area = gpu_images_has(layout, k) ? gpu_images_mix_area(mix, k) : 0;
}

// Where the next part begins: its samples and, apart for folders, its files and what loaders call them.
struct numbering {
    uint64_t sample, number;
    uint32_t file, folder;
};

static int number_part(const struct mixture *mixture, uint32_t i, struct numbering *next,
                       struct dataset_part *part) {
    const struct dataset_layout *source = mixture->dataset->sources[i]->layout;
    const uint64_t samples = dataset_stored_samples(source);
    uint32_t *file = source->folder_count ? &next->folder : &next->file;
    part->first_sample = next->sample;
    part->first_file = *file;
    part->first_number = (uint32_t)next->number;
    *file += source->file_count;
    next->number += source->folder_count ? samples : 0;
    if (next->number >= UINT32_MAX)
        return refuse(mixture, &mixture->config->sources[i], -EOVERFLOW,
                      "found %" PRIu64 " files, those in folders included, in the sources up to this one,"
                      " wanted fewer than %" PRIu32,
                      next->number, UINT32_MAX);
    if (__builtin_add_overflow(next->sample, samples, &next->sample) || next->sample > INT64_MAX)
        return refuse(mixture, &mixture->config->sources[i], -EOVERFLOW,
                      "found more than 2^63 samples in all sources together");
    return 0;
}

static int seal(const struct mixture *mixture, const struct dataset_parts *parts) {
    const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
    int fd = mixture->dataset->parts_fd = memfd_create("feedd-parts", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return refuse(mixture, NULL, -errno, "cannot make a memory file for the parts of a mix: %m");
    for (uint64_t done = 0; done < parts->bytes;) {
        ssize_t wrote = write(fd, (const uint8_t *)parts + done, parts->bytes - done);
        if (wrote <= 0)
            return refuse(mixture, NULL, wrote < 0 ? -errno : -ENOMEM,
                          "cannot keep the parts of a mix in memory: %s",
                          wrote < 0 ? strerror(errno) : "it is full");
        done += (uint64_t)wrote;
    }
    if (fcntl(fd, F_ADD_SEALS, seals) < 0)
        return refuse(mixture, NULL, -errno, "cannot seal the parts of a mix: %m");
    return 0;
}

static int make_parts(const struct mixture *mixture) {
    const struct dataset *dataset = mixture->dataset;
    const uint32_t count = dataset->layout->part_count;
    const uint64_t head = align_up(sizeof(struct dataset_parts) + count * sizeof(struct dataset_part), 8);
    const uint64_t bytes = head + count * sizeof(struct dataset_layout);
    AUTO_FREE struct dataset_parts *parts = calloc(1, bytes);
    if (!parts)
        return refuse(mixture, NULL, -ENOMEM, "out of memory");
    const uint32_t plain = dataset_plain_files(dataset->layout);
    struct numbering next = {.number = plain, .folder = plain};
    int err = 0;
    parts->bytes = bytes;
    parts->count = count;
    for (uint32_t i = 0; i < count && !err; i++) {
        struct dataset_part *part = &parts->part[i];
        part->layout = head + i * sizeof(struct dataset_layout);
        err = number_part(mixture, i, &next, part);
        describe_part(dataset, i, part, (struct dataset_layout *)(void *)((uint8_t *)parts + part->layout));
    }
    parts->samples = next.sample;
    return err ? err : seal(mixture, parts);
}

// ---- The whole ---------------------------------------------------------------------------------------------

// Every loader holds the files of all sources and, until it has mapped them, their lists and indices.
static int check_files(const struct mixture *mixture, uint64_t files) {
    const uint64_t others = HERITAGE_FILES + 32 + 4 * mixture->config->source_count;
    struct rlimit limit;
    if (files > DATASET_MAX_FILES)
        return refuse(mixture, NULL, -EMFILE,
                      "found %" PRIu64 " files in all sources together, wanted at most %u", files,
                      DATASET_MAX_FILES);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || files + others <= limit.rlim_cur)
        return 0;
    return refuse(mixture, NULL, -EMFILE,
                  "found %" PRIu64 " files in all sources together, wanted at most %" PRIu64
                  ", because a process may open %" PRIu64 "; raise LimitNOFILE or ulimit -n",
                  files, limit.rlim_cur > others ? (uint64_t)limit.rlim_cur - others : 0,
                  (uint64_t)limit.rlim_cur);
}

static bool allocate(struct mixture *mixture, uint64_t files) {
    const struct dataset_config *config = mixture->config;
    struct dataset *dataset = mixture->dataset;
    dataset->name = strdup(config->name);
    dataset->layout = calloc(1, sizeof *dataset->layout + files * sizeof *dataset->layout->files);
    dataset->paths = calloc(max_u64(files, 1), sizeof *dataset->paths);
    dataset->fds = calloc(max_u64(files, 1), sizeof *dataset->fds);
    dataset->weights = calloc(max_u64(config->source_count, 1), sizeof *dataset->weights);
    dataset->sources = calloc(max_u64(config->source_count, 1), sizeof(struct dataset *));
    return dataset->name && dataset->layout && dataset->paths && dataset->fds && dataset->weights &&
           dataset->sources;
}

static void add_files_of(struct dataset *dataset, const struct dataset *source) {
    struct dataset_layout *layout = dataset->layout;
    const uint32_t files = source->layout->file_count;
    memcpy(layout->files + layout->file_count, source->layout->files, files * sizeof *layout->files);
    memcpy(dataset->paths + layout->file_count, source->paths, files * sizeof *source->paths);
    memcpy(dataset->fds + layout->file_count, source->fds, files * sizeof *source->fds);
    layout->file_count += files;
    layout->folder_count += source->layout->folder_count;
}

// Folders come after the files of all sources.
static void add_files(struct dataset *dataset) {
    for (int folders = 0; folders <= 1; folders++)
        for (uint32_t i = 0; i < dataset->layout->part_count; i++)
            if ((dataset->sources[i]->layout->folder_count != 0) == folders)
                add_files_of(dataset, dataset->sources[i]);
}

static void add_source(struct dataset *dataset, struct dataset *source, uint32_t weight) {
    struct dataset_layout *layout = dataset->layout;
    dataset->weights[layout->part_count] = weight;
    dataset->sources[layout->part_count++] = dataset_ref(source);
    // One cache for all parts, in which the largest block of each must have room.
    struct dataset_blocks *blocks = &layout->blocks;
    blocks->work_memory = max_u64(blocks->work_memory, source->layout->blocks.work_memory);
    blocks->memory = max_u64(blocks->memory, source->layout->blocks.memory);
    dataset->io_direct |= source->io_direct;
    dataset->io_delay_us = (uint32_t)max_u64(dataset->io_delay_us, source->io_delay_us);
}

// Weights are not in the fingerprint: a run continues after they have changed. That of a source leaves out by which
// weights it draws, so these are kept apart.
static int take_fingerprint(const struct mixture *mixture) {
    struct dataset *dataset = mixture->dataset;
    struct dataset_layout *layout = dataset->layout;
    uint64_t words[3] = {FINGERPRINT_MARK, layout->samples, layout->part_count};
    XXH3_state_t *whole = XXH3_createState(), *drawn = XXH3_createState();
    if (whole && drawn) {
        XXH3_64bits_reset(whole);
        XXH3_64bits_reset(drawn);
        XXH3_64bits_update(whole, words, sizeof words);
        for (uint32_t i = 0; i < layout->part_count; i++) {
            const struct dataset_layout *source = dataset->sources[i]->layout;
            XXH3_64bits_update(whole, &source->fingerprint, sizeof source->fingerprint);
            if (source->window) {
                const uint64_t shuffled[] = {source->window, source->groups_hash};
                XXH3_64bits_update(whole, shuffled, sizeof shuffled);
            }
            XXH3_64bits_update(drawn, &source->selection.seed, sizeof source->selection.seed);
        }
        layout->fingerprint = XXH3_64bits_digest(whole);
        layout->selection.seed = XXH3_64bits_digest(drawn);
    }
    bool enough = whole && drawn;
    XXH3_freeState(whole);
    XXH3_freeState(drawn);
    return enough ? 0 : refuse(mixture, NULL, -ENOMEM, "out of memory");
}

static int build(struct mixture *mixture, struct dataset *const *opened, uint64_t files) {
    const struct dataset_config *config = mixture->config;
    struct dataset *dataset = mixture->dataset;
    if (!allocate(mixture, files))
        return refuse(mixture, NULL, -ENOMEM, "out of memory");
    struct dataset_layout *layout = dataset->layout;
    const struct dataset_layout *first = opened[config->source_numbers[0]]->layout;
    layout->bytes = sizeof *layout + files * sizeof *layout->files;
    layout->samples = config->epoch_samples;
    layout->field_count = first->field_count;
    memcpy(layout->fields, first->fields, sizeof layout->fields);
    for (uint32_t i = 0; i < config->source_count; i++) {
        add_source(dataset, opened[config->source_numbers[i]], config->source_weights[i]);
        int err = check_fields(mixture, i);
        if (err)
            return err;
    }
    add_files(dataset);
    int err = sum_up_sizes(mixture);
    if (!err)
        err = make_parts(mixture);
    return err ? err : take_fingerprint(mixture);
}

int mixture_open(const struct dataset_config *config, struct dataset *const *opened, struct dataset **dataset,
                 struct error *error) {
    struct error discarded = {0};
    struct mixture mixture = {.config = config, .error = error ? error : &discarded};
    uint64_t files = 0;
    *dataset = NULL;
    for (size_t i = 0; i < config->source_count; i++)
        files += opened[config->source_numbers[i]]->layout->file_count;
    int err = check_files(&mixture, files);
    if (err)
        return err;
    mixture.dataset = calloc(1, sizeof *mixture.dataset);
    if (!mixture.dataset)
        return refuse(&mixture, NULL, -ENOMEM, "out of memory");
    *mixture.dataset = (struct dataset){
        .references = 1,
        .format = "mix",
        .list_fd = -1,
        .index_fd = -1,
        .parts_fd = -1,
        .io = config->io,
        .on_error = config->on_error,
    };
    err = build(&mixture, opened, files);
    if (err)
        dataset_unref(mixture.dataset);
    else
        *dataset = mixture.dataset;
    return err;
}
