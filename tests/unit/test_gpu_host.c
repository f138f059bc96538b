// The simulated GPU's memory and registrations: what processes share, and that it refuses what CUDA would refuse.
#include <fcntl.h>
#include <signal.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "tests/unit/gpu_fixture.h"

// ---- Memory -----------------------------------------------------------------------------------------------

static void test_memory_is_shared_and_outlives_its_maker(void **state) {
    (void)state;
    open_fixture("memory=65536");
    struct gpu *other = open_gpu("HOST-0", "memory=65536");
    struct gpu_memory mapped;
    uint64_t unused = 0;
    uint8_t bytes[POOL_BYTES], zeros[POOL_BYTES] = {0};
    assert_int_equal(fixture.pool.bytes, POOL_BYTES);
    assert_int_equal(fixture.gpu->memory_bytes, 65536);
    assert_int_not_equal(fcntl(fixture.fd, F_GETFD) & FD_CLOEXEC, 0);
    assert_done(gpu_copy_out(fixture.gpu, bytes, fixture.pool.address, POOL_BYTES, &said));
    assert_memory_equal(bytes, zeros, POOL_BYTES);
    assert_done(gpu_import(other, fixture.fd, POOL_BYTES, false, &mapped, &said));
    assert_int_not_equal(mapped.address, fixture.pool.address);
    memset(fixture.staging, 0x5a, 2ul * PAGE);
    assert_done(copy(PAGE, 0, PAGE));
    assert_done(gpu_synchronize(fixture.gpu, &said));
    assert_done(gpu_copy_out(other, bytes, mapped.address, POOL_BYTES, &said));
    assert_memory_equal(bytes + PAGE, fixture.staging, PAGE);
    assert_memory_equal(bytes, zeros, PAGE);
    assert_memory_equal(bytes + 2ul * PAGE, zeros, 2ul * PAGE);
    assert_done(gpu_free_bytes(other, &unused, &said));
    assert_int_equal(unused, 65536 - POOL_BYTES); // the mapping of another's takes none

    gpu_free(fixture.gpu, &fixture.pool);
    assert_int_equal(fixture.pool.address, 0);
    assert_done(gpu_free_bytes(other, &unused, &said));
    assert_int_equal(unused, 65536);
    assert_int_equal(((uint8_t *)(uintptr_t)mapped.address)[PAGE], 0x5a);
    gpu_free(other, &mapped);
    assert_done(
        gpu_import(other, fixture.fd, PAGE, true, &mapped, &said)); // less of it, through the descriptor
    gpu_free(other, &mapped);
    gpu_close(other);
}

static void test_what_is_no_memory_of_a_gpu_is_not_mapped(void **state) {
    (void)state;
    open_fixture("");
    struct gpu_memory mapped;
    int pipe_ends[2];
    assert_refused(gpu_import(fixture.gpu, fixture.fd, POOL_BYTES + PAGE, false, &mapped, &said), -EIO,
                   "invalid argument");
    assert_refused(gpu_import(fixture.gpu, -1, PAGE, false, &mapped, &said), -EIO, "invalid argument");
    assert_int_equal(pipe(pipe_ends), 0);
    assert_refused(gpu_import(fixture.gpu, pipe_ends[0], PAGE, false, &mapped, &said), -EIO,
                   "invalid argument");
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

static void test_what_is_mapped_read_only_cannot_be_written(void **state) {
    (void)state;
    open_fixture("");
    struct gpu_memory mapped;
    assert_done(gpu_import(fixture.gpu, fixture.fd, POOL_BYTES, false, &mapped, &said));
    const struct gpu_word word = {mapped.address, 1};
    assert_refused(gpu_copy_in(fixture.gpu, NULL, mapped.address, fixture.staging, PAGE, &said), -EIO,
                   "not writable");
    assert_refused(gpu_write_words(fixture.gpu, NULL, &word, 1, &said), -EIO, "cannot write");
    assert_done(gpu_wait_word(fixture.gpu, NULL, mapped.address, 0, &said));
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); // a sanitizer has its own idea
        *(volatile uint8_t *)(uintptr_t)mapped.address = 1;
        _exit(0);
    }
    int status = end_of(child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    gpu_free(fixture.gpu, &mapped);
}

static void test_memory_runs_out(void **state) {
    (void)state;
    open_fixture("memory=65536");
    struct gpu *same = open_gpu("HOST-0", "memory=65536"), *other = open_gpu("HOST-1", "memory=65536");
    struct gpu_memory memory;
    int fd = -1;
    assert_refused(gpu_create(same, 65536 - POOL_BYTES + PAGE, &memory, &fd, &said), -ENOMEM,
                   "1 MiB of GPU memory are needed on HOST-0");
    assert_non_null(strstr(said.text, "0 MiB are free"));
    assert_int_equal(fd, -1);
    assert_done(gpu_create(same, 65536 - POOL_BYTES, &memory, &fd, &said));
    gpu_free(same, &memory);
    close_fd(&fd);
    assert_done(gpu_create(other, 65536, &memory, &fd, &said));
    gpu_free(other, &memory);
    close_fd(&fd);
    gpu_close(other);
    gpu_close(same);
}

// ---- Registrations ----------------------------------------------------------------------------------------

static void test_registrations_do_not_overlap(void **state) {
    (void)state;
    open_fixture("");
    struct gpu *other = open_gpu("HOST-1", "");
    uint8_t *pages = map_pages(4);
    uint64_t address = 1;
    assert_done(gpu_host_register(fixture.gpu, pages + PAGE, PAGE + 1, false, &address, &said));
    assert_refused(gpu_host_register(fixture.gpu, pages, 2ul * PAGE, false, &address, &said), -EIO,
                   "registered already");
    assert_int_equal(address, 0);
    assert_refused(gpu_host_register(fixture.gpu, pages + 2ul * PAGE, PAGE, false, &address, &said), -EIO,
                   "registered already"); // a part of this page is the other's
    assert_refused(gpu_host_register(other, pages + PAGE, PAGE, false, &address, &said), -EIO,
                   "registered already");
    assert_done(gpu_host_register(other, pages, PAGE, false, &address, &said));
    assert_done(gpu_host_register(other, pages + 3ul * PAGE, PAGE, false, &address, &said));
    gpu_host_unregister(fixture.gpu, pages + PAGE);
    assert_done(gpu_host_register(fixture.gpu, pages + PAGE, PAGE, false, &address, &said));
    for (uint32_t i = 0; i < 4; i++)
        gpu_host_unregister(fixture.gpu, pages + (size_t)i * PAGE); // the third is none, which harms nothing
    munmap(pages, 4ul * PAGE);
    gpu_close(other);
}

static void test_copies_come_from_one_registration_and_go_to_ones_own_memory(void **state) {
    (void)state;
    open_fixture("");
    struct gpu *other = open_gpu("HOST-0", "");
    uint8_t *plain = map_pages(1);
    assert_done(copy(0, PAGE, PAGE));
    assert_refused(copy(0, PAGE, PAGE + 1), -EIO,
                   "not within one registered range"); // the words are another range
    assert_refused(gpu_copy_in(fixture.gpu, NULL, fixture.pool.address, plain, 1, &said), -EIO, "registered");
    assert_done(copy(POOL_BYTES - PAGE, 0, PAGE));
    assert_refused(copy(POOL_BYTES - PAGE + 1, 0, PAGE), -EIO, "not writable memory");
    assert_refused(gpu_copy_in(other, NULL, fixture.pool.address, fixture.staging, 1, &said), -EIO,
                   "not writable memory");
    assert_refused(gpu_copy_in(fixture.gpu, NULL, (uintptr_t)plain, fixture.staging, 1, &said), -EIO,
                   "not writable");
    assert_refused(gpu_copy_out(other, plain, fixture.pool.address, 1, &said), -EIO,
                   "not memory of this GPU");
    assert_refused(gpu_copy_in(other, fixture.stream, 0, fixture.staging, 1, &said), -EIO,
                   "not a stream of this GPU");
    munmap(plain, PAGE);
    gpu_close(other);
}

static void test_words_lie_where_the_gpu_can_reach_them(void **state) {
    (void)state;
    open_fixture("");
    static uint64_t plain;
    struct gpu_word words[2] = {{(uint64_t)(uintptr_t)fixture.words, 1}, {(uint64_t)(uintptr_t)&plain, 1}};
    assert_refused(gpu_write_words(fixture.gpu, NULL, words, 2, &said), -EIO, "cannot write");
    assert_int_equal(read_word(0), 0);
    assert_refused(gpu_wait_word(fixture.gpu, NULL, words[1].address, 0, &said), -EIO, "cannot read");
    words[1].address = (uint64_t)(uintptr_t)fixture.staging; // registered as read-only
    assert_refused(gpu_write_words(fixture.gpu, NULL, words, 2, &said), -EIO, "cannot write");
    assert_done(gpu_wait_word(fixture.gpu, NULL, words[1].address, 0, &said));
    words[1].address = fixture.pool.address + POOL_BYTES; // just behind
    assert_refused(gpu_write_words(fixture.gpu, NULL, words, 2, &said), -EIO, "cannot write");
    words[1].address -= sizeof(uint64_t);
    assert_done(gpu_write_words(fixture.gpu, NULL, words, 2, &said));
    assert_int_equal(read_word(0), 1);
    assert_int_equal(pool_byte(POOL_BYTES - sizeof(uint64_t)), 1);
}

// ---- Special ones -----------------------------------------------------------------------------------------

static void test_what_is_special_is_checked(void **state) {
    (void)state;
    static const char *const wrong[] = {"memory",
                                        "memory=",
                                        "memory=-1",
                                        "memory=1k",
                                        "speed=1",
                                        "no_export=1",
                                        "copy_us",
                                        "fail_copy=two",
                                        "Memory=1",
                                        "mem=1",
                                        "memory= 1",
                                        "copy_us=1,stall=2",
                                        "memory=18446744073709551616"};
    struct gpu *gpu = NULL;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        setenv(GPU_HOST_FAULTS, wrong[i], 1);
        const char *last = strrchr(wrong[i], ',');
        assert_refused(gpu_open(&gpu, "HOST-0", &said), -EINVAL, last ? last + 1 : wrong[i]);
        assert_null(gpu);
    }
    setenv(GPU_HOST_FAULTS, "slow,copy_us=1", 1);
    assert_refused(gpu_open(&gpu, "HOST-0", &said), -EINVAL, "\"slow\"");
    setenv(GPU_HOST_FAULTS, "copy_us=1,no_export", 1);
    assert_refused(gpu_open(&gpu, "HOST-3", &said), -ENOTSUP, "HOST-3");
    gpu = open_gpu("HOST-3", "copy_us=0,fail_copy=1,stall_copy=2,memory=18446744073709551615");
    gpu_close(gpu);
    gpu = open_gpu("HOST-3", "");
    assert_int_equal(gpu->memory_bytes, 1ull << 30);
    gpu_close(gpu);
}

// Not for another stream, which waits for a gate here.
static void test_a_stream_is_waited_for_alone(void **state) {
    (void)state;
    open_fixture("copy_us=5000");
    gpu_stream second;
    assert_done(gpu_stream_create(fixture.gpu, &second, &said));
    assert_done(gpu_host_stream_call(fixture.gpu, fixture.stream, stand_at_gate, NULL, &said));
    for (uint32_t round = 1; round <= 5; round++) {
        const struct gpu_word word = {(uint64_t)(uintptr_t)&fixture.words[1], round};
        assert_done(
            gpu_copy_in(fixture.gpu, second, fixture.pool.address + PAGE, fixture.staging, PAGE, &said));
        assert_done(gpu_write_words(fixture.gpu, second, &word, 1, &said));
        assert_done(gpu_stream_synchronize(fixture.gpu, second, &said));
        assert_int_equal(read_word(1), round);
    }
    open_gate();
    gpu_stream_destroy(fixture.gpu, second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_memory_is_shared_and_outlives_its_maker, close_fixture),
        cmocka_unit_test_teardown(test_what_is_no_memory_of_a_gpu_is_not_mapped, close_fixture),
        cmocka_unit_test_teardown(test_what_is_mapped_read_only_cannot_be_written, close_fixture),
        cmocka_unit_test_teardown(test_memory_runs_out, close_fixture),
        cmocka_unit_test_teardown(test_registrations_do_not_overlap, close_fixture),
        cmocka_unit_test_teardown(test_copies_come_from_one_registration_and_go_to_ones_own_memory,
                                  close_fixture),
        cmocka_unit_test_teardown(test_words_lie_where_the_gpu_can_reach_them, close_fixture),
        cmocka_unit_test_teardown(test_what_is_special_is_checked, close_fixture),
        cmocka_unit_test_teardown(test_a_stream_is_waited_for_alone, close_fixture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
