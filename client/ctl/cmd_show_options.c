#include "client/ctl/cmd_show_options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/sizes.h"
#include "client/ctl/arguments.h"
#include "client/ctl/encoded.h"

enum key {
    KEY_FIELD = 'f',
    KEY_OUTPUT = 'o',
    KEY_VALUES = 'n',
    KEY_JSON = 'j',
    KEY_DRAW = 256,
    KEY_SHEET,
    KEY_EPOCH,
    KEY_SEED,
    KEY_SHUFFLE,
};

static const struct argp_option table[] = {
    {"field", KEY_FIELD, "NAME", 0, "show only this field; may be given again", 0},
    {"values", KEY_VALUES, "N", 0,
     "the first N values of each field; 0: all (default: one line, or all with --json)", 0},
    {"output", KEY_OUTPUT, "FILE.png", 0,
     "write images as PNG, or stored JPEG, PNG or WebP files as they are (FILE.jpg, ...); %d becomes the "
     "sample's number, which is added for several samples",
     0},
    {"sheet", KEY_SHEET, "FILE.png", 0,
     "write the images of all samples as one PNG, in rows, instead of showing them", 0},
    {"draw", KEY_DRAW, NULL, 0, "draw images even without a terminal or with NO_COLOR set", 0},
    {"epoch", KEY_EPOCH, "N", 0, "epoch of the order and of random steps on images, from 0 (default: 0)", 0},
    {"seed", KEY_SEED, "N", 0, "seed of the order and of random steps on images (default: 0)", 0},
    {"shuffle", KEY_SHUFFLE, NULL, 0, "SAMPLE is a place in the shuffled order of the epoch", 0},
    {"json", KEY_JSON, NULL, 0, "print a JSON object per sample, each on a line", 0},
    {0},
};

// A number, or A..B: from A on, without B.
static void add_samples(struct show_options *options, const char *text, struct argp_state *state) {
    const char *dots = strstr(text, "..");
    char first[32];
    snprintf(first, sizeof first, "%.*s", dots ? (int)min_u64((uint64_t)(dots - text), sizeof first) : 0,
             text);
    const uint64_t from = ctl_parse_number(state, "sample", dots ? first : text, 0, UINT64_MAX);
    const uint64_t to = dots ? ctl_parse_number(state, "sample", dots + 2, 0, UINT64_MAX) : from;
    if (dots && to <= from)
        argp_error(state, "samples %s: the range is empty", text);
    const uint64_t count = dots ? to - from : 1;
    if (count > SHOW_MOST - options->sample_count)
        argp_error(state, "samples %s: more than %d samples", text, SHOW_MOST);
    for (uint64_t i = 0; i < count; i++)
        options->samples[options->sample_count++] = from + i;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct show_options *options = state->input;
    uint64_t number;
    switch (key) {
    case KEY_FIELD:
        if (options->field_count == COUNT_OF(options->fields))
            argp_error(state, "too many fields: a dataset has %zu at most", COUNT_OF(options->fields));
        options->fields[options->field_count++] = argument;
        return 0;
    case KEY_VALUES:
        number = ctl_parse_number(state, "values", argument, 0, UINT64_MAX);
        options->values = number ? number : UINT64_MAX;
        options->values_given = true;
        return 0;
    case KEY_OUTPUT:
        return options->output = argument, 0;
    case KEY_JSON:
        return options->json = true, 0;
    case KEY_EPOCH:
        return options->epoch = ctl_parse_number(state, "epoch", argument, 0, UINT32_MAX), 0;
    case KEY_SEED:
        return options->seed = ctl_parse_number(state, "seed", argument, 0, UINT64_MAX), 0;
    case KEY_SHUFFLE:
        return options->shuffle = true, 0;
    case KEY_DRAW:
        return options->draw = true, 0;
    case KEY_SHEET:
        return options->sheet = argument, 0;
    case ARGP_KEY_ARG:
        if (!options->dataset)
            options->dataset = argument;
        else
            add_samples(options, argument, state);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which dataset? feedctl datasets lists them");
        return EINVAL;
    case ARGP_KEY_END:
        if (options->json && options->draw)
            argp_error(state, "--json and --draw exclude each other");
        if (options->sheet && (options->json || options->draw || options->output || options->values_given))
            argp_error(state, "--sheet shows nothing else: leave out --json, --draw, --output and --values");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void show_parse(int count, char **arguments, struct show_options *options) {
    static const char text[] =
        "Show samples of a dataset or view, by number, or from A up to but not including B; without a number "
        "the first three: values, text and images.";
    const struct argp argp = {table, parse, "DATASET [SAMPLE|A..B...]", text, NULL, NULL, NULL};
    *options = (struct show_options){.values = UINT64_MAX};
    options->samples = calloc(SHOW_MOST, sizeof *options->samples);
    if (!options->samples) {
        fputs("feedctl: out of memory\n", stderr);
        exit(EXIT_FAILURE);
    }
    ctl_parse(&argp, count, arguments, options);
}

// ---- Files -----------------------------------------------------------------------------------------

char *show_output_path(const char *output, uint64_t sample, bool several_samples, const char *field,
                       bool several_fields) {
    char number[32] = "", *path;
    const char *place = strstr(output, "%d");
    const size_t end = encoding_stem(output);
    if (several_samples && !place)
        snprintf(number, sizeof number, "-%" PRIu64, sample);
    const char *dash = several_fields ? "-" : "", *name = several_fields ? field : "";
    if (!name_is_valid(name))
        name = "field"; // whatever the daemon says, the file is where the user wants it
    int printed = place && (size_t)(place - output) < end
                      ? asprintf(&path, "%.*s%" PRIu64 "%.*s%s%s%s", (int)(place - output), output, sample,
                                 (int)(output + end - place - 2), place + 2, dash, name, output + end)
                      : asprintf(&path, "%.*s%s%s%s%s", (int)end, output, number, dash, name, output + end);
    return printed < 0 ? NULL : path;
}
