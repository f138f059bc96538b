// What the memory limits of control groups leave, from folders that look like those of the kernel.
#include "shm/memory_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/sizes.h"

static char root[] = "/tmp/feedd-groups-XXXXXX";

static int set_up(void **state) {
    (void)state;
    strcpy(root, "/tmp/feedd-groups-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state) {
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command); // NOLINT(cert-env33-c): a folder of the test's own
}

static void put(const char *group, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s%s/%s", root, group, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_group(const char *group) {
    char path[256];
    snprintf(path, sizeof path, "%s%s", root, group);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void put_v2(const char *group, const char *limit, const char *usage, const char *stat) {
    put(group, "memory.max", limit);
    put(group, "memory.current", usage);
    put(group, "memory.stat", stat);
}

static void the_group_that_leaves_least_decides(void **state) {
    (void)state;
    make_group("/system.slice");
    make_group("/system.slice/feedd.service");
    put_v2("/system.slice", "100000\n", "90000\n", "anon 90000\nfile 0\nshmem 0\n");
    put_v2("/system.slice/feedd.service", "50000\n", "20000\n", "anon 20000\nfile 0\nshmem 0\n");
    struct memory_limit limit = memory_limit_of("0::/system.slice/feedd.service\n", root);
    assert_int_equal(limit.free_bytes, 10000);
    assert_int_equal(limit.limit_bytes, 100000);
    assert_non_null(strstr(limit.group, "/system.slice"));
    assert_null(strstr(limit.group, "feedd.service"));
}

static void cache_can_be_dropped_and_shared_memory_cannot(void **state) {
    (void)state;
    make_group("/a");
    put_v2("/a", "1000\n", "900\n", "anon 100\nfile 800\nshmem 300\nslab_reclaimable 50\n");
    assert_int_equal(memory_limit_of("0::/a\n", root).free_bytes, 1000 - (900 - 500 - 50));
}

static void there_may_be_no_limit(void **state) {
    (void)state;
    assert_int_equal(memory_limit_of("", root).free_bytes, UINT64_MAX);
    assert_int_equal(memory_limit_of("0::/nowhere\nnonsense\n::\n", root).free_bytes, UINT64_MAX);
    make_group("/a");
    put_v2("/a", "max\n", "900\n", "");
    assert_int_equal(memory_limit_of("0::/a\n", root).free_bytes, UINT64_MAX);
    make_group("/memory");
    put("/memory", "memory.limit_in_bytes", "9223372036854771712\n");
    put("/memory", "memory.usage_in_bytes", "900\n");
    assert_int_equal(memory_limit_of("4:memory:/\n", root).free_bytes, UINT64_MAX);
}

// The innermost one is the group whose limit an administrator would look for first.
static void of_groups_that_leave_the_same_the_innermost_is_named(void **state) {
    (void)state;
    make_group("/a");
    make_group("/a/b");
    put_v2("/a", "1000\n", "900\n", "");
    put_v2("/a/b", "500\n", "400\n", "");
    struct memory_limit limit = memory_limit_of("0::/a/b\n", root);
    assert_int_equal(limit.free_bytes, 100);
    assert_int_equal(limit.limit_bytes, 500);
    assert_non_null(strstr(limit.group, "/a/b"));
    put("/a/b", "memory.current", "450\n");
    limit = memory_limit_of("0::/a/b\n", root);
    assert_int_equal(limit.free_bytes, 50);
    assert_int_equal(limit.limit_bytes, 500);
}

// Its folder, in a name space where the group is called otherwise, may by chance be there in part.
static void of_a_group_that_is_not_there_the_root_counts(void **state) {
    (void)state;
    make_group("/a");
    put_v2("/a", "1000\n", "900\n", "");
    put_v2("", "5000\n", "900\n", "");
    assert_int_equal(memory_limit_of("0::/a/gone\n", root).free_bytes, 4100);
    char membership[1024];
    memset(membership, 'x', sizeof membership);
    memcpy(membership, "0::/a/", 6);
    membership[sizeof membership - 1] = '\0';
    assert_int_equal(memory_limit_of(membership, root).free_bytes, 4100); // longer than any path
}

static void a_controller_is_a_whole_word(void **state) {
    (void)state;
    make_group("/memory");
    make_group("/memory/a");
    put("/memory/a", "memory.limit_in_bytes", "1000\n");
    put("/memory/a", "memory.usage_in_bytes", "700\n");
    assert_int_equal(memory_limit_of("4:cpu:/a\n", root).free_bytes, UINT64_MAX);
    assert_int_equal(memory_limit_of("4:memories,xmemory,memoryx:/a\n", root).free_bytes, UINT64_MAX);
    assert_int_equal(memory_limit_of("4:xmemory,memory,cpu:/a\n", root).free_bytes, 300);
    assert_int_equal(memory_limit_of("4:cpu,memory:/a\n", root).free_bytes, 300);
}

// Nothing of a longer file that was read before it.
static void a_file_ends_where_it_ends(void **state) {
    (void)state;
    make_group("/a");
    put_v2("/a", "1000000\n", "100\n", "file 10\nshmem 10\nslab_reclaimable 70\n");
    put_v2("", "1000", "900", "file 10\n");
    assert_int_equal(memory_limit_of("0::/a\n", root).free_bytes, 1000 - (900 - 10));
}

static void a_root_with_a_long_path_has_no_groups(void **state) {
    (void)state;
    char long_root[1000];
    memset(long_root, '/', sizeof long_root); // the same folder
    memcpy(long_root, root, strlen(root));
    long_root[sizeof long_root - 1] = '\0';
    make_group("/a");
    put_v2("/a", "1000\n", "900\n", "");
    assert_int_equal(memory_limit_of("0::/a\n", root).free_bytes, 100);
    assert_int_equal(memory_limit_of("0::/a\n", long_root).free_bytes, UINT64_MAX);
}

// What does not fit is not read; the lines that are looked for come early.
static void a_file_may_be_longer_than_is_read(void **state) {
    (void)state;
    static char stat[20000];
    make_group("/a");
    int used = snprintf(stat, sizeof stat, "file 800\nshmem 300\n");
    memset(stat + used, 'x', sizeof stat - (size_t)used - 1);
    put_v2("/a", "1000\n", "900\n", stat);
    assert_int_equal(memory_limit_of("0::/a\n", root).free_bytes, 1000 - (900 - 500));
}

static void version_1(void **state) {
    (void)state;
    make_group("/memory");
    make_group("/memory/a");
    put("/memory/a", "memory.limit_in_bytes", "1000\n");
    put("/memory/a", "memory.usage_in_bytes", "700\n");
    put("/memory/a", "memory.stat", "cache 1\nshmem 1\ntotal_cache 500\ntotal_shmem 400\n");
    assert_int_equal(memory_limit_of("5:cpu:/b\n4:hugetlb,memory:/a\n0::/\n", root).free_bytes, 400);
    // A container that does not see its path: the root is its group.
    put("/memory", "memory.limit_in_bytes", "2000\n");
    put("/memory", "memory.usage_in_bytes", "500\n");
    assert_int_equal(memory_limit_of("4:memory:/outside/of/it\n", root).free_bytes, 1500);
}

static void a_group_over_its_limit_leaves_nothing(void **state) {
    (void)state;
    make_group("/a");
    put_v2("/a", "100\n", "900\n", "");
    assert_int_equal(memory_limit_of("0::/a\n", root).free_bytes, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_group_that_leaves_least_decides),
        TEST(cache_can_be_dropped_and_shared_memory_cannot),
        TEST(there_may_be_no_limit),
        TEST(of_groups_that_leave_the_same_the_innermost_is_named),
        TEST(of_a_group_that_is_not_there_the_root_counts),
        TEST(a_controller_is_a_whole_word),
        TEST(a_file_ends_where_it_ends),
        TEST(a_root_with_a_long_path_has_no_groups),
        TEST(a_file_may_be_longer_than_is_read),
        TEST(version_1),
        TEST(a_group_over_its_limit_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
