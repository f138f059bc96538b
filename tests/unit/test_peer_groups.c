// The groups of a client, as the kernel knows them.
#include <errno.h>
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
#include "daemon/supervisor/clients/admission.h"

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

// Which of the next calls of each fails for want of memory, counted from 1; 0: none.
static uint32_t failing_malloc, failing_call;

static const gid_t many[] = {7, 8, 9};
static bool has_many; // what the kernel says of every socket

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
int __real_getsockopt(int socket, int level, int option, void *value, socklen_t *bytes);
int __wrap_getsockopt(int socket, int level, int option, void *value, socklen_t *bytes);

// The linker puts each __wrap_ function in place of the C library's.
void *__wrap_malloc(size_t bytes) {
    return failing_malloc && --failing_malloc == 0 ? NULL : __real_malloc(bytes);
}

int __wrap_getsockopt(int socket, int level, int option, void *value, socklen_t *bytes) {
    if (!has_many)
        return __real_getsockopt(socket, level, option, value, bytes);
    errno = failing_call && --failing_call == 0 ? ENOMEM : *bytes < sizeof many ? ERANGE : 0;
    *bytes = sizeof many;
    if (!errno)
        memcpy(value, many, sizeof many);
    return errno ? -1 : 0;
}

// The client has them the next time.
static void a_lack_of_memory_passes(void **state) {
    (void)state;
    has_many = true;
    for (uint32_t i = 0; i < 3; i++) {
        struct peer_groups groups = {0};
        failing_malloc = i == 0;
        failing_call = i;
        peer_groups_read(&groups, -1);
        assert_int_equal(failing_malloc + failing_call, 0);
        assert_int_equal(groups.count, 0);
        assert_int_equal(groups.lack, -ENOMEM);
        peer_groups_read(&groups, -1);
        assert_int_equal(groups.lack, 0);
        assert_int_equal(groups.count, COUNT_OF(many));
        assert_memory_equal(groups.ids, many, sizeof many);
        peer_groups_free(&groups);
    }
    has_many = false;
}

// A client that waits for the daemon tries again after -ENOMEM, and not after -EACCES.
static void a_lack_of_memory_is_not_a_refusal(void **state) {
    id_t allowed[] = {9};
    struct dataset_config of = {.name = (char *)"numbers", .groups = {allowed, 1}};
    struct config configuration = {.datasets = &of, .dataset_count = 1};
    struct dataset served = {0}, *datasets[] = {&served};
    struct supervisor supervisor = {.config = &configuration, .datasets = datasets, .dataset_count = 1};
    struct session session = {.supervisor = &supervisor, .peer = {.uid = 5, .gid = 6}, .fd = -1};
    const struct dataset *found = NULL;
    struct error error = {0};
    (void)state;
    has_many = true;
    failing_malloc = 1;
    assert_int_equal(admission_find(&session, "numbers", &found, &error), -ENOMEM);
    assert_non_null(strstr(error.text, "your groups cannot be read"));
    assert_int_equal(admission_find(&session, "numbers", &found, &error), 0);
    assert_ptr_equal(found, &served);
    allowed[0] = 10;
    assert_int_equal(admission_find(&session, "numbers", &found, &error), -EACCES);
    peer_groups_free(&session.groups);
    has_many = false;
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
        cmocka_unit_test(a_lack_of_memory_passes),
        cmocka_unit_test(a_lack_of_memory_is_not_a_refusal),
        cmocka_unit_test(no_socket_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
