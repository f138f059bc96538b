// Samples come from private feeds. A single one has a feed that begins at it, as rank 0 of so many that no other sample
// is read: an unreadable one nearby must not fail the feed. Samples in a row share a feed. If that fails, because it
// also reads ahead of what it delivers, the next sample comes from a feed of its own, which says whether it can be
// read, and those behind it share another one. The daemon keeps the ring for the next feed.
#include "client/ctl/cmd_show.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/names.h"
#include "base/sizes.h"
#include "client/ctl/cmd_show_options.h"
#include "client/ctl/dataset_question.h"
#include "client/ctl/encoded.h"
#include "client/ctl/image_png.h"
#include "client/ctl/render.h"
#include "client/ctl/sheet.h"
#include "client/ctl/show_field.h"
#include "client/ctl/text.h"
#include "order/token.h"

#define DECODING_VIEW "transform.NAME = decode, resize 256, center_crop 224"
#define RANKS_MOST    (1u << 20) // so of a larger dataset, samples that are this far away are read ahead

struct showing {
    const struct ctl *ctl;
    struct show_options options;
    struct show_style style;
    bool draw;
    bool known; // the dataset, whose index is there, and then what the daemon says of it:
    uint64_t samples, fingerprint;
    enum order_version order;     // as it is read
    bool wanted[FEED_MAX_FIELDS]; // fields
    uint32_t images;              // of these
    uint32_t files;               // that a sample is written to
    struct sheet sheets[FEED_MAX_FIELDS];
    char sheet_names[FEED_MAX_FIELDS][NAME_LENGTH_MAX + 1];
    uint32_t shown, skipped;
};

// ---- Dataset ---------------------------------------------------------------------------------------

static int take_datasets(const Feedd__Answer *page, void *context, struct error *error) {
    struct showing *showing = context;
    (void)error;
    for (size_t i = 0; i < page->n_datasets; i++) {
        if (strcmp(page->datasets[i]->name, showing->options.dataset) != 0)
            continue;
        showing->samples = page->datasets[i]->samples;
        showing->fingerprint = page->datasets[i]->fingerprint;
        if (showing->options.shuffle)
            showing->order = page->datasets[i]->shuffle_window ? ORDER_WINDOW_1 : ORDER_FEISTEL_1;
        showing->known = showing->samples > 0;
    }
    return 0;
}

static int find_dataset(struct showing *showing, struct error *error) {
    const struct dataset_question question = {.ctl = showing->ctl,
                                              .name = showing->options.dataset,
                                              .take = take_datasets,
                                              .context = showing,
                                              .known = &showing->known};
    return dataset_ask(&question, error);
}

static int choose_samples(struct showing *showing, struct error *error) {
    struct show_options *options = &showing->options;
    if (options->sample_count == 0)
        for (; options->sample_count < min_u64(SHOW_BY_DEFAULT, showing->samples); options->sample_count++)
            options->samples[options->sample_count] = options->sample_count;
    for (size_t i = 0; i < options->sample_count; i++)
        if (options->samples[i] >= showing->samples)
            return error_set(error, -ERANGE,
                             "dataset %s: found sample number %" PRIu64 ", wanted numbers from 0 to %" PRIu64,
                             options->dataset, options->samples[i], showing->samples - 1);
    return 0;
}

// ---- Fields ----------------------------------------------------------------------------------------

// "x u8[64], y f32", for messages: all fields, or those that are `wanted`.
static void list_fields(const struct feed_description *description, const bool *wanted, char *text,
                        size_t bytes) {
    size_t used = 0;
    *text = 0;
    for (uint32_t i = 0; i < description->field_count && used < bytes; i++) {
        char title[256];
        if (wanted && !wanted[i])
            continue;
        show_field_title(&description->field[i], " ", title, sizeof title);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", title);
    }
}

static bool want_field(struct showing *showing, const struct feed_description *description,
                       const char *name) {
    for (uint32_t i = 0; i < description->field_count; i++)
        if (strcmp(description->field[i].name, name) == 0)
            return showing->wanted[i] = true;
    return false;
}

static int choose_fields(struct showing *showing, const struct feed_description *description,
                         struct error *error) {
    const struct show_options *options = &showing->options;
    char fields[256];
    for (uint32_t i = 0; i < description->field_count; i++)
        showing->wanted[i] = options->field_count == 0;
    for (uint32_t k = 0; k < options->field_count; k++) {
        if (want_field(showing, description, options->fields[k]))
            continue;
        list_fields(description, NULL, fields, sizeof fields);
        return error_set(error, -ENOENT, "dataset %s has no field %s, only %s", options->dataset,
                         options->fields[k], fields);
    }
    showing->images = 0;
    bool encoded = false;
    for (uint32_t i = 0; i < description->field_count; i++) {
        showing->images += showing->wanted[i] && image_is(&description->field[i]);
        encoded |= showing->wanted[i] && encoded_may_be(&description->field[i]);
    }
    if ((!options->output && !options->sheet) || showing->images || (encoded && options->output))
        return 0;
    list_fields(description, showing->wanted, fields, sizeof fields);
    if (encoded)
        return error_set(error, -EINVAL,
                         "dataset %s has no pixels to put on a sheet: found %s; if these are encoded images,"
                         " a view with " DECODING_VIEW " has their pixels",
                         options->dataset, fields);
    return error_set(error, -EINVAL, "dataset %s has no image to write: found %s, wanted " IMAGE_WANTED,
                     options->dataset, fields);
}

// Whether a field of this batch of one sample is written to a file that is named like that.
static bool is_written(const struct feed_array *array, const char *output) {
    const enum encoding wanted = encoding_of_path(output);
    return wanted == ENCODED_PNG && image_is(array) ? true : encoded_find(array).encoding == wanted;
}

// `files`: how many fields of the sample are.
static int count_files(const struct showing *showing, const struct feed_batch *batch, uint64_t sample,
                       uint32_t *files, struct error *error) {
    const struct show_options *options = &showing->options;
    const struct feed_array *pixels = NULL, *stored = NULL;
    *files = 0;
    for (uint32_t i = 0; i < batch->field_count; i++) {
        if (!showing->wanted[i])
            continue;
        const struct feed_array *array = &batch->field[i];
        *files += is_written(array, options->output);
        if (image_is(array))
            pixels = array;
        else if (encoded_find(array).encoding)
            stored = array;
    }
    if (*files)
        return 0;
    if (pixels)
        return error_set(error, -EINVAL,
                         "field %s of %s has pixels, which are written as PNG: found --output"
                         " %s, wanted a name that ends in .png",
                         pixels->name, options->dataset, options->output);
    if (!stored)
        return error_set(error, -EINVAL,
                         "sample %" PRIu64 " of %s has no image to write: found neither the"
                         " bytes of a JPEG, PNG or WebP file nor " IMAGE_WANTED,
                         sample, options->dataset);
    const enum encoding encoding = encoded_find(stored).encoding;
    return error_set(error, -EINVAL,
                     "field %s of sample %" PRIu64 " of %s is encoded as %s: found --output %s,"
                     " wanted a name that ends in .%s for the bytes as they are; a view with " DECODING_VIEW
                     " has the pixels",
                     stored->name, sample, options->dataset, encoding_name(encoding), options->output,
                     encoding_ending(encoding));
}

static int out_of_memory(struct error *error) {
    return error_set(error, -ENOMEM, "out of memory");
}

// A sample that cannot be read leaves its place empty.
static int put_on_sheet(struct showing *showing, uint32_t field, const char *name, const struct image *image,
                        struct error *error) {
    struct sheet *sheet = &showing->sheets[field];
    sheet->count = showing->options.sample_count;
    snprintf(showing->sheet_names[field], sizeof showing->sheet_names[field], "%s", name);
    return sheet_put(sheet, showing->shown + showing->skipped, image, error);
}

static int write_sheets(const struct showing *showing, struct error *error) {
    for (uint32_t i = 0; i < FEED_MAX_FIELDS; i++) {
        const struct sheet *sheet = &showing->sheets[i];
        if (!sheet->image.pixels)
            continue;
        char *path AUTO_FREE =
            show_output_path(showing->options.sheet, 0, false, showing->sheet_names[i], showing->images > 1);
        if (!path)
            return out_of_memory(error);
        int err = image_write_png(&sheet->image, path, error);
        if (err)
            return err;
        printf("%s: %u image%s of %u x %u pixels in %u row%s of %u\n", path, showing->shown,
               showing->shown == 1 ? "" : "s", sheet->width, sheet->height, sheet->rows,
               sheet->rows == 1 ? "" : "s", sheet->columns);
    }
    return 0;
}

static int show_field(struct showing *showing, uint32_t number, const struct feed_array *array,
                      uint64_t sample, json_t *fields, struct error *error) {
    const struct show_options *options = &showing->options;
    struct shown_field field = {
        .array = array,
        .summary = summarise(array->dtype, array->data, array->bytes / feed_dtype_bytes(array->dtype))};
    struct image image CLEANUP(image_free) = {0};
    char *path AUTO_FREE = NULL;
    if (image_is(array) && (options->output || options->sheet || showing->draw) &&
        image_make(&image, array, &field.summary) < 0)
        return out_of_memory(error);
    if (options->sheet)
        return image.pixels ? put_on_sheet(showing, number, array->name, &image, error) : 0;
    if (options->output && is_written(array, options->output)) {
        path = show_output_path(options->output, sample, options->sample_count > 1, array->name,
                                showing->files > 1);
        if (!path)
            return out_of_memory(error);
        int err = image.pixels ? image_write_png(&image, path, error) : encoded_write(array, path, error);
        if (err)
            return err;
        field.file = path;
    }
    if (showing->draw)
        field.image = image;
    int err = fields ? json_array_append_new(fields, show_field_json(&field, &showing->style))
                     : show_field_print(&field, &showing->style, stdout);
    return err < 0 ? out_of_memory(error) : 0;
}

// ---- Samples ---------------------------------------------------------------------------------------

static int show_batch(struct showing *showing, const struct feed_batch *batch, uint64_t sample,
                      struct error *error) {
    int err = 0;
    if (showing->options.output)
        err = count_files(showing, batch, sample, &showing->files, error);
    if (err)
        return err;
    json_t *fields = showing->options.json ? json_array() : NULL;
    if (!fields && !showing->options.sheet) {
        char title[128];
        snprintf(title, sizeof title, "%ssample %" PRIu64 " of %s", showing->shown ? "\n" : "", sample,
                 showing->options.dataset);
        text_fold(title, 0, showing->style.width, stdout);
    }
    for (uint32_t i = 0; i < batch->field_count && !err; i++)
        if (showing->wanted[i])
            err = show_field(showing, i, &batch->field[i], sample, fields, error);
    if (fields && !err) {
        json_t *object = json_pack("{s:s, s:o, s:O}", "dataset", showing->options.dataset, "sample",
                                   json_integer((json_int_t)sample), "fields", fields);
        if (!object)
            err = out_of_memory(error);
        else
            ctl_print_json_exact(object);
    }
    json_decref(fields);
    showing->shown++;
    return err;
}

// *failed: the feed failed, not this command.
static int take_sample(struct showing *showing, struct feed *feed, uint64_t sample, bool *failed,
                       struct error *error) {
    struct feed_batch batch;
    int got = feed_next(feed, &batch, -1);
    *failed = got < 0;
    if (got < 0)
        return error_set(error, got, "%s", feed_strerror(feed));
    if (got && batch.count == 0 && batch.skipped) {
        fflush(stdout);
        fprintf(stderr,
                "feedctl: sample %" PRIu64 " of %s cannot be read, and on_error = skip leaves it out: feedctl"
                " errors %s says why\n",
                sample, showing->options.dataset, showing->options.dataset);
        showing->skipped++;
        return 0;
    }
    const int64_t number = got && batch.count == 1 ? feed_batch_sample(feed, &batch, 0) : -1;
    if (number < 0 || (!showing->options.shuffle && number != (int64_t)sample))
        return error_set(error, -EPROTO, "feedd did not deliver sample %" PRIu64 " of %s", sample,
                         showing->options.dataset);
    int err = show_batch(showing, &batch, (uint64_t)number, error);
    int released = feed_batch_release(feed, &batch, NULL);
    return released < 0 && !err ? error_set(error, released, "%s", feed_strerror(feed)) : err;
}

static int open_feed(struct showing *showing, uint64_t sample, uint64_t ranks, struct feed **feed,
                     struct error *error) {
    char token[RESUME_TOKEN_BYTES];
    struct resume_token place = {.version = showing->order,
                                 .fingerprint = showing->fingerprint,
                                 .seed = showing->options.seed,
                                 .epoch = showing->options.epoch,
                                 .consumed = sample};
    const struct feed_options options = {
        .socket = showing->ctl->socket,
        .dataset = showing->options.dataset,
        .batch_size = 1,
        .world_size = (uint32_t)max_u64(1, min_u64(ranks, RANKS_MOST)),
        .local_world_size = 1,
        .shuffle = showing->options.shuffle,
        .seed = showing->options.seed,
        .epochs = showing->options.epoch + 1,
        .prefetch = 1,
        .ring_bytes = 1, // the least that there is
        .resume = token,
        .client_name = "feedctl",
        .reconnect_timeout_ms = -1,
    };
    resume_token_format(&place, token);
    int err = feed_open(feed, &options);
    if (err)
        return error_set(error, err, "%s", feed_strerror(*feed));
    return choose_fields(showing, feed_describe(*feed), error);
}

// `count` samples in a row. *done: how many of them have been shown, or left out.
static int show_row(struct showing *showing, const uint64_t *samples, size_t count, size_t *done,
                    bool *failed, struct error *error) {
    struct feed *feed = NULL;
    int err = open_feed(showing, samples[0], count > 1 ? 1 : showing->samples, &feed, error);
    *failed = false;
    for (*done = 0; *done < count && !err; *done += !err)
        err = take_sample(showing, feed, samples[*done], failed, error);
    feed_close(feed);
    return err;
}

static int show_all(struct showing *showing, struct error *error) {
    const struct show_options *options = &showing->options;
    int err = 0;
    bool failed = false; // the feed from which the next sample was to come, with others
    for (size_t i = 0, done; i < options->sample_count && !err; i += done) {
        const uint64_t *samples = &options->samples[i];
        size_t row = 1;
        while (!failed && i + row < options->sample_count && samples[row] == samples[row - 1] + 1)
            row++;
        err = show_row(showing, samples, row, &done, &failed, error);
        if (!failed || row == 1)
            continue;
        *error = (struct error){0};
        err = 0;
    }
    return err;
}

// ---- Command ---------------------------------------------------------------------------------------

// By the conventions of NO_COLOR and COLORTERM.
static void choose_style(struct showing *showing) {
    const struct show_options *options = &showing->options;
    const char *none = getenv("NO_COLOR"), *colours = getenv("COLORTERM"), *terminal = getenv("TERM");
    bool able = isatty(STDOUT_FILENO) && terminal && strcmp(terminal, "dumb") != 0 && !(none && *none);
    showing->draw = !options->json && (able || options->draw);
    showing->style = (struct show_style){
        .width = ctl_terminal_width(),
        .values = options->values,
        .values_given = options->values_given,
        .true_colour = colours && (strcmp(colours, "truecolor") == 0 || strcmp(colours, "24bit") == 0),
    };
}

static int show_samples(struct showing *showing, struct error *error) {
    int err = find_dataset(showing, error);
    if (!err)
        err = choose_samples(showing, error);
    if (!err)
        err = show_all(showing, error);
    return err ? err : write_sheets(showing, error);
}

int cmd_show(const struct ctl *ctl, int count, char **arguments) {
    struct showing showing = {.ctl = ctl};
    struct error error = {0};
    show_parse(count, arguments, &showing.options);
    choose_style(&showing);
    int err = show_samples(&showing, &error);
    if (!err && (fflush(stdout) != 0 || ferror(stdout)))
        err = error_set(&error, -EIO, "cannot write to standard output");
    fflush(stdout);
    free(showing.options.samples);
    for (uint32_t i = 0; i < FEED_MAX_FIELDS; i++)
        sheet_free(&showing.sheets[i]);
    if (err < 0)
        return ctl_complain(&error);
    return showing.skipped ? CTL_FAILED : CTL_OK;
}
