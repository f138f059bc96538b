#include "tests/unit/source_fixture.h"

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/config/config_changes.h"

#define LISTENING "/run/feedd/feedd.sock"
#define NUMBERS   "[dataset numbers]\nformat = records\npath = /d/x\nrecord_bytes = 8\nfield.x = u8[8] @ 0\n"

static struct config *load_good(const char *text) {
    struct config *config;
    struct error error;
    if (load_text(text, &config, &error))
        fail_msg("%s", error.text);
    return config;
}

// What a reload from one text to the other says.
static void check(const char *before, const char *after, const char *listening_on, size_t count,
                  const char *wanted) {
    char text[4096];
    struct config *old = load_good(before), *new = load_good(after);
    struct change_lines lines = {.text = text, .bytes = sizeof text};
    config_describe_changes(old, new, listening_on, &lines);
    change_lines_end(&lines);
    assert_int_equal(lines.count, count);
    assert_string_equal(text, wanted);
    config_free(old);
    config_free(new);
}

static void test_nothing(void **state) {
    (void)state;
    check("", "", LISTENING, 0, "");
    check("[feedd]\nloaders = auto\n" NUMBERS, "[feedd]\n" NUMBERS "# a comment\n", LISTENING, 0, "");
}

static void test_options(void **state) {
    (void)state;
    check(
        "", "[feedd]\nloaders = 2\nring_memory = 1G\nlinger = 2m\nio = mapped\n", LISTENING, 4,
        "ring_memory = 1G (was 4G)\nloaders = 2 (was auto)\nio = mapped (was auto)\nlinger = 120s (was 60s)");
}

// The socket that counts is the one listened on, however often the option has changed since.
static void test_socket(void **state) {
    (void)state;
    const char *warning = "warning: socket = /c takes effect after a restart; still listening on /a";
    check("[feedd]\nsocket = /a\n", "[feedd]\nsocket = /c\n", "/a", 1, warning);
    check("[feedd]\nsocket = /b\n", "[feedd]\nsocket = /c\n", "/a", 1, warning);
    check("[feedd]\nsocket = /c\n", "[feedd]\nsocket = /c\n", "/a", 1, warning);
    check("[feedd]\nsocket = /b\n", "[feedd]\nsocket = /a\n", "/a", 0, "");
}

static void test_what_needs_a_restart_comes_first(void **state) {
    (void)state;
    check("", "[feedd]\nloaders = 2\nsocket_group = feed\nsocket_mode = 0600\n", LISTENING, 3,
          "warning: socket_group = feed (was (unset)) takes effect after a restart\n"
          "warning: socket_mode = 0600 (was 0660) takes effect after a restart\n"
          "loaders = 2 (was auto)");
}

static void test_datasets(void **state) {
    (void)state;
    const char *others = "[dataset others]\nformat = npy\nfield.x = /d/x.npy\n";
    char both[512];
    snprintf(both, sizeof both, "%s%s", NUMBERS, others);
    check(NUMBERS, both, LISTENING, 1, "dataset others: added");
    check(both, NUMBERS, LISTENING, 1, "dataset others: removed; feeds in use continue");
    check(NUMBERS, others, LISTENING, 2,
          "dataset others: added\ndataset numbers: removed; feeds in use continue");
}

static void test_datasets_that_change(void **state) {
    (void)state;
    static const struct {
        const char *after, *difference;
    } cases[] = {
        {NUMBERS "on_error = skip\n", "on_error"},
        {NUMBERS "header_bytes = 4\n", "header_bytes"},
        {NUMBERS "shuffle_window = 4\n", "shuffle_window"},
        {NUMBERS "io = pread\n", "io"},
        {NUMBERS "field.y = u8 @ 0\n", "fields"},
        {NUMBERS "transform.x = scale 2\n", "transforms"},
        {"[dataset numbers]\nformat = records\npath = /d/x\nrecord_bytes = 8\nfield.x = i8[8] @ 0\n",
         "fields"},
        {"[dataset numbers]\nformat = npy\nfield.x = /d/x\n", "format"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char wanted[256];
        snprintf(wanted, sizeof wanted, "dataset numbers: changed (%s); feeds in use keep the old version",
                 cases[i].difference);
        check(NUMBERS, cases[i].after, LISTENING, 1, wanted);
    }
}

static void test_access(void **state) {
    (void)state;
    const char *users = "dataset numbers: changed (allow_users); consumers that are attached stay";
    check(NUMBERS, NUMBERS "allow_users = root\n", LISTENING, 1, users);
    check(NUMBERS "allow_users = root\n", NUMBERS, LISTENING, 1, users);
    check(NUMBERS "allow_users = 0\nallow_groups = 5\n", NUMBERS "allow_groups = 6\nallow_users = 0\n",
          LISTENING, 1, "dataset numbers: changed (allow_groups); consumers that are attached stay");
    char both[256];
    snprintf(both, sizeof both, "dataset numbers: changed (io); feeds in use keep the old version\n%s",
             users);
    check(NUMBERS, NUMBERS "io = pread\nallow_users = 5\nallow_groups = 5\n", LISTENING, 2, both);
}

static void test_more_than_fits(void **state) {
    (void)state;
    char text[200], many[4096] = "";
    for (size_t i = 0, used = 0; i < 40; i++)
        used += (size_t)snprintf(many + used, sizeof many - used,
                                 "[dataset d%02zu]\nformat = npy\nfield.x = /x\n", i);
    struct config *old = load_good(""), *new = load_good(many);
    for (size_t bytes = 0; bytes <= sizeof text; bytes++) {
        memset(text, '!', sizeof text);
        struct change_lines lines = {.text = text, .bytes = bytes};
        config_describe_changes(old, new, LISTENING, &lines);
        change_lines_end(&lines);
        assert_int_equal(lines.count, 40);
        assert_true(bytes == 0 || memchr(text, '\0', bytes));
        for (size_t i = bytes; i < sizeof text; i++)
            assert_int_equal(text[i], '!');
    }
    assert_string_equal(text,
                        "dataset d00: added\ndataset d01: added\ndataset d02: added\ndataset d03: added\n"
                        "dataset d04: added\ndataset d05: added\ndataset d06: added\ndataset d07: added\n"
                        "... and 32 more");
    config_free(old);
    config_free(new);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),  cmocka_unit_test(test_options),
        cmocka_unit_test(test_socket),   cmocka_unit_test(test_what_needs_a_restart_comes_first),
        cmocka_unit_test(test_datasets), cmocka_unit_test(test_datasets_that_change),
        cmocka_unit_test(test_access),   cmocka_unit_test(test_more_than_fits),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
