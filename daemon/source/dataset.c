#include "daemon/source/dataset.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "shm/ring.h"

struct dataset *dataset_ref(struct dataset *dataset) {
    dataset->references++;
    return dataset;
}

void dataset_unref(struct dataset *dataset) {
    if (!dataset || --dataset->references > 0)
        return;
    for (uint32_t i = 0; i < RING_MAX_FIELDS; i++)
        free(dataset->transforms[i]);
    uint32_t files = dataset->layout ? dataset->layout->file_count : 0;
    for (uint32_t i = 0; i < files; i++) {
        close_fd(&dataset->fds[i]);
        free(dataset->paths[i]);
    }
    close_fd(&dataset->list_fd);
    close_fd(&dataset->index_fd);
    free(dataset->fds);
    free(dataset->paths);
    free(dataset->layout);
    free(dataset->of);
    free(dataset->name);
    free(dataset);
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

static void print_bytes(FILE *out, double bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < COUNT_OF(units)) {
        bytes /= 1024;
        unit++;
    }
    fprintf(out, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

void dataset_print(FILE *out, const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    uint64_t sample_bytes = ring_sample_bytes(layout->fields, layout->field_count);
    fprintf(out, "%s: ", dataset->name);
    if (dataset->of)
        fprintf(out, "view of %s, %s", dataset->of, dataset_is_drawn(dataset) ? "drawn by weight, " : "");
    fprintf(out, "format %s, %" PRIu64 " samples of ", dataset->format, layout->samples);
    print_bytes(out, (double)sample_bytes);
    fputs(", ", out);
    print_bytes(out, (double)sample_bytes * (double)layout->samples);
    fprintf(out, " in %" PRIu32 " file%s%s, fingerprint %016" PRIx64 "\n", layout->file_count,
            layout->file_count == 1 ? "" : "s", dataset->io_direct ? " read with O_DIRECT" : "",
            layout->fingerprint);
    if (*dataset->index_note)
        fprintf(out, "    %s\n", dataset->index_note);
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const struct ring_field *field = &layout->fields[i];
        char shape[DATASET_SHAPE_TEXT];
        fprintf(out, "    %s: %s%s", field->name, dtype_name(field->dtype),
                dataset_shape_text(field->dimensions, field->shape, shape));
        if (dataset->transforms[i])
            fprintf(out, ", made of %s: %s", dtype_name(layout->transforms[i].stored),
                    dataset->transforms[i]);
        fputc('\n', out);
    }
}
