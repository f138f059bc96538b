// The groups of a client, as the kernel knows them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <grp.h>
#include <sys/socket.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/supervisor/clients/peer_groups.h"

static void they_are_those_of_the_process(void **state) {
    (void)state;
    int ends[2];
    gid_t mine[1024];
    int count = getgroups(COUNT_OF(mine), mine);
    struct peer_groups groups = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    peer_groups_read(&groups, ends[0]);
    assert_true(groups.known);
    assert_int_equal(groups.count, count);
    for (size_t i = 0; i < groups.count; i++)
        assert_int_equal(groups.ids[i], mine[i]);
    const gid_t *before = groups.ids;
    peer_groups_read(&groups, ends[0]); // they do not change
    assert_ptr_equal(groups.ids, before);
    peer_groups_free(&groups);
    close_fd(&ends[0]);
    close_fd(&ends[1]);
}

// More than a small buffer holds, and none.
static void as_many_as_there_are(void **state) {
    (void)state;
    gid_t before[1024], many[500];
    int count = getgroups(COUNT_OF(before), before);
    if (geteuid() != 0) {
        print_message("skip: only root can change its groups\n");
        skip();
    }
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = (gid_t)(5000 + i);
    for (size_t wanted = 0; wanted <= COUNT_OF(many); wanted += COUNT_OF(many)) {
        struct peer_groups groups = {0};
        int ends[2];
        assert_int_equal(setgroups(wanted, many), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        peer_groups_read(&groups, ends[1]);
        assert_int_equal(groups.count, wanted);
        if (wanted)
            assert_memory_equal(groups.ids, many, sizeof many);
        peer_groups_free(&groups);
        close_fd(&ends[0]);
        close_fd(&ends[1]);
    }
    assert_int_equal(setgroups((size_t)count, before), 0);
}

// Only the primary group counts then, which SO_PEERCRED reports.
static void no_socket_has_none(void **state) {
    (void)state;
    struct peer_groups groups = {0};
    peer_groups_read(&groups, -1);
    assert_true(groups.known);
    assert_int_equal(groups.count, 0);
    peer_groups_free(&groups);
    assert_false(groups.known);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_those_of_the_process),
        cmocka_unit_test(as_many_as_there_are),
        cmocka_unit_test(no_socket_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
