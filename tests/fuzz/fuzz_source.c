// Data files of every format, opened as a dataset: files in memory whose headers lie.
//
// Input: a byte for the format and how the files are named, a byte for the number of files and shuffle_window, the
// options of the format, the text of a transform, and for each file how many bytes it appears to have, unless that is
// what it has, the length of its part of the rest, and that part. Bytes that are missing are 0. With any of the last
// three flags, the dataset is a view: with WITH_LIST, one more file names its samples; with WITH_WEIGHTS, one has
// weights; with WITH_PART, a line after the transform is the part that it takes, and a byte the seed of its split,
// unless that is 0.
#include "base/dtype.h"
#include "daemon/config/part.h"
#include "daemon/dataset/dataset.h"
#include "daemon/source/source.h"
#include "order/sampler.h"
#include "tests/fuzz/fuzz.h"

#define FILES    3u
#define FIRST_FD 200 // files have the descriptors 200, 201, 202: one pattern names them all
#define LIST     FILES
#define WEIGHTS  (LIST + 1)

enum {
    ONE_FIELD = 4,
    WITH_TRANSFORM = 8,
    EXACT = 16,
    WITH_LIST = 32,
    WITH_WEIGHTS = 64,
    WITH_PART = 128
};

static void make_files(void) {
    static bool made;
    for (uint32_t i = 0; i <= WEIGHTS && !made; i++) {
        int fd = fuzz_memory_file();
        FUZZ_CHECK(dup3(fd, FIRST_FD + (int)i, O_CLOEXEC) >= 0);
        close(fd);
    }
    made = true;
}

static void fill_file(struct fuzz_input *input, uint32_t file, bool exact) {
    const uint8_t *bytes;
    uint64_t apparent = exact ? 0 : fuzz_number(input);
    size_t count = fuzz_bytes(input, &bytes, fuzz_u16(input));
    fuzz_write(FIRST_FD + (int)file, bytes, count);
    if (apparent > count)
        FUZZ_CHECK(ftruncate(FIRST_FD + (int)file, (off_t)min_u64(apparent, 1ull << 40)) == 0);
}

// ---- What must hold for a dataset that was taken ---------------------------------------------------------------

// Every byte that a loader would read lies in its file.
static void check_stream(const struct dataset *dataset, const struct dataset_stream *stream) {
    const struct dataset_layout *layout = dataset->layout;
    const struct dataset_extent *last = &stream->extents[stream->extent_count - 1];
    FUZZ_CHECK(stream->file_count && stream->extent_count && stream->extent_count <= RING_MAX_FIELDS);
    FUZZ_CHECK(stream->first_file + stream->file_count <= layout->file_count);
    for (uint32_t i = 0; i < stream->file_count; i++) {
        const struct dataset_file *file = &layout->files[stream->first_file + i];
        uint64_t end, reach = last->offset + last->bytes;
        FUZZ_CHECK(file->samples >= 1);
        FUZZ_CHECK(!__builtin_mul_overflow(file->samples - 1, stream->record_bytes, &end));
        FUZZ_CHECK(!__builtin_add_overflow(end, file->data_offset + reach, &end) && end <= file->bytes);
        FUZZ_CHECK(dataset_find_file(layout, stream, file->first_sample, 0) == stream->first_file + i);
        FUZZ_CHECK(dataset_find_file(layout, stream, file->first_sample + file->samples - 1, UINT32_MAX) ==
                   stream->first_file + i);
    }
    FUZZ_CHECK(dataset_stream_samples(layout, stream) == dataset_stored_samples(layout));
}

// No draw leaves the samples, or is one that has no weight.
static void check_draws(const struct selection *selection, const uint64_t *words) {
    struct draw_table table;
    uint64_t samples[64], count = min_u64(selection->of, COUNT_OF(samples));
    FUZZ_CHECK(words[selection->of - 1] > 0);
    for (uint64_t i = 1; i < selection->of; i++)
        FUZZ_CHECK(words[i] >= words[i - 1]);
    draw_init(&table, words, selection->of);
    for (uint64_t i = 0; i < count; i++)
        samples[i] = i;
    draw_samples(&table, words[0], words[selection->of - 1], (uint32_t)count, samples);
    for (uint64_t i = 0; i < count; i++) {
        FUZZ_CHECK(samples[i] < selection->of);
        FUZZ_CHECK(words[samples[i]] > (samples[i] ? words[samples[i] - 1] : 0));
    }
    FUZZ_CHECK(draw_by(&table, 0) < selection->of && draw_by(&table, UINT64_MAX) < selection->of);
}

// With a range and no list, nothing outside of the range has a share.
static void check_range(const struct dataset_config *config, const struct selection *selection,
                        const uint64_t *words) {
    uint64_t first, count;
    if (config->indices || config->split)
        return;
    FUZZ_CHECK(part_of(&config->part, selection->of, &first, &count) == 0);
    FUZZ_CHECK(first == 0 || words[first - 1] == 0);
    FUZZ_CHECK(words[first + count - 1] == words[selection->of - 1]);
}

static void check_weights(const struct dataset_config *config, const struct dataset *dataset) {
    const struct selection *selection = &dataset->layout->selection;
    const size_t bytes = selection_list_bytes(selection);
    AUTO_FREE uint64_t *words = malloc(bytes);
    uint64_t head;
    FUZZ_CHECK(words && selection->kind == SELECTION_WEIGHTED_1);
    FUZZ_CHECK(pread(dataset->list_fd, &head, sizeof head, 0) == (ssize_t)sizeof head);
    FUZZ_CHECK(head == sizeof head + bytes);
    FUZZ_CHECK(pread(dataset->list_fd, words, bytes, sizeof head) == (ssize_t)bytes);
    check_draws(selection, words);
    check_range(config, selection, words);
}

// What a loader maps, and clients read: groups that divide the samples, of which an epoch has all.
static void check_groups(const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    const size_t bytes = dataset_list_bytes(layout);
    const uint64_t last = layout->samples - 1;
    AUTO_FREE uint64_t *words = malloc(bytes);
    struct sampler sampler;
    uint64_t samples[64];
    FUZZ_CHECK(words && pread(dataset->list_fd, words, bytes, sizeof(struct dataset_list)) == (ssize_t)bytes);
    FUZZ_CHECK(sampler_open(&sampler, ORDER_WINDOW_1, layout->samples, bytes, &layout->selection, words,
                            bytes, NULL) == 0);
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        sampler_samples(&sampler, epoch, last - min_u64(last, 62), 64, samples);
        FUZZ_CHECK(samples[63] == UINT64_MAX);
        for (uint64_t i = 0; i <= min_u64(last, 62); i++)
            FUZZ_CHECK(samples[i] < dataset_stored_samples(layout));
    }
    sampler_close(&sampler);
}

// What a loader maps.
static void check_list(const struct dataset_config *config, const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    struct dataset_list head;
    uint64_t sample;
    if (layout->window) {
        check_groups(dataset);
        return;
    }
    FUZZ_CHECK(layout->selection.count == layout->samples);
    if (layout->selection.kind == SELECTION_WEIGHTED_1) {
        check_weights(config, dataset);
        return;
    }
    FUZZ_CHECK(pread(dataset->list_fd, &head, sizeof head, 0) == (ssize_t)sizeof head);
    FUZZ_CHECK(head.bytes == sizeof head + layout->samples * sizeof sample);
    FUZZ_CHECK(layout->selection.kind == SELECTION_LIST);
    for (uint64_t i = 0; i < layout->samples; i++) {
        off_t at = (off_t)(sizeof head + i * sizeof sample);
        FUZZ_CHECK(pread(dataset->list_fd, &sample, sizeof sample, at) == (ssize_t)sizeof sample);
        FUZZ_CHECK(sample < layout->selection.of);
    }
}

static void check_dataset(const struct dataset_config *config, const struct dataset *dataset) {
    static FILE *nowhere;
    const struct dataset_layout *layout = dataset->layout;
    FUZZ_CHECK(layout->samples && layout->field_count && layout->stream_count);
    for (uint32_t i = 0; i < layout->stream_count; i++)
        check_stream(dataset, &layout->streams[i]);
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const struct ring_field *field = &layout->fields[i];
        uint64_t bytes = dtype_bytes(field->dtype);
        for (uint32_t k = 0; k < field->dimensions; k++)
            bytes *= field->shape[k];
        FUZZ_CHECK(bytes == field->sample_bytes && bytes >= 1 && bytes <= 1ull << 30);
    }
    if (dataset->list_fd >= 0)
        check_list(config, dataset);
    if (!nowhere)
        nowhere = fopen("/dev/null", "we");
    dataset_print(nowhere, dataset);
}

// ---- The configuration of a dataset ----------------------------------------------------------------------------

struct texts {
    char path[FILES][32];
    char all[32]; // a pattern for all files
    char field[FILES][64];
    char transform[128];
    char part[64];
    char list[32], weights[32];
    struct config_field fields[FILES];
    struct config_field transforms[1];
};

static void name_fields(struct texts *texts, struct dataset_config *config, uint32_t files, bool one) {
    static const char *const names[FILES] = {"image", "label", "more"};
    for (uint32_t i = 0; i < (one ? 1 : files); i++)
        texts->fields[i] = (struct config_field){(char *)names[i], one ? texts->all : texts->path[i], 1};
    config->fields = texts->fields;
    config->field_count = one ? 1 : files;
}

static void describe_records(struct fuzz_input *input, struct texts *texts, struct dataset_config *config) {
    config->record_bytes = fuzz_number(input);
    config->record_bytes += !config->record_bytes; // what config_check sees to
    config->header_bytes = fuzz_number(input);
    name_fields(texts, config, 1 + fuzz_byte(input) % FILES, false);
    for (size_t i = 0; i < config->field_count; i++)
        config->fields[i].value = fuzz_line(input, texts->field[i], sizeof texts->field[i]);
    config->path = texts->all;
}

static void describe_tokens(struct fuzz_input *input, struct texts *texts, struct dataset_config *config) {
    static const char *const dtypes[] = {"u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64"};
    config->dtype = (char *)dtypes[fuzz_byte(input) % COUNT_OF(dtypes)];
    config->length = fuzz_number(input) % (1u << 30);
    config->length += !config->length;
    config->header_bytes = fuzz_number(input);
    config->path = texts->all;
}

static void describe(struct fuzz_input *input, uint8_t kind, uint32_t files, struct texts *texts,
                     struct dataset_config *config) {
    static const char *const formats[] = {"idx", "npy", "records", "tokens"};
    static void (*const flat[])(struct fuzz_input *, struct texts *,
                                struct dataset_config *) = {describe_records, describe_tokens};
    config->format = (char *)formats[kind % 4];
    if (kind % 4 >= 2)
        flat[kind % 2](input, texts, config);
    else
        name_fields(texts, config, files, kind & ONE_FIELD);
    if (kind & WITH_TRANSFORM) {
        char *value = fuzz_line(input, texts->transform, sizeof texts->transform);
        texts->transforms[0] = (struct config_field){(char *)(kind % 4 == 3 ? "tokens" : "image"), value, 2};
        config->transforms = texts->transforms;
        config->transform_count = 1;
    }
}

static void describe_view(struct fuzz_input *input, uint8_t kind, struct texts *texts,
                          struct dataset_config *config) {
    config->part = part_whole();
    config->of = (char *)"all";
    config->view = kind & (WITH_LIST | WITH_WEIGHTS | WITH_PART);
    if (kind & WITH_LIST)
        config->indices = (char *)fuzz_path(FIRST_FD + (int)LIST, texts->list);
    if (kind & WITH_WEIGHTS)
        config->weights = (char *)fuzz_path(FIRST_FD + (int)WEIGHTS, texts->weights);
    if (!(kind & WITH_PART))
        return;
    config->part_text = fuzz_line(input, texts->part, sizeof texts->part);
    if (!part_parse(config->part_text, &config->part)) // what config_resolve_view sees to
        config->part = part_whole();
    config->split_seed = fuzz_byte(input);
    config->split = config->split_seed != 0;
    config->epoch_samples = config->weights ? config->split_seed >> 4 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct texts texts;
    struct dataset_config config = {.name = (char *)"fuzz", .file = "feedd.conf", .line = 1};
    struct dataset *dataset;
    struct error error = {0};
    make_files();
    int before = fuzz_free_descriptor();
    uint8_t kind = fuzz_byte(&input);
    uint8_t count = fuzz_byte(&input);
    uint32_t files = 1 + count % FILES;
    config.shuffle_window = count / FILES;
    for (uint32_t i = 0; i < FILES; i++)
        fuzz_path(FIRST_FD + (int)i, texts.path[i]);
    snprintf(texts.all, sizeof texts.all, "/proc/self/fd/%d", FIRST_FD);
    if (kind & ONE_FIELD)
        snprintf(texts.all, sizeof texts.all, "/proc/self/fd/20[0-%u]", files - 1);
    describe(&input, kind, files, &texts, &config);
    describe_view(&input, kind, &texts, &config);
    for (uint32_t i = 0; i < files; i++)
        fill_file(&input, i, kind & EXACT);
    if (kind & WITH_LIST)
        fill_file(&input, LIST, kind & EXACT);
    if (kind & WITH_WEIGHTS)
        fill_file(&input, WEIGHTS, kind & EXACT);
    int err = source_open_dataset(&config, &dataset, &error);
    FUZZ_CHECK(err ? !dataset && *error.text : dataset != NULL);
    if (dataset)
        check_dataset(&config, dataset);
    dataset_unref(dataset);
    FUZZ_CHECK(fuzz_free_descriptor() == before);
    return 0;
}
