// The simulated GPU's streams: their order, words written and waited for, and what happens when they fail or stall.
#include <sched.h>
#include <signal.h>
#include <sys/time.h>

#include "base/time.h"
#include "tests/unit/gpu_fixture.h"

// A kernel that notes what it saw.
struct look {
    const uint8_t *at;
    uint8_t seen;
    bool done;
};

static void take_look(void *argument) {
    struct look *look = argument;
    look->seen = *look->at;
    __atomic_store_n(&look->done, true, __ATOMIC_RELEASE);
}

static bool has_looked(const struct look *look) {
    return __atomic_load_n(&look->done, __ATOMIC_ACQUIRE);
}

// ---- Order ------------------------------------------------------------------------------------------------

static void test_a_stream_does_one_thing_after_the_other(void **state) {
    (void)state;
    open_fixture("copy_us=500");
    struct look first = {.at = (uint8_t *)(uintptr_t)fixture.pool.address};
    memset(fixture.staging, 1, PAGE);
    memset(fixture.staging + PAGE, 2, PAGE);
    assert_done(gpu_host_stream_call(fixture.gpu, fixture.stream, stand_at_gate, NULL, &said));
    assert_done(copy(0, 0, PAGE));
    assert_done(write_word(0, 7));
    assert_done(gpu_host_stream_call(fixture.gpu, fixture.stream, take_look, &first, &said));
    assert_done(copy(0, PAGE, PAGE));
    nap_ms(20);
    assert_int_equal(read_word(0), 0); // all of it is queued
    assert_int_equal(pool_byte(0), 0);
    assert_false(has_looked(&first));
    open_gate();
    assert_done(gpu_synchronize(fixture.gpu, &said));
    assert_int_equal(read_word(0), 7);
    assert_int_equal(first.seen, 1);
    assert_int_equal(pool_byte(0), 2);
}

// A word that is seen says that what was queued before it can be seen.
static void test_words_come_after_the_bytes(void **state) {
    (void)state;
    open_fixture("");
    for (uint32_t round = 1; round <= 200; round++) {
        memset(fixture.staging, (int)(round & 0xff), PAGE);
        assert_done(copy(0, 0, PAGE));
        assert_done(write_word(round % 8, round));
        while (read_word(round % 8) != round)
            sched_yield();
        assert_int_equal(((uint8_t *)(uintptr_t)fixture.pool.address)[PAGE - 1], round & 0xff);
    }
}

static void test_many_words_in_one_write(void **state) {
    (void)state;
    open_fixture("");
    struct gpu_word words[GPU_WORDS_MOST];
    for (uint32_t i = 0; i < GPU_WORDS_MOST; i++)
        words[i] = (struct gpu_word){(uint64_t)(uintptr_t)&fixture.words[i], UINT64_C(0x100000000) + i};
    words[GPU_WORDS_MOST - 1].address = words[0].address; // in their order
    assert_done(gpu_write_words(fixture.gpu, fixture.stream, words, GPU_WORDS_MOST, &said));
    memset(words, 0, sizeof words); // it has its own copy
    assert_done(gpu_synchronize(fixture.gpu, &said));
    assert_int_equal(read_word(0), UINT64_C(0x100000000) + GPU_WORDS_MOST - 1);
    for (uint32_t i = 1; i + 1 < GPU_WORDS_MOST; i++)
        assert_int_equal(read_word(i), UINT64_C(0x100000000) + i);
    assert_int_equal(read_word(GPU_WORDS_MOST - 1), 0);
}

static void test_the_default_stream_works_within_the_call(void **state) {
    (void)state;
    open_fixture("");
    struct look look = {.at = (uint8_t *)(uintptr_t)fixture.pool.address};
    assert_done(gpu_host_stream_call(fixture.gpu, fixture.stream, stand_at_gate, NULL, &said));
    fixture.staging[0] = 9;
    assert_done(gpu_copy_in(fixture.gpu, NULL, fixture.pool.address, fixture.staging, 1, &said));
    assert_int_equal(pool_byte(0), 9);
    const struct gpu_word word = {(uint64_t)(uintptr_t)fixture.words, 3};
    assert_done(gpu_write_words(fixture.gpu, NULL, &word, 1, &said));
    assert_int_equal(read_word(0), 3);
    assert_done(gpu_wait_word(fixture.gpu, NULL, word.address, 2, &said));
    assert_done(gpu_host_stream_call(fixture.gpu, NULL, take_look, &look, &said));
    assert_int_equal(look.seen, 9);
    open_gate();
    assert_done(gpu_synchronize(fixture.gpu, &said));
}

static void test_synchronize_waits_for_all_streams(void **state) {
    (void)state;
    open_fixture("copy_us=5000");
    gpu_stream second;
    assert_done(gpu_stream_create(fixture.gpu, &second, &said));
    for (uint32_t round = 1; round <= 5; round++) {
        assert_done(copy(0, 0, PAGE));
        assert_done(write_word(0, round));
        const struct gpu_word word = {(uint64_t)(uintptr_t)&fixture.words[1], round};
        assert_done(
            gpu_copy_in(fixture.gpu, second, fixture.pool.address + PAGE, fixture.staging, PAGE, &said));
        assert_done(gpu_write_words(fixture.gpu, second, &word, 1, &said));
        assert_done(gpu_synchronize(fixture.gpu, &said));
        assert_int_equal(read_word(0), round);
        assert_int_equal(read_word(1), round);
    }
    gpu_stream_destroy(fixture.gpu, second);
}

// ---- The word of a release after everything --------------------------------------------------------------

static int write_last(uint32_t number, uint64_t value) {
    const struct gpu_word word = {(uint64_t)(uintptr_t)&fixture.words[number], value};
    return gpu_write_word_last(fixture.gpu, &word, &said);
}

// Not before every stream is where it stood at the call; work that is queued later is not waited for.
static void test_a_last_word_waits_for_every_stream(void **state) {
    (void)state;
    open_fixture("");
    gpu_stream second, gated[2] = {fixture.stream};
    assert_done(gpu_stream_create(fixture.gpu, &second, &said));
    gated[1] = second;
    for (uint32_t round = 0; round < 2; round++) { // each of the two may be the one that is late
        struct look before = {.at = (uint8_t *)(uintptr_t)fixture.pool.address};
        __atomic_store_n(&fixture.gate_is_open, false, __ATOMIC_RELEASE);
        assert_done(gpu_host_stream_call(fixture.gpu, gated[round], stand_at_gate, NULL, &said));
        assert_done(gpu_host_stream_call(fixture.gpu, gated[round], take_look, &before, &said));
        assert_done(write_last(round, 7));
        nap_ms(30);
        assert_int_equal(read_word(round), 0);
        assert_false(has_looked(&before));
        open_gate();
        while (read_word(round) != 7)
            nap_ms(1);
        assert_true(has_looked(&before));
        assert_done(gpu_synchronize(fixture.gpu, &said));
    }
    __atomic_store_n(&fixture.gate_is_open, false, __ATOMIC_RELEASE);
    assert_done(write_last(2, 9));
    assert_done(gpu_host_stream_call(fixture.gpu, second, stand_at_gate, NULL, &said));
    while (read_word(2) != 9)
        nap_ms(1);
    open_gate();
    assert_done(gpu_synchronize(fixture.gpu, &said));
    gpu_stream_destroy(fixture.gpu, second);
}

static void test_a_last_word_is_written_once_nothing_is_queued(void **state) {
    (void)state;
    open_fixture("");
    gpu_stream_destroy(fixture.gpu, fixture.stream);
    fixture.stream = NULL;
    assert_done(write_last(0, 3)); // there is no stream at all
    assert_int_equal(read_word(0), 3);
    assert_done(gpu_stream_create(fixture.gpu, &fixture.stream, &said));
    for (uint64_t value = 1; value <= 1000; value++)
        assert_done(write_last(1, value));
    assert_done(gpu_synchronize(fixture.gpu, &said));
    assert_int_equal(read_word(1), 1000);
}

static void test_a_last_word_is_refused(void **state) {
    (void)state;
    open_fixture("fail_copy=1");
    const struct gpu_word nowhere = {8, 1};
    assert_refused(gpu_write_word_last(fixture.gpu, &nowhere, &said), -EIO, "invalid argument");
    assert_refused(copy(0, 0, 1), -EIO, "the GPU is lost");
    assert_refused(write_last(0, 1), -EIO, "lost");
    assert_int_equal(read_word(0), 0);
}

// ---- Waits ------------------------------------------------------------------------------------------------

static void test_a_stream_waits_for_another_handles_word(void **state) {
    (void)state;
    open_fixture("");
    struct gpu *other = open_gpu("HOST-0", "");
    struct gpu_memory mapped;
    gpu_stream waiting;
    assert_done(gpu_import(other, fixture.fd, POOL_BYTES, false, &mapped, &said));
    assert_done(gpu_stream_create(other, &waiting, &said));
    struct look look = {.at = (uint8_t *)(uintptr_t)mapped.address + PAGE};
    assert_done(gpu_wait_word(other, waiting, mapped.address, 5, &said));
    assert_done(gpu_host_stream_call(other, waiting, take_look, &look, &said));

    fixture.staging[0] = 77;
    struct gpu_word word = {fixture.pool.address, 4};
    assert_done(gpu_write_words(fixture.gpu, fixture.stream, &word, 1, &said)); // not enough
    assert_done(gpu_host_stream_call(fixture.gpu, fixture.stream, stand_at_gate, NULL, &said));
    assert_done(copy(PAGE, 0, 1));
    word.value = 6; // more than enough
    assert_done(gpu_write_words(fixture.gpu, fixture.stream, &word, 1, &said));
    nap_ms(30);
    assert_false(has_looked(&look));
    open_gate();
    assert_done(gpu_synchronize(other, &said));
    assert_true(has_looked(&look));
    assert_int_equal(look.seen, 77);
    gpu_stream_destroy(other, waiting);
    gpu_free(other, &mapped);
    gpu_close(other);
}

// What a consumer does: its stream waits for the word, works on the bytes, then writes the consumer's own word.
static int play_consumer(int fd) {
    struct gpu *gpu = NULL;
    struct gpu_memory data, answers;
    gpu_stream stream;
    if (gpu_open(&gpu, "HOST-0", NULL) < 0 || gpu_import(gpu, fd, POOL_BYTES, false, &data, NULL) < 0 ||
        gpu_import(gpu, fd, PAGE, true, &answers, NULL) < 0 || gpu_stream_create(gpu, &stream, NULL) < 0)
        return 1;
    struct look look = {.at = (uint8_t *)(uintptr_t)data.address + PAGE};
    const struct gpu_word answer = {answers.address + 8, 1};
    if (gpu_wait_word(gpu, stream, data.address, 1, NULL) < 0 ||
        gpu_host_stream_call(gpu, stream, take_look, &look, NULL) < 0 ||
        gpu_write_words(gpu, stream, &answer, 1, NULL) < 0 || gpu_synchronize(gpu, NULL) < 0)
        return 2;
    gpu_stream_destroy(gpu, stream);
    gpu_free(gpu, &answers);
    gpu_free(gpu, &data);
    gpu_close(gpu);
    return look.seen == 99 ? 0 : 3;
}

static void test_words_go_between_processes(void **state) {
    (void)state;
    open_fixture("");
    gpu_stream_destroy(fixture.gpu, fixture.stream); // a fork takes no threads along
    pid_t child = fork();
    if (child == 0)
        _exit(play_consumer(fixture.fd));
    assert_done(gpu_stream_create(fixture.gpu, &fixture.stream, &said));
    nap_ms(30);
    fixture.staging[0] = 99;
    const struct gpu_word word = {fixture.pool.address, 1};
    assert_done(copy(PAGE, 0, 1));
    assert_done(gpu_write_words(fixture.gpu, fixture.stream, &word, 1, &said));
    assert_done(gpu_wait_word(fixture.gpu, fixture.stream, fixture.pool.address + 8, 1, &said));
    assert_int_equal(end_of(child), 0);
    assert_done(gpu_synchronize(fixture.gpu, &said));
}

static void test_a_destroyed_stream_finishes(void **state) {
    (void)state;
    open_fixture("copy_us=1000");
    for (uint32_t i = 1; i <= 20; i++) {
        assert_done(copy(0, 0, PAGE));
        assert_done(write_word(0, i));
    }
    assert_done(
        gpu_wait_word(fixture.gpu, fixture.stream, (uint64_t)(uintptr_t)fixture.words, 20, &said)); // is over
    assert_done(write_word(1, 1));
    gpu_stream_destroy(fixture.gpu, fixture.stream);
    assert_int_equal(read_word(0), 20);
    assert_int_equal(read_word(1), 1);
    assert_refused(copy(0, 0, 1), -EIO, "not a stream");
    fixture.stream = NULL;
}

static void test_a_destroyed_stream_gives_up_a_wait(void **state) {
    (void)state;
    open_fixture("");
    assert_done(write_word(0, 1));
    assert_done(gpu_wait_word(fixture.gpu, fixture.stream, (uint64_t)(uintptr_t)&fixture.words[1], 1, &said));
    assert_done(write_word(2, 1));
    assert_done(
        gpu_wait_word(fixture.gpu, fixture.stream, (uint64_t)(uintptr_t)fixture.words, 1, &said)); // is over
    assert_done(write_word(3, 1));
    gpu_stream_destroy(fixture.gpu, fixture.stream);
    fixture.stream = NULL;
    assert_int_equal(read_word(0), 1);
    assert_int_equal(read_word(2), 0);
    assert_int_equal(read_word(3), 0);
}

// ---- Special ones -----------------------------------------------------------------------------------------

static void test_copies_take_their_time(void **state) {
    (void)state;
    open_fixture("copy_us=20000");
    uint64_t begin = monotonic_ns();
    assert_done(copy(0, 0, PAGE));
    assert_done(copy(0, 0, PAGE));
    assert_done(gpu_synchronize(fixture.gpu, &said));
    assert_true(monotonic_ns() - begin >= UINT64_C(40000000));
}

static void test_a_gpu_is_lost(void **state) {
    (void)state;
    open_fixture("fail_copy=3");
    struct gpu_memory memory;
    gpu_stream stream;
    uint64_t number = 0;
    uint8_t byte = 0;
    int fd = -1;
    const struct gpu_word word = {(uint64_t)(uintptr_t)fixture.words, 1};
    assert_done(copy(0, 0, 1));
    assert_refused(copy(POOL_BYTES, 0, 1), -EIO, "invalid argument"); // it does not count
    assert_done(copy(0, 0, 1));
    assert_done(gpu_synchronize(fixture.gpu, &said));
    for (int time = 0; time < 2; time++)
        assert_refused(copy(0, 0, 1), -EIO, "the GPU is lost");
    assert_refused(gpu_create(fixture.gpu, PAGE, &memory, &fd, &said), -EIO, "lost");
    assert_refused(gpu_import(fixture.gpu, fixture.fd, PAGE, true, &memory, &said), -EIO, "lost");
    assert_refused(gpu_copy_out(fixture.gpu, &byte, fixture.pool.address, 1, &said), -EIO, "lost");
    assert_refused(gpu_write_words(fixture.gpu, fixture.stream, &word, 1, &said), -EIO, "lost");
    assert_refused(gpu_wait_word(fixture.gpu, NULL, word.address, 0, &said), -EIO, "lost");
    assert_refused(gpu_synchronize(fixture.gpu, &said), -EIO, "lost");
    assert_refused(gpu_free_bytes(fixture.gpu, &number, &said), -EIO, "lost");
    assert_refused(gpu_stream_create(fixture.gpu, &stream, &said), -EIO, "lost");
    assert_refused(gpu_host_register(fixture.gpu, fixture.staging, PAGE, true, &number, &said), -EIO, "lost");
    assert_refused(gpu_host_stream_call(fixture.gpu, NULL, stand_at_gate, NULL, &said), -EIO, "lost");
}

static void test_a_copy_stalls(void **state) {
    (void)state;
    open_fixture("stall_copy=2");
    gpu_stream second;
    const struct gpu_word word = {(uint64_t)(uintptr_t)&fixture.words[2], 1};
    assert_done(gpu_stream_create(fixture.gpu, &second, &said));
    fixture.staging[0] = 1;
    fixture.staging[1] = 2;
    assert_done(copy(0, 0, 1));
    assert_done(write_word(0, 1));
    assert_done(copy(0, 1, 1));
    assert_done(write_word(1, 1));
    assert_done(gpu_copy_in(fixture.gpu, second, fixture.pool.address + PAGE, fixture.staging, 1, &said));
    assert_done(gpu_write_words(fixture.gpu, second, &word, 1, &said));
    gpu_stream_destroy(fixture.gpu, second);
    assert_int_equal(read_word(2), 1);
    assert_int_equal(pool_byte(PAGE), 1);
    while (!read_word(0))
        nap_ms(1);
    nap_ms(20);
    assert_int_equal(pool_byte(0), 1);
    assert_int_equal(read_word(1), 0);
    gpu_stream_destroy(fixture.gpu, fixture.stream);
    fixture.stream = NULL;
    assert_int_equal(pool_byte(0), 1);
    assert_int_equal(read_word(1), 0);
}

// In a separate process, which an alarm ends.
static void test_a_stalled_gpu_is_waited_for_in_vain(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        const struct itimerval soon = {.it_value.tv_usec = 100000};
        signal(SIGALRM, SIG_DFL);
        open_fixture("stall_copy=1");
        setitimer(ITIMER_REAL, &soon, NULL);
        assert_done(copy(0, 0, 1));
        assert_done(gpu_synchronize(fixture.gpu, &said));
        _exit(0);
    }
    int status = end_of(child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGALRM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_stream_does_one_thing_after_the_other, close_fixture),
        cmocka_unit_test_teardown(test_words_come_after_the_bytes, close_fixture),
        cmocka_unit_test_teardown(test_many_words_in_one_write, close_fixture),
        cmocka_unit_test_teardown(test_the_default_stream_works_within_the_call, close_fixture),
        cmocka_unit_test_teardown(test_synchronize_waits_for_all_streams, close_fixture),
        cmocka_unit_test_teardown(test_a_last_word_waits_for_every_stream, close_fixture),
        cmocka_unit_test_teardown(test_a_last_word_is_written_once_nothing_is_queued, close_fixture),
        cmocka_unit_test_teardown(test_a_last_word_is_refused, close_fixture),
        cmocka_unit_test_teardown(test_a_stream_waits_for_another_handles_word, close_fixture),
        cmocka_unit_test_teardown(test_words_go_between_processes, close_fixture),
        cmocka_unit_test_teardown(test_a_destroyed_stream_finishes, close_fixture),
        cmocka_unit_test_teardown(test_a_destroyed_stream_gives_up_a_wait, close_fixture),
        cmocka_unit_test_teardown(test_copies_take_their_time, close_fixture),
        cmocka_unit_test_teardown(test_a_gpu_is_lost, close_fixture),
        cmocka_unit_test_teardown(test_a_copy_stalls, close_fixture),
        cmocka_unit_test(test_a_stalled_gpu_is_waited_for_in_vain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
