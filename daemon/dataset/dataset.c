#include "daemon/dataset/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "base/text.h"
#include "daemon/dataset/folder_file.h"
#include "daemon/dataset/gpu_images.h"
#include "daemon/dataset/incomplete_list.h"
#include "daemon/dataset/index_memory.h"
#include "daemon/on_error.h"
#include "shm/ring.h"

struct dataset *dataset_ref(struct dataset *dataset) {
    atomic_fetch_add_explicit(&dataset->references, 1, memory_order_relaxed);
    return dataset;
}

static void forget_borrowed(struct dataset *dataset, const struct dataset *base) {
    for (uint32_t i = 0; i < RING_MAX_FIELDS; i++) {
        if (dataset->transforms[i] == base->transforms[i])
            dataset->transforms[i] = NULL;
        if (dataset->sizes[i] == base->sizes[i])
            dataset->sizes[i] = NULL;
        if (dataset->size_tables[i] == base->size_tables[i])
            dataset->size_tables[i] = NULL;
    }
    if (dataset->index == base->index)
        dataset->index = NULL;
    if (dataset->incomplete == base->incomplete)
        dataset->incomplete = NULL;
    if (dataset->cache_path == base->cache_path)
        dataset->cache_path = NULL;
    if (dataset->index_fd == base->index_fd)
        dataset->index_fd = -1;
    if (dataset->layout)
        dataset->layout->file_count = 0;
    dataset->paths = NULL;
    dataset->fds = NULL;
}

// What a mix has of its sources is theirs.
static void unref_sources(const struct dataset *dataset) {
    for (uint32_t i = 0; i < dataset->layout->part_count; i++)
        dataset_unref(dataset->sources[i]);
    dataset->layout->file_count = 0;
}

void dataset_unref(struct dataset *dataset) {
    // Each decrement releases what its thread did with the dataset, and the last one acquires that.
    if (!dataset || atomic_fetch_sub_explicit(&dataset->references, 1, memory_order_acq_rel) > 1)
        return;
    struct dataset *base = dataset->base;
    if (base)
        forget_borrowed(dataset, base);
    for (uint32_t i = 0; i < RING_MAX_FIELDS; i++) {
        free(dataset->transforms[i]);
        free(dataset->sizes[i]);
        free(dataset->size_tables[i]);
    }
    if (dataset->index)
        munmap((void *)dataset->index, dataset->layout->index_bytes);
    if (dataset->sources && dataset->layout)
        unref_sources(dataset);
    uint32_t files = dataset->layout ? dataset->layout->file_count : 0;
    for (uint32_t i = 0; i < files; i++) {
        close_fd(&dataset->fds[i]);
        free(dataset->paths[i]);
    }
    close_fd(&dataset->parts_fd);
    close_fd(&dataset->list_fd);
    index_memory_release(dataset->index_fd);
    close_fd(&dataset->index_fd);
    free(dataset->sources);
    free(dataset->weights);
    free(dataset->fds);
    free(dataset->paths);
    free(dataset->cache_path);
    incomplete_list_free(dataset->incomplete);
    free(dataset->layout);
    free(dataset->stored);
    free(dataset->of);
    free(dataset->name);
    free(dataset);
    dataset_unref(base);
}

static bool is_random(const struct image_step *step) {
    return step->kind != IMAGE_RESIZE && step->kind != IMAGE_CENTER_CROP && step->kind != IMAGE_PAD;
}

static bool has_random_steps(const struct dataset_layout *layout) {
    for (uint32_t i = 0; i < layout->field_count; i++)
        for (uint32_t k = 0; k < layout->images[i].steps.count; k++)
            if (is_random(&layout->images[i].steps.steps[k]))
                return true;
    return false;
}

bool dataset_is_augmented(const struct dataset *dataset) {
    bool is = has_random_steps(dataset->layout);
    for (uint32_t i = 0; i < dataset->layout->part_count && !is; i++)
        is = dataset_is_augmented(dataset->sources[i]);
    return is;
}

bool dataset_needs_seed(const struct dataset *dataset, bool shuffle) {
    bool needs = shuffle || dataset_is_drawn(dataset) || has_random_steps(dataset->layout);
    for (uint32_t i = 0; i < dataset->layout->part_count && !needs; i++)
        needs = dataset_needs_seed(dataset->sources[i], false);
    return needs;
}

static bool holds(const struct dataset_file *file, uint64_t sample) {
    return sample >= file->first_sample && sample - file->first_sample < file->samples;
}

uint32_t dataset_find_file(const struct dataset_layout *layout, const struct dataset_stream *stream,
                           uint64_t sample, uint32_t hint) {
    uint32_t end = stream->first_file + stream->file_count;
    if (hint >= stream->first_file && hint < end) {
        if (holds(&layout->files[hint], sample))
            return hint;
        if (hint + 1 < end && holds(&layout->files[hint + 1], sample))
            return hint + 1;
    }
    uint32_t low = stream->first_file;
    while (end - low > 1) { // files[low] starts at or before the sample, files[end] after it
        uint32_t middle = low + (end - low) / 2;
        if (layout->files[middle].first_sample <= sample)
            low = middle;
        else
            end = middle;
    }
    return low;
}

uint64_t dataset_file_numbers(const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    uint64_t numbers = dataset_plain_files(layout);
    if (!dataset->sources)
        return numbers + (layout->folder_count ? dataset_stored_samples(layout) : 0);
    for (uint32_t i = 0; i < layout->part_count; i++)
        if (dataset->sources[i]->layout->folder_count)
            numbers += dataset_stored_samples(dataset->sources[i]->layout);
    return numbers;
}

const struct dataset *dataset_of_file(const struct dataset *dataset, uint32_t *number) {
    uint64_t plain = 0, in_folder = dataset_plain_files(dataset->layout);
    for (uint32_t i = 0; i < dataset->layout->part_count; i++) {
        const struct dataset *source = dataset->sources[i];
        uint64_t *first = source->layout->folder_count ? &in_folder : &plain;
        const uint64_t numbers = dataset_file_numbers(source);
        if (*number >= *first && *number - *first < numbers) {
            *number -= (uint32_t)*first;
            return source;
        }
        *first += numbers;
    }
    return dataset;
}

const char *dataset_file_path(const struct dataset *of, uint32_t number, char text[DATASET_PATH_TEXT]) {
    const struct dataset *dataset = dataset_of_file(of, &number);
    struct index_extent extent;
    char path[PATH_MAX];
    if (dataset->sources)
        return "one of its files";
    if (!dataset->layout->folder_count)
        return number < dataset->layout->file_count ? dataset->paths[number] : "one of its files";
    if (number >= dataset_stored_samples(dataset->layout) ||
        folder_file_find(dataset, number, &extent, path) || extent.file >= dataset->layout->file_count)
        return dataset->paths[0];
    int wrote = snprintf(text, DATASET_PATH_TEXT, "%s/%s", dataset->paths[extent.file], path);
    if (wrote < 0)
        return dataset->paths[0];
    text_escape(text, DATASET_PATH_TEXT);
    return text;
}

static const char *image_reason(int code) {
    switch (-code) {
    case IMAGE_DAMAGED_ERROR:
        return "its image is damaged; the log says how";
    case IMAGE_UNKNOWN_ERROR:
        return "it is not a JPEG, PNG or WebP image that can be decoded";
    case IMAGE_LARGE_ERROR:
        return "its image is too large";
    case IMAGE_SIZE_ERROR:
        return "a step of its transform cannot take an image of its size";
    default:
        return NULL;
    }
}

const char *dataset_read_reason(bool in_folder, int code) {
    const char *image = image_reason(code);
    if (image)
        return image;
    if (code == -INCOMPLETE_ERROR)
        return "it is incomplete";
    if (in_folder)
        return folder_file_reason(code);
    return code == -ENODATA   ? "the file ends there"
           : code == -EBADMSG ? "its block cannot be decoded"
                              : strerror(-code);
}

uint64_t dataset_stream_samples(const struct dataset_layout *layout, const struct dataset_stream *stream) {
    if (stream->file_count == 0)
        return 0;
    const struct dataset_file *last = &layout->files[stream->first_file + stream->file_count - 1];
    return last->first_sample + last->samples;
}

const char *dataset_shape_text(uint32_t dimensions, const uint64_t *shape, char text[DATASET_SHAPE_TEXT]) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < dimensions && used < DATASET_SHAPE_TEXT; i++)
        used += (size_t)snprintf(text + used, DATASET_SHAPE_TEXT - used, "%c%" PRIu64 "%s", i ? ',' : '[',
                                 shape[i], i + 1 == dimensions ? "]" : "");
    return text;
}

const char *dataset_bytes_text(double bytes, char text[DATASET_BYTES_TEXT]) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < COUNT_OF(units)) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, DATASET_BYTES_TEXT, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

static void print_bytes(FILE *out, double bytes) {
    char text[DATASET_BYTES_TEXT];
    fputs(dataset_bytes_text(bytes, text), out);
}

static double sample_bytes(const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    double bytes = (double)ring_sample_bytes(layout->fields, layout->field_count);
    for (uint32_t i = 0; i < layout->field_count; i++)
        if (layout->fields[i].ragged)
            bytes += dataset->sizes[i]->bytes / (double)dataset->sizes[i]->samples;
    return bytes;
}

uint64_t dataset_sample_bytes(const struct dataset *dataset) {
    return (uint64_t)ceil(sample_bytes(dataset));
}

uint64_t dataset_bytes(const struct dataset *dataset) {
    return (uint64_t)llround(sample_bytes(dataset) * (double)dataset->layout->samples);
}

static void print_sizes(FILE *out, const struct size_summary *sizes) {
    fputs("[] of ", out);
    print_bytes(out, (double)size_summary_mean(sizes));
    fputs(" on average, at most ", out);
    print_bytes(out, (double)sizes->largest);
}

static void print_count(FILE *out, uint32_t count, const char *what) {
    fprintf(out, "%" PRIu32 " %s%s", count, what, count == 1 ? "" : "s");
}

static void print_files(FILE *out, const struct dataset_layout *layout) {
    const uint32_t plain = dataset_plain_files(layout);
    if (plain || !layout->folder_count)
        print_count(out, plain, "file");
    fputs(plain && layout->folder_count ? " and " : "", out);
    if (layout->folder_count)
        print_count(out, layout->folder_count, "folder");
}

static void print_blocks(FILE *out, const struct dataset_blocks *blocks) {
    fprintf(out, "    %" PRIu64 " block%s to decode: ", blocks->coded, blocks->coded == 1 ? "" : "s");
    print_bytes(out, (double)blocks->stored_bytes);
    fputs(" stored, ", out);
    print_bytes(out, (double)blocks->decoded_bytes);
    fputs(" decoded, the largest ", out);
    print_bytes(out, (double)blocks->largest);
    fputc('\n', out);
}

static void print_transform(FILE *out, const struct dataset *dataset, uint32_t field) {
    const struct size_summary *sizes = dataset->sizes[field];
    if (!sizes) {
        fprintf(out, ", made of %s: %s", dtype_name(dataset->layout->transforms[field].stored),
                dataset->transforms[field]);
        return;
    }
    fputs(", made of encoded images of ", out);
    print_bytes(out, (double)size_summary_mean(sizes));
    fputs(" on average, at most ", out);
    print_bytes(out, (double)sizes->largest);
    fprintf(out, ": %s", dataset->transforms[field]);
}

void dataset_print(FILE *out, const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    char why[128];
    fprintf(out, "%s: ", dataset->name);
    if (dataset->of)
        fprintf(out, "view of %s, %s", dataset->of, dataset_is_drawn(dataset) ? "drawn by weight, " : "");
    if (dataset->sources)
        fprintf(out, "mix of %" PRIu32 " source%s, epochs of ", layout->part_count,
                layout->part_count == 1 ? "" : "s");
    else
        fprintf(out, "format %s, ", dataset->format);
    fprintf(out, "%" PRIu64 " samples of ", layout->samples);
    print_bytes(out, (double)dataset_sample_bytes(dataset));
    fputs(dataset_is_ragged(layout) ? " on average, " : ", ", out);
    print_bytes(out, sample_bytes(dataset) * (double)layout->samples);
    fputs(" in ", out);
    print_files(out, layout);
    fprintf(out, "%s, fingerprint %016" PRIx64 "\n", dataset->io_direct ? " read with O_DIRECT" : "",
            layout->fingerprint);
    if (*dataset->index_note)
        fprintf(out, "    %s\n", dataset->index_note);
    if (layout->blocks.coded)
        print_blocks(out, &layout->blocks);
    if (layout->cache.bytes)
        fprintf(out, "    decoded once: up to %" PRIu64 " MiB for each user, kept in %s\n",
                mib_up(layout->cache.bytes), dataset->cache_path ? dataset->cache_path : "memory");
    if (dataset->incomplete)
        fprintf(out, "    %" PRIu64 " sample%s incomplete, and %s (on_error); the first one: %s\n",
                dataset->incomplete->count, dataset->incomplete->count == 1 ? " is" : "s are",
                dataset->on_error == ON_ERROR_REPLACE ? "replaced" : "left out",
                dataset->incomplete->first[0].reason);
    if (dataset->unended)
        fprintf(out,
                "    %" PRIu32
                " archive%s the blocks of zeros at the end, and may have been cut; the first one: %s\n",
                dataset->unended, dataset->unended == 1 ? " lacks" : "s lack",
                dataset->paths[dataset->first_unended]);
    if (layout->window)
        fprintf(out, "    shuffled %" PRIu32 " group%s at a time, of %" PRIu32 "%s\n", layout->window,
                layout->window == 1 ? "" : "s", layout->groups, dataset->of ? " in the dataset" : "");
    if (gpu_images_wanted(dataset) && gpu_images_obstacle(dataset, why, sizeof why))
        fprintf(out, "    loaders decode all images, in spite of decode gpu: %s\n", why);
    for (uint32_t i = 0; dataset->sources && i < layout->part_count; i++)
        fprintf(out, "    weight %" PRIu32 ": %s, %" PRIu64 " samples\n", dataset->weights[i],
                dataset->sources[i]->name, dataset->sources[i]->layout->samples);
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const struct ring_field *field = &layout->fields[i];
        char shape[DATASET_SHAPE_TEXT] = "";
        if (!field->ragged)
            dataset_shape_text(field->dimensions, field->shape, shape);
        fprintf(out, "    %s: %s%s", field->name, dtype_name(field->dtype), shape);
        if (field->ragged)
            print_sizes(out, dataset->sizes[i]);
        if (dataset->transforms[i])
            print_transform(out, dataset, i);
        fputc('\n', out);
    }
}
