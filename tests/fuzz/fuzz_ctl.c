// feedctl with a hostile daemon: whatever the answers say, what is printed of them is printed without a crash.
//
// Input: a byte for the command, and steps of the daemon: a byte each, and what the step takes.
#include "client/ctl/cmd_list.h"
#include "client/ctl/cmd_status.h"
#include "client/ctl/ctl.h"
#include "client/ctl/files.h"
#include "client/ctl/query.h"
#include "client/ctl/text.h"
#include "order/sampler.h"
#include "tests/fuzz/hostile.h"

#define FIELD_BYTES 8u // in a sample

int __wrap_ctl_complain(const struct error *error);

int __wrap_ctl_complain(const struct error *error) {
    FUZZ_CHECK(*error->text && error->code < 0);
    return CTL_FAILED;
}

static void hostile_step(void) {
    switch (fuzz_byte(&hostile.input) % 8) {
    case 0:
        hostile_welcome(PROTO_VERSION);
        return;
    case 1:
        hostile_error((int32_t)fuzz_number(&hostile.input));
        return;
    case 2:
        hostile_bytes();
        return;
    case 3:
        hostile_hang_up();
        return;
    default:
        hostile_frame();
    }
}

static int list(const struct ctl *ctl, int (*command)(const struct ctl *, int, char **), bool json) {
    char *arguments[] = {(char *)"command", (char *)"--json", NULL};
    return command(ctl, json ? 2 : 1, arguments);
}

static void find_in_block(const struct files *files, const struct files_column *column, uint64_t sample) {
    struct files_block_place place;
    struct error error = {0};
    int err = files_blocks_find(&files->blocks, &files->index, column, sample, 0, sample, &place, &error);
    if (err)
        FUZZ_CHECK(err == -EBADMSG && *error.text);
    else
        FUZZ_CHECK(place.offset <= place.block.decoded && place.bytes <= place.block.decoded - place.offset);
}

static void find_window(const struct files *files, const struct files_column *column, uint64_t sample) {
    struct files_extent stretch;
    struct error error = {0};
    if (files_index_stretch(&files->index, column, sample * FIELD_BYTES, FIELD_BYTES, &stretch, &error))
        FUZZ_CHECK(*error.text);
    else
        FUZZ_CHECK(stretch.bytes >= 1 && stretch.bytes <= FIELD_BYTES);
}

// What the index says of a sample, as far as that takes no file.
static void read_indexed(struct files *files, uint64_t sample) {
    for (uint32_t field = 0; field < files->field_count; field++) {
        const struct files_column *column = &files->index.columns[field];
        const char *path;
        uint64_t offset;
        uint8_t bytes[FIELD_BYTES];
        char name[PATH_MAX];
        struct error error = {0};
        if (!column->known || column->transformed)
            continue;
        switch (column->kind) {
        case FEEDD__COLUMN__KIND__EXTENTS:
            files_index_extent(&files->index, column, sample);
            break;
        case FEEDD__COLUMN__KIND__NAMES:
            if (files_index_path(&files->index, column, sample, name))
                FUZZ_CHECK(*name && strlen(name) < PATH_MAX);
            break;
        case FEEDD__COLUMN__KIND__BLOCKS:
            find_in_block(files, column, sample);
            break;
        case FEEDD__COLUMN__KIND__WINDOWS:
            find_window(files, column, sample);
            break;
        default:
            if (files_read(files, field, sample, bytes, sizeof bytes, &path, &offset, &error))
                FUZZ_CHECK(column->kind == FEEDD__COLUMN__KIND__WITHIN && *error.text);
        }
    }
}

// As a source of a mix is.
static void shuffle_in_windows(const struct files *files, uint64_t samples) {
    const struct selection *selection = &files->list.selector.selection;
    struct error error = {0};
    struct sampler sampler;
    if (sampler_open(&sampler, ORDER_WINDOW_1, samples, 7, selection, files->list.words,
                     files->list.count * sizeof *files->list.words, &error)) {
        FUZZ_CHECK(*error.text);
        return;
    }
    for (uint64_t position = 0; position < samples; position++) {
        uint64_t sample;
        sampler_samples(&sampler, 3, position, 1, &sample);
        FUZZ_CHECK(sample < (selection->kind ? selection->of : samples));
    }
    sampler_close(&sampler);
}

// What feedctl read --verify does with the list of files; none of them is opened.
static int verify_files(const struct ctl *ctl, bool windows) {
    struct feed_description description = {.dataset = "numbers", .samples = 100, .field_count = 2};
    struct files files;
    struct error error = {0};
    for (uint32_t i = 0; i < description.field_count; i++)
        description.field[i] =
            (struct feed_array){.name = "field", .dimensions = 1, .shape = {10}, .bytes = 10 * FIELD_BYTES};
    int err = files_open(&files, ctl, &description, 7, windows, &error);
    const struct selection *selection = &files.list.selector.selection;
    for (uint64_t sample = 0; sample < description.samples && !err; sample++) {
        const uint64_t stored = files_sample(&files, 3, sample);
        FUZZ_CHECK(stored < (selection->kind ? selection->of : description.samples));
        read_indexed(&files, stored);
    }
    if (windows && !err)
        shuffle_in_windows(&files, description.samples);
    files_close(&files);
    FUZZ_CHECK(!err || *error.text);
    return err;
}

static int command(const struct ctl *ctl) {
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    struct error error = {0};
    char text[8192];
    int err = query_open(&connection, ctl, &error);
    Feedd__Command reload = FEEDD__COMMAND__INIT;
    reload.kind = FEEDD__COMMAND__KIND__RELOAD;
    return err ? err : query_command(&connection, &reload, text, sizeof text, &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int (*const commands[])(const struct ctl *, int, char **) = {cmd_status, cmd_datasets, cmd_feeds,
                                                                        cmd_clients};
    static bool silent;
    const struct ctl ctl = {.socket = "/nowhere"};
    if (!silent)
        silent = freopen("/dev/null", "we", stdout) != NULL;
    hostile_begin(data, size);
    int before = fuzz_free_descriptor();
    uint8_t what = fuzz_byte(&hostile.input) % 11;
    if (what < 8)
        list(&ctl, commands[what / 2], what % 2);
    else if (what == 8)
        verify_files(&ctl, false);
    else if (what == 9)
        command(&ctl);
    else
        verify_files(&ctl, true);
    hostile_hang_up();
    FUZZ_CHECK(fuzz_free_descriptor() == before);
    return 0;
}
