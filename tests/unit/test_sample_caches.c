// A cache of decoded images that could not be made for want of descriptors is made for the next feed of its dataset,
// while the first feed still exists.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/feeds/sample_caches.h"

static uv_loop_t loop;
static struct config config;
static struct supervisor supervisor;
static struct dataset_layout layout;
static struct dataset dataset, *datasets[] = {&dataset};
static struct served_feed first, second;
static char folder[] = "/tmp/feedd-caches-XXXXXX";

static void set_up(char *cache_path) {
    config = (struct config){.cache_memory = 64u << 20, .loader_timeout_s = 60};
    supervisor = (struct supervisor){0};
    supervisor_init(&supervisor, &config);
    supervisor.own_closer = closer_open();
    supervisor.datasets = datasets;
    supervisor.dataset_count = 1;
    layout = (struct dataset_layout){.samples = 16};
    layout.cache.bytes = 1u << 20;
    layout.cache.fields = 1;
    dataset =
        (struct dataset){.name = (char *)(uintptr_t) "images", .layout = &layout, .cache_path = cache_path};
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(poll_set_open(&supervisor.poll_set, &loop), 0);
}

static void tear_down(void) {
    sample_caches_end(&first);
    sample_caches_end(&second);
    sample_caches_leave(&supervisor);
    poll_set_close(&supervisor.poll_set);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    closer_leave(supervisor.own_closer);
}

static void begin(struct served_feed *feed) {
    *feed = (struct served_feed){.supervisor = &supervisor, .dataset = &dataset, .user = geteuid()};
    sample_caches_begin(feed);
    while (!sample_caches_are_ready(feed, 0))
        uv_run(&loop, UV_RUN_ONCE);
}

// `spare` descriptors can be opened meanwhile.
static void begin_short_of_descriptors(struct served_feed *feed, unsigned spare) {
    struct rlimit usual;
    int fd AUTO_CLOSE = open("/dev/null", O_RDONLY | O_CLOEXEC); // the lowest that is free
    assert_true(fd >= 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    const struct rlimit few = {.rlim_cur = (rlim_t)fd + spare, .rlim_max = usual.rlim_max};
    close_fd(&fd);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    begin(feed);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
}

static bool has_cache(const struct served_feed *feed) {
    struct cache_fds fds[MIX_MAX_SOURCES];
    sample_caches_fds(feed, fds);
    return fds[0].memory >= 0;
}

static void try_with(char *cache_path, unsigned spare) {
    set_up(cache_path);
    begin_short_of_descriptors(&first, spare);
    assert_false(has_cache(&first));
    assert_non_null(strstr(supervisor.last_errors[0].text, strerror(EMFILE)));
    begin(&second);
    assert_true(has_cache(&second));
    assert_true(has_cache(&first)); // its next loader
    tear_down();
}

static void one_in_memory(void **state) {
    (void)state;
    try_with(NULL, 0);
}

static void one_with_a_file(void **state) {
    (void)state;
    assert_non_null(mkdtemp(folder));
    // In turn, no descriptor is left for the thread's end, for the folder, and for the file.
    for (unsigned spare = 0; spare <= 2; spare++)
        try_with(folder, spare);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): a folder of the test's own
}

// Others may have made room.
static void one_for_which_there_was_no_room(void **state) {
    (void)state;
    set_up(NULL);
    config.cache_memory = 1u << 19;
    begin(&first);
    begin(&second);
    assert_false(has_cache(&first) || has_cache(&second));
    sample_caches_end(&second);
    config.cache_memory = 1u << 21;
    begin(&second);
    assert_true(has_cache(&second));
    tear_down();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_in_memory),
        cmocka_unit_test(one_with_a_file),
        cmocka_unit_test(one_for_which_there_was_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
