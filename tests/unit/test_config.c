#include "tests/unit/source_fixture.h"

#include "base/error.h"
#include "daemon/config/config_options.h"
#include "daemon/config/config_print.h"
#include "daemon/config/config_values.h"
#include "daemon/io_mode.h"
#include "daemon/log.h"

static const char example[] =
    "# feedd.conf\n"
    "[feedd]\n"
    "socket = /run/feedd/feedd.sock\n"
    "socket_group = feed\n"
    "ring_memory = 4G            ; bound on all rings together: this is the memory that gets pinned\n"
    "loaders = 4                 ; loader processes per feed\n"
    "io = auto                   ; auto | uring | mapped | pread\n"
    "log_level = info\n"
    "\n"
    "[dataset fashion-mnist]     ; format idx: shape and dtype come from the file\n"
    "format = idx\n"
    "field.image = /data/fashion-mnist/train-images-idx3-ubyte\n"
    "field.label = /data/fashion-mnist/train-labels-idx1-ubyte\n"
    "\n"
    "[dataset cifar100]          ; fixed-size records, fields at byte offsets\n"
    "format = records\n"
    "path = /data/cifar-100-binary/train*.bin\n"
    "record_bytes = 3074\n"
    "field.label = u8 @ 1\n"
    "field.image = u8[3,32,32] @ 2\n"
    "transform.image = scale 1/255, mean 0.5  ; f32\n"
    "\n"
    "[dataset features]          ; NumPy files, one field each\n"
    "format = npy\n"
    "field.x = /data/x.npy\n"
    "field.y = /data/y.npy\n"
    "\n"
    "[dataset openwebtext]       ; flat token files; a sample is a window of length+1 tokens\n"
    "format = tokens\n"
    "path = /data/owt/train*.bin\n"
    "dtype = u16\n"
    "length = 1024\n";

static struct config *load_good(const char *text) {
    struct config *config;
    struct error error;
    if (load_text(text, &config, &error))
        fail_msg("%s", error.text);
    return config;
}

static void test_example(void **state) {
    (void)state;
    struct config *config = load_good(example);
    assert_string_equal(config->socket, "/run/feedd/feedd.sock");
    assert_string_equal(config->socket_group, "feed");
    assert_int_equal(config->ring_memory, 4ull << 30);
    assert_int_equal(config->loaders, 4);
    assert_int_equal(config->io, IO_AUTO);
    assert_int_equal(config->log_level, LOG_LEVEL_INFO);
    assert_int_equal(config->dataset_count, 4);
    assert_string_equal(config->folder, folder);

    const struct dataset_config *cifar = &config->datasets[1];
    assert_string_equal(cifar->name, "cifar100");
    assert_int_equal(cifar->line, 15);
    assert_string_equal(cifar->format, "records");
    assert_string_equal(cifar->path, "/data/cifar-100-binary/train*.bin");
    assert_int_equal(cifar->record_bytes, 3074);
    assert_int_equal(cifar->field_count, 2);
    assert_string_equal(cifar->fields[1].name, "image");
    assert_string_equal(cifar->fields[1].value, "u8[3,32,32] @ 2");
    assert_int_equal(cifar->fields[1].line, 20);
    assert_int_equal(cifar->transform_count, 1);
    assert_string_equal(cifar->transforms[0].name, "image");
    assert_string_equal(cifar->transforms[0].value, "scale 1/255, mean 0.5");
    assert_int_equal(cifar->transforms[0].line, 21);

    const struct dataset_config *text = &config->datasets[3];
    assert_string_equal(text->dtype, "u16");
    assert_int_equal(text->length, 1024);
    assert_int_equal(text->field_count, 0);
    config_free(config);
}

static void test_defaults(void **state) {
    (void)state;
    struct config *config = config_defaults();
    assert_non_null(config);
    assert_string_equal(config->socket, "/run/feedd/feedd.sock");
    assert_null(config->socket_group);
    assert_int_equal(config->socket_mode, 0660);
    assert_int_equal(config->ring_memory, 4ull << 30);
    assert_int_equal(config->ring, 0);
    assert_int_equal(config->loaders, 0);
    assert_int_equal(config->io, IO_AUTO);
    assert_int_equal(config->queue_depth, 256);
    assert_int_equal(config->log_level, LOG_LEVEL_INFO);
    assert_int_equal(config->max_lag_s, 300);
    assert_int_equal(config->linger_s, 60);
    assert_int_equal(config->loader_timeout_s, 30);
    assert_int_equal(config->stop_timeout_s, 10);
    assert_int_equal(config->user_sessions, 256);
    assert_int_equal(config->user_feeds, 0);
    assert_int_equal(config->user_ring_memory, 0);
    assert_int_equal(config->view_memory, 2ull << 30);
    assert_int_equal(config->user_view_memory, 0);
    assert_int_equal(config->cache_memory, 0);
    assert_int_equal(config->user_cache_memory, 0);
    assert_int_equal(config->user_device_memory, 0);
    assert_false(config->show_others);
    assert_int_equal(config->dataset_count, 0);
    config_free(config);
}

static void test_every_key(void **state) {
    (void)state;
    struct config *config =
        load_good("\xef\xbb\xbf[feedd]\r\n"
                  "\tsocket=/tmp/s\r\n"
                  "  socket_mode = 600\r\n"
                  "ring_memory = 2T\nring = 512K\nloaders = 64\nio = pread\nqueue_depth = 4096\n"
                  "log_level = debug\nmax_lag = 2m\nlinger = 1h\nloader_timeout = 45s\n"
                  "stop_timeout = 7\nuser_sessions = 1\nuser_feeds = 2\nuser_ring_memory = 1M\n"
                  "view_memory = 8M\nuser_view_memory = 3M\nuser_device_memory = 2M\nshow_others = yes\n"
                  "cache_memory = 6G\nuser_cache_memory = 5G\n"
                  "[ dataset  a.b_C-9 ]\nformat = tokens\npath = x\ndtype = i32\nlength = 8\n"
                  "header_bytes = 256\nio = uring\nio_direct = yes\nio_delay_us = 2000\n"
                  "on_error = skip\nshuffle_window = 16\nallow_users = 0, 12\nallow_groups = root 13 14\n"
                  "[dataset b] # comment\nformat=npy\nfield.x = y.npy\non_error = fail");
    assert_string_equal(config->socket, "/tmp/s");
    assert_int_equal(config->socket_mode, 0600);
    assert_int_equal(config->ring_memory, 2ull << 40);
    assert_int_equal(config->ring, 512 << 10);
    assert_int_equal(config->loaders, 64);
    assert_int_equal(config->io, IO_PREAD);
    assert_int_equal(config->queue_depth, 4096);
    assert_int_equal(config->log_level, LOG_LEVEL_DEBUG);
    assert_int_equal(config->max_lag_s, 120);
    assert_int_equal(config->linger_s, 3600);
    assert_int_equal(config->loader_timeout_s, 45);
    assert_int_equal(config->stop_timeout_s, 7);
    assert_int_equal(config->user_sessions, 1);
    assert_int_equal(config->user_feeds, 2);
    assert_int_equal(config->user_ring_memory, 1 << 20);
    assert_int_equal(config->view_memory, 8 << 20);
    assert_int_equal(config->user_view_memory, 3 << 20);
    assert_int_equal(config->user_device_memory, 2 << 20);
    assert_int_equal(config->cache_memory, 6ull << 30);
    assert_int_equal(config->user_cache_memory, 5ull << 30);
    assert_true(config->show_others);
    const struct dataset_config *dataset = &config->datasets[0];
    assert_string_equal(dataset->name, "a.b_C-9");
    assert_int_equal(dataset->header_bytes, 256);
    assert_int_equal(dataset->io, IO_URING);
    assert_true(dataset->io_set && dataset->io_direct && dataset->on_error);
    assert_int_equal(dataset->io_delay_us, 2000);
    assert_int_equal(dataset->shuffle_window, 16);
    assert_int_equal(config->datasets[1].shuffle_window, 0);
    assert_string_equal(dataset->allow_users, "0, 12");
    assert_int_equal(dataset->users.count, 2);
    assert_int_equal(dataset->users.ids[1], 12);
    assert_int_equal(dataset->groups.count, 3);
    assert_int_equal(dataset->groups.ids[0], 0);
    assert_int_equal(config->datasets[1].users.count + config->datasets[1].groups.count, 0);
    assert_int_equal(config->datasets[1].io, IO_PREAD); // from [feedd]
    assert_false(config->datasets[1].io_set || config->datasets[1].on_error || config->datasets[1].io_direct);
    config_free(config);
}

static void test_too_many_fields(void **state) {
    (void)state;
    char text[1024] = "[dataset x]\nformat = npy\n";
    for (int i = 0; i < 17; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "field.f%d = x\n", i);
    struct config *config;
    struct error error;
    assert_int_equal(load_text(text, &config, &error), -EINVAL);
    assert_non_null(
        strstr(error.text, ":19: [dataset x] field.f16: found too many fields, wanted at most 16"));
}

// A value comes through whole up to the last byte that a line may have, and is never cut. Comments count, too.
static void test_long_lines(void **state) {
    (void)state;
    static char text[20000];
    const int most = 8192 - (int)strlen("field.a = ");
    snprintf(text, sizeof text, "# %08190d\n[dataset x]\nformat = npy\n    field.a = %0*d  \r\n", 1, most, 7);
    struct config *config = load_good(text);
    assert_int_equal(strlen(config->datasets[0].fields[0].value), most);
    assert_int_equal(config->datasets[0].fields[0].value[most - 1], '7');
    config_free(config);
    struct error error;
    snprintf(text, sizeof text, "[dataset x]\nformat = npy\nfield.a = %0*d\n", most + 1, 7);
    assert_int_equal(load_text(text, &config, &error), -EINVAL);
    assert_non_null(strstr(error.text, ":3: found a line of 8193 bytes, wanted at most 8192"));
    snprintf(text, sizeof text, "[dataset x]\nformat = npy\nfield.a = x\n\n\t %0*d\n", 8193, 7);
    assert_int_equal(load_text(text, &config, &error), -EINVAL);
    assert_non_null(strstr(error.text, ":5: found a line of 8193 bytes, wanted at most 8192"));
}

// Indented lines continue a value, with one blank in between. Each may have a comment; comments and blank lines between
// them do not matter. What has a key is a line of its own, indented or not.
static void test_continued_values(void **state) {
    (void)state;
    struct config *config = load_good("[dataset x]\n"
                                      "format = npy\n"
                                      "transform.a = scale 1/255, ; to 0..1\n"
                                      "    mean 0.485 0.456 0.406,  \r\n"
                                      "\r\n"
                                      "; shift 3,\n"
                                      "    # shift 4,\n"
                                      "\tstd 0.229 0.224 0.225,\n"
                                      "        ; shift 5: not this\n"
                                      "  cast f16\n"
                                      "  transform.b =\n"
                                      "  cast\n"
                                      " f32 ; and so on = x\n"
                                      "  field.a = x ; one\n"
                                      "field.b: y;z\n"
                                      "  [dataset y]\n"
                                      "format = npy\n"
                                      "field.a = x\n"
                                      "    y");
    const struct dataset_config *dataset = config->datasets;
    assert_int_equal(config->dataset_count, 2);
    assert_int_equal(dataset->transform_count, 2);
    assert_string_equal(dataset->transforms[0].value,
                        "scale 1/255, mean 0.485 0.456 0.406, std 0.229 0.224 0.225, cast f16");
    assert_int_equal(dataset->transforms[0].line, 3);
    assert_string_equal(dataset->transforms[1].value, "cast f32");
    assert_int_equal(dataset->transforms[1].line, 11);
    assert_int_equal(dataset->field_count, 2);
    assert_string_equal(dataset->fields[0].value, "x");
    assert_string_equal(dataset->fields[1].value, "y;z");
    assert_int_equal(dataset->fields[1].line, 15);
    assert_string_equal(config->datasets[1].fields[0].value, "x y");
    config_free(config);
}

static void expect_unreadable(const char *path, int code, const char *part) {
    struct config *config;
    struct error error = {0};
    assert_int_equal(config_load(path, &config, &error), code);
    assert_null(config);
    if (!strstr(error.text, part) || !strstr(error.text, path))
        fail_msg("%s: %s", path, error.text);
}

static void test_unreadable(void **state) {
    (void)state;
    expect_unreadable("/nonexistent/feedd.conf", -ENOENT, "cannot be opened: No such file or directory");
    expect_unreadable(folder, -EISDIR, "cannot be read: Is a directory");
    write_file("nul.conf", "[feedd]\n\0\n", 10);
    expect_unreadable(path_in_folder("nul.conf"), -EINVAL, "found a NUL byte, wanted text");
    write_pattern("large.conf", (4u << 20) + 1, 1);
    expect_unreadable(path_in_folder("large.conf"), -EFBIG, "found more than 4194304 bytes");
    assert_int_equal(config_load("/nonexistent/feedd.conf", &(struct config *){NULL}, NULL), -ENOENT);
}

static void test_empty(void **state) {
    (void)state;
    struct config *config = load_good("");
    assert_int_equal(config->dataset_count, 0);
    config_free(config);
}

// Formats are named in the table and in source.c.
static void test_formats_agree(void **state) {
    (void)state;
    const struct config_option *option = option_find(SECTION_DATASET, "format");
    char name[32];
    uint64_t count = 0;
    for (;; count++) {
        value_choice_name(option->unit, count, name, sizeof name);
        if (strcmp(name, "?") == 0)
            break;
        assert_non_null(source_find_format(name));
        assert_string_equal(source_find_format(name)->name, name);
    }
    assert_int_equal(count, 10);
    for (uint32_t mode = 0; mode < 4; mode++)
        assert_string_equal(
            value_choice_name(option_find(SECTION_FEEDD, "io")->unit, mode, name, sizeof name),
            io_mode_name(mode));
}

static void test_print(void **state) {
    (void)state;
    AUTO_FREE char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    config_print_options(out);
    fputs("\n-- man --\n", out);
    config_print_options_man(out);
    fclose(out);
    char *man = strstr(text, "-- man --");
    assert_non_null(man);
    *man++ = '\0';
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        char line[256];
        snprintf(line, sizeof line, "    %s = %s\n", config_options[i].key, config_options[i].default_text);
        assert_non_null(strstr(text, line));
        snprintf(line, sizeof line, "\\fB%s\\fR", config_options[i].key);
        assert_non_null(strstr(man, line));
    }
    assert_non_null(strstr(text, "        Wanted: one of auto, uring, mapped, pread.\n"));
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
        assert_in_range(strcspn(line, "\n"), 0, 100);
        if (!strchr(line, '\n'))
            break;
    }
}

static void test_values(void **state) {
    (void)state;
    char text[VALUE_TEXT];
    assert_string_equal(value_format_size(0, text), "0");
    assert_string_equal(value_format_size(1500, text), "1500");
    assert_string_equal(value_format_size(3ull << 30, text), "3G");
    assert_string_equal(value_format_size(1ull << 50, text), "1024T");
    uint64_t value;
    assert_true(value_parse_size("16777215T", &value));
    assert_int_equal(value, 16777215ull << 40);
    assert_false(value_parse_size("16777216T", &value));
    assert_true(value_parse_integer("18446744073709551615", &value));
    assert_false(value_parse_integer("18446744073709551616", &value));
    assert_false(value_parse_choice("", "a||b", &value));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example),       cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_key),     cmocka_unit_test(test_too_many_fields),
        cmocka_unit_test(test_long_lines),    cmocka_unit_test(test_continued_values),
        cmocka_unit_test(test_unreadable),    cmocka_unit_test(test_empty),
        cmocka_unit_test(test_formats_agree), cmocka_unit_test(test_print),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
