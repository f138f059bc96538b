// Views that share the files of their dataset, and otherwise equal views that open the files themselves.
#include <sys/mman.h>
#include <unistd.h>

#include "base/sizes.h"
#include "daemon/dataset/size_table.h"
#include "daemon/source/build/builder_base.h"
#include "daemon/supervisor/datasets.h"
#include "tests/unit/source_fixture.h"

#define RECORDS "[dataset d]\nformat = records\npath = r?.bin\nrecord_bytes = 8\nfield.x = u8[6] @ 2\n"
#define RAGGED  "[dataset d]\nformat = records\npath = r?.bin\noffsets = o?.npy\nfield.x = u8\n"
#define PACKED                                                                                               \
    "[dataset d]\nformat = tokens\ndtype = u16\npath = r?.bin\noffsets = o?.npy\npack = 10\ncu_seqlens = "   \
    "yes\n"
#define FOLDER                                                                                               \
    "[dataset d]\nformat = folder\npath = tree\nfield.file = bytes\nfield.class = u8\nfield.name = bytes\n"
#define PIXELS "[dataset d]\nformat = records\npath = r?.bin\nrecord_bytes = 50\nfield.x = u8[4,4,3] @ 0\n"

// A dataset, and the options of its view.
static const struct {
    const char *dataset, *view;
} cases[] = {
    {RECORDS, ""},
    {RECORDS, "samples = 10%..50%\ntransform.x = scale 0.5, cast f32\n"},
    {RECORDS "transform.x = cast f32\n", "split_seed = 3\nsamples = ..20\n"},
    {RECORDS "transform.x = cast f32\n", "transform.x = cast f16\n"},
    {RECORDS "io_direct = yes\n", "samples = 1..\n"},
    {RECORDS "shuffle_window = 1\n", "samples = 5..\n"},
    {RECORDS, "shuffle_window = 2\n"},
    {RECORDS "shuffle_window = 1\n", "shuffle_window = 0\n"},
    {PIXELS "transform.x = center_crop 2\n", "transform.x = flip 0.5, cast f32\n"},
    {RAGGED, ""},
    {RAGGED, "samples = 3..9\npad.x = 7 1\n"},
    {RAGGED "pad.x = 7 1\n", "samples = 3..9\n"},
    {RAGGED "pad.x = 7 1\n", "pad.x = 70\ntransform.x = cast f32\n"},
    {RAGGED "pad.x = 7 1\ntransform.x = cast f32\n", "pad.x = 5 4\n"},
    {RAGGED, "shuffle_window = 1\n"},
    {PACKED, "samples = 1..\n"},
    {PACKED, "pad.cu_seqlens = 8 -1\n"},
    {PACKED "pad.cu_seqlens = 8 -1\n", "pad.cu_seqlens = 4\n"},
    {FOLDER, "split_seed = 1\n"},
    {FOLDER, "pad.file = 10\n"},
    {FOLDER "pad.name = 3\n", "pad.file = 10\npad.name = 5 7\n"},
};

static void write_offsets(const char *name, uint64_t count, uint64_t step) {
    static const uint8_t head[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
    char npy[128 + 8 * 64];
    uint64_t *offsets = (uint64_t *)(void *)(npy + 128);
    memset(npy, ' ', 128);
    memcpy(npy, head, sizeof head);
    npy[10 + snprintf(npy + 10, 118, "{'descr': '<i8', 'fortran_order': False, 'shape': (%d,), }",
                      (int)count)] = ' ';
    npy[127] = '\n';
    for (uint64_t i = 0; i < count; i++)
        offsets[i] = i * step + (i % 3 == 1);
    offsets[count - 1] = (count - 1) * step;
    write_file(name, npy, 128 + 8 * count);
}

static int make_files(void **state) {
    if (make_folder(state))
        return -1;
    write_pattern("r1.bin", 400, 1);
    write_pattern("r2.bin", 800, 2);
    write_offsets("o1.npy", 21, 10);
    write_offsets("o2.npy", 41, 10);
    for (unsigned i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "tree");
        mkdir(path_in_folder(name), 0755);
        snprintf(name, sizeof name, "tree/c%u", i);
        mkdir(path_in_folder(name), 0755);
        for (unsigned k = 0; k < 5; k++) {
            snprintf(name, sizeof name, "tree/c%u/f%u", i, k);
            write_pattern(name, (size_t)7 * k + i, 5 * i + k);
        }
    }
    return 0;
}

static void compare_memory(int left, int right, uint64_t bytes) {
    AUTO_FREE uint8_t *both = calloc(2, bytes + 1);
    assert_int_equal(left < 0, right < 0);
    if (left < 0 || !bytes)
        return;
    assert_int_equal(pread(left, both, bytes, 0), bytes);
    assert_int_equal(pread(right, both + bytes, bytes, 0), bytes);
    assert_memory_equal(both, both + bytes, bytes);
}

static void compare_fields(const struct dataset *shared, const struct dataset *own) {
    for (uint32_t i = 0; i < RING_MAX_FIELDS; i++) {
        assert_true(!shared->transforms[i] == !own->transforms[i] && !shared->sizes[i] == !own->sizes[i] &&
                    !shared->size_tables[i] == !own->size_tables[i]);
        if (own->transforms[i])
            assert_string_equal(shared->transforms[i], own->transforms[i]);
        if (own->sizes[i])
            assert_memory_equal(shared->sizes[i], own->sizes[i], sizeof *own->sizes[i]);
        for (uint64_t k = 0; own->size_tables[i] && k < dataset_stored_samples(own->layout); k++)
            assert_int_equal(size_table_get(shared->size_tables[i], k),
                             size_table_get(own->size_tables[i], k));
    }
}

static void compare(const struct dataset *shared, const struct dataset *own) {
    const struct dataset_layout *layout = own->layout;
    assert_int_equal(shared->layout->bytes, layout->bytes);
    assert_int_equal(shared->layout->fingerprint, layout->fingerprint);
    assert_memory_equal(shared->layout, layout, layout->bytes);
    assert_string_equal(shared->of, own->of);
    assert_true(!shared->index == !own->index && shared->io == own->io &&
                shared->io_direct == own->io_direct);
    compare_fields(shared, own);
    compare_memory(shared->index_fd, own->index_fd, layout->index_bytes);
    compare_memory(shared->list_fd, own->list_fd, sizeof(struct dataset_list) + dataset_list_bytes(layout));
}

static void check_shares(const struct dataset *view, const struct dataset *base) {
    assert_true(view->base == base && view->fds == base->fds && view->paths == base->paths &&
                view->index_fd == base->index_fd && !view->brought);
    for (uint32_t i = 0; i < view->layout->field_count; i++)
        if (view->layout->fields[i].ragged && base->layout->fields[i].ragged)
            assert_true(view->sizes[i] == base->sizes[i] && view->size_tables[i] == base->size_tables[i] &&
                        view->index == base->index);
}

// The view's section precedes its dataset's.
static void test_views_are_the_same(void **state) {
    (void)state;
    const uint32_t before = count_descriptors();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[1000];
        struct config *config;
        struct error error;
        struct dataset **opened, *own;
        snprintf(text, sizeof text, "[view v]\nof = d\n%s%s", cases[i].view, cases[i].dataset);
        if (load_text(text, &config, &error) || datasets_open(config, &opened, NULL, &error) ||
            source_open_dataset(&config->datasets[0], &own, &error))
            fail_msg("%s%s", text, error.text);
        check_shares(opened[0], opened[1]);
        compare(opened[0], own);
        dataset_unref(own);
        // The view is still in use after the configuration has changed, as by a feed.
        struct dataset *kept = dataset_ref(opened[0]);
        datasets_close(opened, 2, NULL);
        assert_true(fcntl(kept->fds[0], F_GETFD) >= 0);
        datasets_release(kept, NULL);
        config_free(config);
        assert_int_equal(count_descriptors(), before);
    }
}

static const struct {
    const char *dataset, *view, *sentence;
} wrong[] = {
    {RECORDS, "samples = 5000..\n", "[view v] samples: found \"5000..\""},
    {RAGGED, "pad.y = 4\n", "[view v] pad.y: found no field of that name with samples of different lengths"},
    {FOLDER, "pad.class = 4\n", "[view v] pad.class: found no field of that name with samples of different"},
    {RAGGED, "pad.x = 4 -1\n", "[view v] pad.x: found \"4 -1\", wanted a LENGTH"},
    {RAGGED, "transform.x = cast f32\n", "[view v] transform.x: found a ragged field"},
};

static void test_views_that_are_wrong(void **state) {
    (void)state;
    const uint32_t before = count_descriptors();
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[1000];
        struct config *config;
        struct error error;
        struct dataset **opened;
        snprintf(text, sizeof text, "%s[view v]\nof = d\n%s", wrong[i].dataset, wrong[i].view);
        assert_int_equal(load_text(text, &config, &error), 0);
        assert_true(datasets_open(config, &opened, NULL, &error) < 0);
        if (!strstr(error.text, wrong[i].sentence))
            fail_msg("%s  gave    %s\n  wanted  %s", text, error.text, wrong[i].sentence);
        config_free(config);
        assert_int_equal(count_descriptors(), before);
    }
}

// The dataset has groups even without a shuffle_window; its view must be told how many there are.
static void test_more_groups_than_are_kept(void **state) {
    (void)state;
    const uint64_t many = UINT64_C(1) << 40;
    const struct dataset_config config = {0};
    struct error error = {0};
    char name[] = "d";
    struct dataset base = {
        .references = 1, .name = name, .index_fd = -1, .layout = calloc(1, sizeof *base.layout)};
    struct dataset *view = calloc(1, sizeof *view);
    assert_true(base.layout && view);
    *view = (struct dataset){.references = 1, .list_fd = -1, .parts_fd = -1};
    struct builder builder = {.config = &config, .dataset = &base, .error = &error, .group_count = many};
    builder.groups = calloc(WINDOW_MAX_GROUPS, sizeof *builder.groups);
    assert_non_null(builder.groups);
    builder.groups[WINDOW_MAX_GROUPS - 1] = 7;
    assert_int_equal(builder_keep_stored(&builder), 0);
    struct builder of_view = {.config = &config, .dataset = view, .error = &error};
    assert_int_equal(builder_base(&of_view, &base), 0);
    assert_int_equal(of_view.group_count, many);
    assert_int_equal(of_view.groups[WINDOW_MAX_GROUPS - 1], 7);
    free(of_view.groups);
    free(builder.groups);
    dataset_unref(view);
    assert_int_equal(base.references, 1);
    free(base.stored);
    free(base.layout);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views_are_the_same),
        cmocka_unit_test(test_views_that_are_wrong),
        cmocka_unit_test(test_more_groups_than_are_kept),
    };
    return cmocka_run_group_tests(tests, make_files, remove_folder);
}
