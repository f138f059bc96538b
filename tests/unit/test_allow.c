// Who may use a dataset: lists of names and numbers, and the decision.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "daemon/config/allow.h"

static void resolves(enum allow_kind kind, const char *text, const id_t *wanted, size_t count) {
    struct allow_list list = {0};
    struct error error = {0};
    if (allow_list_resolve(kind, text, &list, &error))
        fail_msg("%s: %s", text, error.text);
    assert_int_equal(list.count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(list.ids[i], wanted[i]);
    allow_list_free(&list);
}

static void refuses(enum allow_kind kind, const char *text, const char *sentence) {
    struct allow_list list = {0};
    struct error error = {0};
    assert_int_equal(allow_list_resolve(kind, text, &list, &error), -EINVAL);
    assert_string_equal(error.text, sentence);
    assert_null(list.ids);
    assert_int_equal(list.count, 0);
}

static void names_and_numbers(void **state) {
    (void)state;
    for (enum allow_kind kind = ALLOW_USERS; kind <= ALLOW_GROUPS; kind++) {
        resolves(kind, "root", (id_t[]){0}, 1);
        resolves(kind, "1000", (id_t[]){1000}, 1); // whether or not there is such an entry
        resolves(kind, " 7,root ,\t8 9,", (id_t[]){7, 0, 8, 9}, 4);
        resolves(kind, "4294967294", (id_t[]){4294967294u}, 1);
    }
}

static void what_is_none(void **state) {
    (void)state;
    refuses(ALLOW_USERS, "root, nobody-by-this-name",
            "found \"nobody-by-this-name\", wanted the name or number of a user of this machine");
    refuses(ALLOW_GROUPS, "no-such-group root",
            "found \"no-such-group\", wanted the name or number of a group of this machine");
    refuses(ALLOW_USERS, "4294967295", "found \"4294967295\", wanted a number of at most 4294967294");
    refuses(ALLOW_USERS, "-1", "found \"-1\", wanted the name or number of a user of this machine");
    for (size_t i = 0; i < 3; i++)
        refuses(ALLOW_GROUPS, ((const char *[]){"", ",", " ,\t, "})[i], "found no name, wanted at least one");
}

static void a_name_that_is_too_long(void **state) {
    (void)state;
    char text[300];
    memset(text, 'x', sizeof text);
    text[256] = '\0';
    refuses(ALLOW_USERS, text, "found a name of 256 bytes, wanted at most 255");
}

static void who_is_let_in(void **state) {
    (void)state;
    static const struct {
        const char *users, *groups;
        bool permitted;
    } cases[] = {
        {NULL, NULL, true}, // everybody
        {"100", NULL, true},  {"5, 100", NULL, true}, {"101", NULL, false}, {"200", NULL, false},
        {NULL, "200", true},  {NULL, "301", true},    {NULL, "302", true},  {NULL, "100", false},
        {NULL, "303", false}, {"101", "302", true},   {"100", "999", true}, {"101", "999", false},
    };
    const gid_t groups[] = {301, 302};
    const struct identity identity = {.user = 100, .group = 200, .groups = groups, .group_count = 2};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct allow_list users = {0}, allowed_groups = {0};
        if (cases[i].users)
            assert_int_equal(allow_list_resolve(ALLOW_USERS, cases[i].users, &users, NULL), 0);
        if (cases[i].groups)
            assert_int_equal(allow_list_resolve(ALLOW_GROUPS, cases[i].groups, &allowed_groups, NULL), 0);
        if (allow_permits(&users, &allowed_groups, &identity) != cases[i].permitted)
            fail_msg("case %zu", i);
        allow_list_free(&users);
        allow_list_free(&allowed_groups);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers),
        cmocka_unit_test(what_is_none),
        cmocka_unit_test(a_name_that_is_too_long),
        cmocka_unit_test(who_is_let_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
