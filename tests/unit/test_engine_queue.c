// The threads of a GPU's engine, with a simulated one: what happens at once, and what one after the other.
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/transfer/engine_queue.h"
#include "gpu/gpu_host.h"
#include "tests/unit/encoded_jpeg.h"

#define JOBS        8u
#define PATIENCE_NS (20 * NS_PER_S)
#define PLANES      (WIDTH * HEIGHT * 3u)

struct entry {
    struct engine_job job;
    struct engine_image image;
    _Atomic bool prepared;
    _Atomic bool may_end; // its preparation
    bool is_empty;        // ... leaves nothing to the engine
};

static struct {
    struct gpu *gpu;
    struct engine_queue *queue;
    struct bytes *jpeg; // registered
    struct image_record record;
    uint8_t planes[JOBS][PLANES];
    struct entry entries[JOBS];
} at;

static void prepare(struct engine_job *job) {
    struct entry *entry = CONTAINER_OF(job, struct entry, job);
    atomic_store(&entry->prepared, true);
    while (!atomic_load(&entry->may_end))
        usleep(1000);
    job->images = &entry->image;
    job->count = entry->is_empty ? 0 : 1;
}

static void open_queue(const char *faults) {
    struct error error = {0};
    uint64_t address, bytes = align_up(sizeof *at.jpeg, 4096);
    memset(&at, 0, sizeof at);
    setenv(GPU_HOST_FAULTS, faults, 1);
    assert_int_equal(gpu_open(&at.gpu, "HOST-0", &error), 0);
    at.jpeg = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at.jpeg != MAP_FAILED);
    encode(at.jpeg, 2, false);
    assert_int_equal(gpu_host_register(at.gpu, at.jpeg, bytes, false, &address, &error), 0);
    assert_int_equal(engine_queue_open(&at.queue, at.gpu, &error), 0);
    at.record = record_of(IMAGE_SAMPLING_420);
    at.record.bytes = (uint32_t)at.jpeg->count;
    for (uint32_t i = 0; i < JOBS; i++)
        at.entries[i] = (struct entry){
            .job.prepare = prepare,
            .image = {.bytes = at.jpeg->at, .record = &at.record, .to = (uint64_t)(uintptr_t)at.planes[i]},
            .may_end = true,
        };
}

static void close_queue(void) {
    engine_queue_close(at.queue);
    gpu_host_unregister(at.gpu, at.jpeg);
    munmap(at.jpeg, align_up(sizeof *at.jpeg, 4096));
    gpu_close(at.gpu);
    unsetenv(GPU_HOST_FAULTS);
}

static bool comes_true(const _Atomic bool *flag) {
    for (const uint64_t end = monotonic_ns() + PATIENCE_NS; monotonic_ns() < end; usleep(1000))
        if (atomic_load(flag))
            return true;
    return false;
}

// Its preparation does not end before may_end.
static void submit_first_one_held(void) {
    open_queue("");
    at.entries[0].may_end = false;
    engine_queue_submit(at.queue, &at.entries[0].job);
    assert_true(comes_true(&at.entries[0].prepared));
}

static void a_job_is_prepared_while_the_engine_decodes_another(void **state) {
    (void)state;
    open_queue("first_image_ms=2000");
    engine_queue_submit(at.queue, &at.entries[0].job);
    assert_true(comes_true(&at.entries[0].prepared));
    engine_queue_submit(at.queue, &at.entries[1].job);
    assert_true(comes_true(&at.entries[1].prepared));
    assert_false(atomic_load(&at.entries[0].job.done));
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(comes_true(&at.entries[i].job.done));
        assert_true(at.entries[i].image.decoded);
    }
    close_queue();
}

// The supervisor would take a transfer process whose engine does not move for one that hangs.
static void a_preparation_is_not_the_engines_time(void **state) {
    (void)state;
    submit_first_one_held();
    usleep(20000);
    const uint64_t now = monotonic_ns();
    assert_int_equal(engine_queue_moved_ns(at.queue, now), now);
    assert_false(engine_queue_warms_up(at.queue));
    atomic_store(&at.entries[0].may_end, true);
    assert_true(comes_true(&at.entries[0].job.done));
    close_queue();
}

// The library sets itself up for its first images, which can take longer than anything later. Such a job has none.
static void a_job_without_images_does_not_end_the_warm_up(void **state) {
    (void)state;
    open_queue("first_image_ms=400");
    at.entries[0].is_empty = true;
    engine_queue_submit(at.queue, &at.entries[0].job);
    assert_true(comes_true(&at.entries[0].job.done));
    assert_int_equal(at.entries[0].job.err, 0);
    engine_queue_submit(at.queue, &at.entries[1].job);
    bool warmed_up = false;
    while (!atomic_load(&at.entries[1].job.done)) {
        warmed_up |= engine_queue_warms_up(at.queue);
        usleep(1000);
    }
    assert_true(warmed_up);
    assert_false(engine_queue_warms_up(at.queue));
    assert_true(at.entries[1].image.decoded);
    close_queue();
}

// A batch that is ended late gives back its memory late.
static void jobs_are_done_in_their_order(void **state) {
    (void)state;
    submit_first_one_held();
    engine_queue_submit(at.queue, &at.entries[1].job); // the other thread has it
    assert_true(comes_true(&at.entries[1].prepared));
    usleep(50000);
    assert_false(atomic_load(&at.entries[1].job.done));
    atomic_store(&at.entries[0].may_end, true);
    assert_true(comes_true(&at.entries[1].job.done));
    assert_true(atomic_load(&at.entries[0].job.done));
    close_queue();
}

// The engine has one job at a time, whichever thread has it: the simulated one would count images wrong otherwise.
static void closing_waits_for_all_jobs(void **state) {
    (void)state;
    open_queue("refuse_image=4");
    for (uint32_t i = 0; i < JOBS; i++)
        engine_queue_submit(at.queue, &at.entries[i].job);
    engine_queue_close(at.queue);
    at.queue = NULL;
    uint32_t decoded = 0;
    for (uint32_t i = 0; i < JOBS; i++) {
        assert_true(atomic_load(&at.entries[i].job.done));
        assert_int_equal(at.entries[i].job.err, 0);
        decoded += at.entries[i].image.decoded;
    }
    assert_int_equal(decoded, JOBS - JOBS / 4);
    for (uint32_t i = 1; i < JOBS; i++)
        if (at.entries[0].image.decoded && at.entries[i].image.decoded)
            assert_memory_equal(at.planes[i], at.planes[0], WIDTH * HEIGHT);
    close_queue();
}

// nvJPEG copies images from other memory several times as slowly.
static void images_are_in_registered_memory(void **state) {
    static struct bytes jpeg;
    (void)state;
    open_queue("");
    encode(&jpeg, 2, false);
    at.entries[0].image.bytes = jpeg.at;
    engine_queue_submit(at.queue, &at.entries[0].job);
    assert_true(comes_true(&at.entries[0].job.done));
    assert_int_equal(at.entries[0].job.err, -EIO);
    assert_non_null(strstr(at.entries[0].job.error.text, "registered"));
    close_queue();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_prepared_while_the_engine_decodes_another),
        cmocka_unit_test(a_preparation_is_not_the_engines_time),
        cmocka_unit_test(a_job_without_images_does_not_end_the_warm_up),
        cmocka_unit_test(jobs_are_done_in_their_order),
        cmocka_unit_test(closing_waits_for_all_jobs),
        cmocka_unit_test(images_are_in_registered_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
