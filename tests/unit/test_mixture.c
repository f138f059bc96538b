// Mixes: what a configuration says of them, what is refused, and what opening one makes of its sources.
#include <sys/mman.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/config/config_changes.h"
#include "daemon/io_mode.h"
#include "daemon/supervisor/datasets.h"
#include "tests/unit/source_fixture.h"

#define A     "[dataset a]\nformat = records\npath = a.bin\nrecord_bytes = 4\nfield.x = u8[4] @ 0\n" // 1 to 5
#define B     "[dataset b]\nformat = records\npath = b.bin\nrecord_bytes = 6\nfield.x = u8[4] @ 2\n" // 6 to 10
#define V     "[view v]\nof = b\nsamples = 1..\n" // 11 to 13
#define EPOCH "epoch_samples = 100\n"

static const struct {
    const char *text, *sentence; // what follows the file's name
} broken[] = {
    {"[mix]\n", ":1: found [mix], wanted a name of 1 to 63 letters"},
    {"[mix m]\n",
     ":1: [mix m] source.NAME: found nothing, wanted the weight of at least one dataset or view"},
    {A "[mix m]\nsource.a = 1\n", ":6: [mix m] epoch_samples: found nothing, wanted the number of samples"},
    {A "[mix m]\nsource.a = 1\nepoch_samples = 0\n",
     ":8: [mix m] epoch_samples: found \"0\", wanted a whole"},
    {A "[mix m]\nsource.a = 1\nepoch_samples = 1099511627777\n",
     ":8: [mix m] epoch_samples: found \"1099511"},
    {A "[mix a]\n",
     ":6: [mix a]: found a second dataset, view or mix of that name, wanted one; the first one"},
    {A "[mix m]\nsource.a = 1\nsource.a = 2\n", ":8: [mix m] source.a: found a second time, wanted once"},
    {A "[mix m]\nsource.a =\n", ":7: [mix m] source.a: found \"\", wanted a positive decimal number"},
    {A "[mix m]\nsource. = 1\n",
     ":7: [mix m] source.: found \"\" as a source's name, wanted 1 to 63 letters"},
    {A "[mix m]\nsource.a = 0\n" EPOCH, ":7: [mix m] source.a: found '0', wanted a number above zero"},
    {A "[mix m]\nsource.a = -1\n" EPOCH, ":7: [mix m] source.a: found '-1', wanted a"},
    {A "[mix m]\nsource.a = one\n" EPOCH, ":7: [mix m] source.a: found 'one', wanted a"},
    {A "[view train]\nof = a\n[mix m]\nsource.trian = 1\n" EPOCH,
     ":9: [mix m] source.trian: there is no dataset or view named \"trian\"; perhaps you mean \"train\""},
    {A "[mix m]\nsource.zebra = 1\n" EPOCH,
     ":7: [mix m] source.zebra: there is no dataset or view named \"zebra\""},
    {A "[mix m]\nsource.a = 1\n" EPOCH "[mix n]\nsource.m = 1\n" EPOCH,
     ":10: [mix n] source.m: found a mix, wanted a dataset or a view: mixes cannot be nested"},
    {A "[mix m]\nsource.m = 1\n" EPOCH, ":7: [mix m] source.m: found a mix, wanted a dataset or a view"},
    {A "[mix m]\nsource.a = 1\n" EPOCH "[view w]\nof = m\n",
     ":10: [view w] of: found \"m\", which is a mix, wanted a dataset"},
    {A B "[mix m]\nsource.a = 1\nsource.b = 1000000000\n" EPOCH,
     ":11: [mix m] source.NAME: found weights whose smallest whole numbers have a total of 1000000001"},
    {A "[mix m]\nsource.a = 1\nformat = idx\n",
     ":8: [mix m] format: found in this section, wanted in [dataset NAME]"},
    {A "source.b = 1\n", ":6: [dataset a] source.b: found in this section, wanted in [mix NAME]"},
    {A "io_direct = yes\n[mix m]\nsource.a = 1\nio = mapped\n" EPOCH,
     ":8: [mix m] source.a: found a source with io_direct in a mix with io = mapped, wanted io = uring, "
     "pread"},
    {A "io_delay_us = 5\n[mix m]\nsource.a = 1\nio = pread\n" EPOCH,
     ":8: [mix m] source.a: found a source with io_delay_us in a mix with io = pread, wanted io = uring or "
     "auto"},
};

static void test_broken(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        struct config *config;
        struct error error;
        int err = load_text(broken[i].text, &config, &error);
        const char *path = path_in_folder("feedd.conf");
        bool named = strncmp(error.text, path, strlen(path)) == 0;
        if (err != -EINVAL || !named ||
            strncmp(error.text + strlen(path), broken[i].sentence, strlen(broken[i].sentence)) != 0)
            fail_msg("%s\n  gave    %d, %s\n  wanted  %s", broken[i].text, err, error.text,
                     broken[i].sentence);
        assert_null(config);
    }
}

static struct config *load_good(const char *text) {
    struct config *config;
    struct error error;
    if (load_text(text, &config, &error))
        fail_msg("%s", error.text);
    return config;
}

// Before its sources, and with weights that have to be made whole.
static void test_configuration(void **state) {
    (void)state;
    struct config *config = load_good("[feedd]\nio = pread\n[mix m]\nsource.v = 0.75\nsource.a = .5\n" EPOCH
                                      "on_error = skip\n" A B V);
    const struct dataset_config *mix = &config->datasets[0];
    assert_true(mix->mix && !mix->view && mix->on_error);
    assert_int_equal(mix->epoch_samples, 100);
    assert_int_equal(mix->io, IO_PREAD);
    assert_int_equal(mix->source_count, 2);
    assert_true(mix->source_numbers[0] == 3 && mix->source_numbers[1] == 1);
    assert_true(mix->source_weights[0] == 3 && mix->source_weights[1] == 2);
    config_free(config);
}

static void test_most_sources(void **state) {
    (void)state;
    static char text[100000];
    struct config *config;
    struct error error;
    for (int count = 256; count <= 257; count++) {
        size_t used = 0;
        for (int i = 0; i < count; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "[view v%d]\nof = b\n", i);
        used += (size_t)snprintf(text + used, sizeof text - used, B "[mix m]\n" EPOCH);
        for (int i = 0; i < count; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "source.v%d = 1\n", i);
        int err = load_text(text, &config, &error);
        if (count == 256) {
            assert_int_equal(err, 0);
            assert_int_equal(config->datasets[257].source_numbers[255], 255);
            config_free(config);
        } else {
            assert_int_equal(err, -EINVAL);
            assert_non_null(strstr(error.text, "source.v256: found too many sources, wanted at most 256"));
        }
    }
}

static void test_changes(void **state) {
    (void)state;
    char text[1000];
    struct config *old = load_good(A "[mix m]\nsource.a = 1\n" EPOCH "[mix n]\nsource.a = 1\n" EPOCH),
                  *new = load_good(A "[mix m]\nsource.a = 2\n" EPOCH "[mix o]\nsource.a = 1\n" EPOCH);
    struct change_lines lines = {.text = text, .bytes = sizeof text};
    config_describe_changes(old, new, old->socket, &lines);
    change_lines_end(&lines);
    assert_string_equal(text, "mix m: changed (sources); feeds in use keep the old version\nmix o: added\n"
                              "mix n: removed; feeds in use continue");
    config_free(old);
    config_free(new);
}

// ---- Opening -----------------------------------------------------------------------------------------------

static int open_text(const char *text, struct dataset ***datasets, size_t *count, struct error *error) {
    struct config *config = load_good(text);
    *count = config->dataset_count;
    int err = datasets_open(config, datasets, NULL, error);
    config_free(config);
    return err;
}

static void write_data(void) {
    char bytes[60];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    write_file("a.bin", bytes, 40);
    write_file("b.bin", bytes, 60);
}

static const struct dataset_parts *map_parts(const struct dataset *mix) {
    const struct dataset_parts *parts = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, mix->parts_fd, 0);
    assert_true(parts != MAP_FAILED);
    return parts;
}

static void test_parts(void **state) {
    (void)state;
    struct dataset **datasets;
    struct error error = {0};
    size_t count;
    write_data();
    assert_int_equal(
        open_text("[mix m]\nsource.v = 3\nsource.a = 1\n" EPOCH A B V, &datasets, &count, &error), 0);
    const struct dataset *mix = datasets[0];
    const struct dataset_layout *layout = mix->layout;
    assert_true(layout->samples == 100 && layout->part_count == 2 && layout->file_count == 2);
    assert_true(layout->field_count == 1 && layout->stream_count == 0);
    assert_string_equal(mix->format, "mix");
    assert_true(mix->weights[0] == 3 && mix->weights[1] == 1);
    assert_ptr_equal(mix->sources[0], datasets[3]);
    assert_int_equal(mix->fds[0], datasets[3]->fds[0]);
    assert_int_equal(mix->fds[1], datasets[1]->fds[0]);
    const struct dataset_parts *parts = map_parts(mix);
    assert_true(parts->count == 2 && parts->samples == 20);
    assert_true(parts->part[0].first_sample == 0 && parts->part[1].first_sample == 10);
    assert_true(parts->part[0].first_file == 0 && parts->part[1].first_file == 1);
    assert_int_equal(dataset_part_layout(parts, 0)->selection.kind, SELECTION_RANGE);
    assert_int_equal(dataset_part_layout(parts, 0)->samples, 9);
    assert_int_equal(dataset_part_layout(parts, 1)->streams[0].first_file, 1);
    assert_int_equal(dataset_part_layout(parts, 1)->streams[0].record_bytes, 4);
    munmap((void *)parts, 1 << 20);
    // The mix keeps its sources.
    struct dataset *kept = dataset_ref(datasets[0]);
    datasets_close(datasets, count, NULL);
    assert_int_equal(kept->sources[1]->references, 1);
    assert_int_equal(kept->sources[1]->layout->samples, 10);
    datasets_release(kept, NULL);
}

static uint64_t fingerprint_of(const char *text) {
    struct dataset **datasets;
    struct error error = {0};
    size_t count;
    if (open_text(text, &datasets, &count, &error))
        fail_msg("%s", error.text);
    uint64_t fingerprint = datasets[count - 1]->layout->fingerprint;
    datasets_close(datasets, count, NULL);
    return fingerprint;
}

// A token belongs to the data and its order, not to the weights or the names.
static void test_fingerprint(void **state) {
    (void)state;
    write_data();
    const uint64_t whole = fingerprint_of(A B V "[mix m]\nsource.v = 3\nsource.a = 1\n" EPOCH);
    assert_int_equal(fingerprint_of(A B V "[mix n]\nsource.v = 1\nsource.a = 5\n" EPOCH), whole);
    assert_int_not_equal(fingerprint_of(A B V "[mix m]\nsource.a = 3\nsource.v = 1\n" EPOCH), whole);
    assert_int_not_equal(fingerprint_of(A B V "[mix m]\nsource.v = 3\n" EPOCH), whole);
    assert_int_not_equal(fingerprint_of(A B V "[mix m]\nsource.v = 3\nsource.a = 1\nepoch_samples = 99\n"),
                         whole);
    write_file("a.bin", "another file of forty bytes, which is it", 40);
    assert_int_not_equal(fingerprint_of(A B V "[mix m]\nsource.v = 3\nsource.a = 1\n" EPOCH), whole);
}

static void check_differs(const char *other, const char *sentence) {
    char text[1000];
    struct dataset **datasets;
    struct error error = {0};
    size_t count;
    write_data();
    snprintf(text, sizeof text, A "%s[mix m]\nsource.a = 1\nsource.o = 1\n" EPOCH, other);
    assert_int_equal(open_text(text, &datasets, &count, &error), -EINVAL);
    if (!strstr(error.text, sentence) || !strstr(error.text, "[mix m] source.o: found"))
        fail_msg("\"%s\" is not in \"%s\"", sentence, error.text);
}

#define O "[dataset o]\nformat = records\npath = b.bin\nrecord_bytes = 6\n"

static void test_fields_that_differ(void **state) {
    (void)state;
    check_differs(O "field.y = u8[4] @ 0\n", "found field y, wanted field x as in source a");
    check_differs(O "field.x = i8[4] @ 0\n", "found field x of i8[4], wanted u8[4] as in source a");
    check_differs(O "field.x = u8[5] @ 0\n", "found field x of u8[5], wanted u8[4] as in source a");
    check_differs(O "field.x = u8[2,2] @ 0\n", "found field x of u8[2,2], wanted u8[4] as in source a");
    check_differs(O "field.x = u8[4] @ 0\ntransform.x = scale 2\n", "found field x of f32[4], wanted u8[4]");
    check_differs(O "field.x = u8[4] @ 0\nfield.z = u8 @ 4\n",
                  "found the field z, which source a does not have");
    check_differs(O "field.z = u8 @ 4\nfield.x = u8[4] @ 0\n",
                  "found field z, wanted field x as in source a");
}

static void test_fewer_fields(void **state) {
    (void)state;
    struct dataset **datasets;
    struct error error = {0};
    size_t count;
    write_data();
    assert_int_equal(
        open_text(A O "field.x = u8[4] @ 0\nfield.z = u8 @ 4\n[mix m]\nsource.o = 1\nsource.a = 1\n" EPOCH,
                  &datasets, &count, &error),
        -EINVAL);
    assert_non_null(strstr(error.text, "source.a: found no field z, which source o has"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_configuration),
        cmocka_unit_test(test_most_sources),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_fields_that_differ),
        cmocka_unit_test(test_fewer_fields),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
