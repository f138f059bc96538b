// Stages between read and slot: a sample that a stage refuses is treated as unreadable, and reads continue while
// stages run.
#include "tests/unit/stage_fixture.h"

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/log.h"
#include "order/replace.h"

#define BATCH 48u

static const struct ring_shape small = {.slots = 2, .batch = BATCH, .chunk_samples = 16, .words = 3};
// 8 samples of 32 KiB in a slice.
static const struct ring_shape large = {.slots = 2, .batch = BATCH, .chunk_samples = 24, .words = 4095};

static bool is_skipped(const struct test_loader *loader, uint32_t slot, uint32_t sample) {
    return atomic_load(&ring_skips(&loader->ring, slot)[sample / 64]) >> (sample % 64) & 1;
}

// The samples of a batch, all of which have been through the stage but those skipped.
static void check_batch(const struct test_loader *loader, uint32_t slot) {
    const struct ring_slot *batch = ring_slot(&loader->ring, slot);
    for (uint32_t i = 0; i < BATCH; i++)
        if (!is_skipped(loader, slot, i))
            assert_true(fixture_sample_is(&loader->ring, slot, i, batch->first_position + i));
}

static void samples_go_through_the_stage_once(void **state) {
    (void)state;
    struct test_loader loader;
    fixture_open(&loader, &small, 256, ON_ERROR_FAIL);
    fixture_dispatch(&loader, 1, 0);
    fixture_dispatch(&loader, 0, 1);
    fixture_work(&loader);
    assert_int_equal(ring_slot_poll(&loader.ring, 1), RING_SLOT_READY);
    assert_int_equal(ring_slot_poll(&loader.ring, 0), RING_SLOT_READY);
    check_batch(&loader, 1);
    check_batch(&loader, 0);
    for (uint32_t i = 0; i < FIXTURE_SAMPLES; i++)
        assert_int_equal(loader.stage.seen[i], i < 2 * BATCH);
    assert_int_equal(loader.stage.runs, 6); // a run per chunk: small samples are not handed over one by one
    assert_int_equal(fixture_counter(&loader, LOADER_samples), 2 * BATCH);
    fixture_close(&loader);
}

static void refused_samples_are_skipped(void **state) {
    (void)state;
    static const uint32_t refused[] = {0, 1, 15, 16, 40, 47};
    struct test_loader loader;
    fixture_open(&loader, &small, 256, ON_ERROR_SKIP);
    for (uint32_t i = 0; i < COUNT_OF(refused); i++)
        loader.stage.refused[refused[i]] = true;
    fixture_dispatch(&loader, 0, 0);
    fixture_work(&loader);
    for (uint32_t i = 0; i < BATCH; i++)
        assert_int_equal(is_skipped(&loader, 0, i), loader.stage.refused[i]);
    check_batch(&loader, 0);
    assert_int_equal(fixture_counter(&loader, LOADER_skipped), COUNT_OF(refused));
    assert_int_equal(fixture_counter(&loader, LOADER_samples), BATCH - COUNT_OF(refused));
    // The holes are closed as those of unreadable samples are.
    assert_int_equal(ring_slot_poll(&loader.ring, 0), RING_SLOT_FILLING);
    fixture_work(&loader);
    assert_int_equal(ring_slot_poll(&loader.ring, 0), RING_SLOT_READY);
    assert_int_equal(ring_slot(&loader.ring, 0)->skipped, COUNT_OF(refused));
    fixture_close(&loader);
}

static void unreadable_samples_do_not_reach_the_stage(void **state) {
    (void)state;
    struct test_loader loader;
    fixture_open(&loader, &small, 256, ON_ERROR_SKIP);
    loader.reader.bad[3] = loader.reader.bad[4] = loader.reader.bad[31] = true;
    loader.stage.refused[4] = loader.stage.refused[5] = true;
    fixture_dispatch(&loader, 0, 0);
    fixture_work(&loader);
    for (uint32_t i = 0; i < BATCH; i++) {
        assert_int_equal(loader.stage.seen[i], !loader.reader.bad[i]);
        assert_int_equal(is_skipped(&loader, 0, i), loader.reader.bad[i] || loader.stage.refused[i]);
    }
    check_batch(&loader, 0);
    assert_int_equal(fixture_counter(&loader, LOADER_skipped), 4);
    fixture_close(&loader);
}

// What is written to standard error while `work` runs.
static char *capture(struct test_loader *loader, void (*work)(struct test_loader *)) {
    AUTO_CLOSE int sink = memfd_create("stderr", MFD_CLOEXEC), kept = dup(STDERR_FILENO);
    assert_true(sink >= 0 && kept >= 0 && dup2(sink, STDERR_FILENO) == STDERR_FILENO);
    work(loader);
    dup2(kept, STDERR_FILENO);
    char *text = calloc(1, 65536);
    assert_non_null(text);
    assert_true(pread(sink, text, 65535, 0) >= 0);
    return text;
}

static void a_refused_sample_fails_the_feed(void **state) {
    (void)state;
    struct test_loader loader;
    fixture_open(&loader, &small, 256, ON_ERROR_FAIL);
    log_open("loader", LOG_LEVEL_INFO);
    loader.stage.refused[20] = true;
    fixture_dispatch(&loader, 0, 0);
    AUTO_FREE char *text = capture(&loader, fixture_work);
    struct ring_error error;
    assert_int_equal(ring_slot_poll(&loader.ring, 0), RING_SLOT_FAILED);
    assert_true(ring_take_failure(&loader.ring, &error));
    assert_int_equal(error.code, -EBADMSG);
    assert_int_equal(error.file, 0);
    assert_int_equal(error.sample, 20);
    assert_int_equal(error.offset, fixture_offset(&loader, 20) + 8); // the field's, not the record's
    assert_non_null(strstr(text, "sample 20 was refused by its test: file 0 of the dataset, offset "));
    assert_non_null(strstr(text, ": sample 20 is not to the test's liking\n"));
    assert_int_equal(fixture_counter(&loader, LOADER_skipped), 0);
    fixture_close(&loader);
}

// A truncated file or a folder of broken images: a few lines per second.
static void many_refusals_write_few_lines(void **state) {
    (void)state;
    struct test_loader loader;
    fixture_open(&loader, &small, 256, ON_ERROR_SKIP);
    log_open("loader", LOG_LEVEL_INFO);
    memset(loader.stage.refused, true, sizeof loader.stage.refused);
    fixture_dispatch(&loader, 0, 0);
    AUTO_FREE char *text = capture(&loader, fixture_work);
    uint32_t lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    assert_in_range(lines, 5, 20);
    assert_int_equal(fixture_counter(&loader, LOADER_skipped), BATCH);
    fixture_close(&loader);
}

// The first chunk's stages run in slices; reads of other chunks are submitted and taken back in between, and nothing
// waits for a read while a stage has work.
static void reads_continue_while_stages_run(void **state) {
    (void)state;
    struct test_loader loader;
    fixture_open(&loader, &large, 40, ON_ERROR_FAIL);
    fixture_dispatch(&loader, 0, 0);
    fixture_dispatch(&loader, 1, 1);
    while (!job_staging(&loader.board))
        assert_true(job_round(&loader.board, &loader.reader.reader, true));
    loader.reader.most = 3; // slow storage from here on
    loader.reader.waits = 0;
    while (loader.stage.runs < 3) {
        if (loader.stage.runs == 2)
            loader.reader.most = 0; // nothing is complete
        assert_true(job_round(&loader.board, &loader.reader.reader, true));
    }
    assert_int_equal(loader.reader.waits, 0);
    loader.reader.most = 3;
    fixture_work(&loader);
    for (uint32_t i = 0; i < 3; i++)
        assert_in_range(loader.stage.run[i].count, 1, 8);
    assert_true(loader.stage.run[1].submitted > loader.stage.run[0].submitted);
    assert_true(loader.stage.run[2].submitted > loader.stage.run[1].submitted);
    assert_true(loader.stage.run[2].reaps > loader.stage.run[0].reaps);
    check_batch(&loader, 0);
    check_batch(&loader, 1);
    fixture_close(&loader);
}

// What waits for the stages counts as in flight: another loader may have idle hands.
static void a_slow_stage_does_not_hoard_chunks(void **state) {
    (void)state;
    static const struct ring_shape shape = {.slots = 4, .batch = BATCH, .chunk_samples = 4, .words = 4095};
    struct test_loader loader;
    fixture_open(&loader, &shape, 16, ON_ERROR_FAIL);
    for (uint32_t slot = 0; slot < shape.slots; slot++)
        fixture_dispatch(&loader, slot, slot);
    uint32_t turns = 0;
    do {
        uint32_t claimed = 0;
        for (uint32_t slot = 0; slot < shape.slots; slot++)
            for (uint32_t chunk = 0; chunk < BATCH / 4; chunk++)
                claimed += chunk_state(atomic_load(&ring_chunks(&loader.ring, slot)[chunk])) == CHUNK_CLAIMED;
        assert_in_range(claimed, 0, 16 / 4 + 1);
        assert_true(turns++ < 10000);
    } while (job_round(&loader.board, &loader.reader.reader, true));
    for (uint32_t slot = 0; slot < shape.slots; slot++)
        check_batch(&loader, slot);
    fixture_close(&loader);
}

static void a_stage_says_what_it_takes(void **state) {
    (void)state;
    struct test_loader loader;
    struct chunk_plan plan;
    fixture_open(&loader, &small, 256, ON_ERROR_FAIL);
    loader.settings->layout.streams[0].extents[1].bytes = 20; // not a multiple of 8
    assert_int_equal(chunk_plan_init(&plan, &loader.settings->layout, &loader.ring, &loader.stages, NULL),
                     -EINVAL);
    loader.settings->layout.streams[0].extents[1].bytes =
        32; // no room in the slot, and none asked for outside it
    assert_int_equal(chunk_plan_init(&plan, &loader.settings->layout, &loader.ring, &loader.stages, NULL),
                     -EINVAL);
    fixture_close(&loader);
}

// ---- What a slow stage lacks ---------------------------------------------------------------------------------

// The other field has the fixture's stage, which works in place.
static struct {
    struct stage stage;
    uint32_t lacks[FIXTURE_SAMPLES]; // how often each sample is yet to be refused for want of memory
    uint32_t runs;
} slow;

static int slow_bytes_needed(const struct stage *stage, uint64_t stored_bytes, uint64_t *bytes) {
    (void)stage;
    *bytes = stored_bytes;
    return 0;
}

static void slow_run(struct stage *stage, const struct stage_run *run) {
    (void)stage;
    slow.runs++;
    memset(run->delivered, 0, run->delivered_bytes);
    if (slow.lacks[run->samples[0]]) {
        slow.lacks[run->samples[0]]--;
        stage_refuse(run, 0, -ENOMEM, "no memory for its image");
        return;
    }
    for (uint64_t at = 0; at < run->stored_bytes; at++)
        run->delivered[at] = (uint8_t)~run->stored[at];
}

static void open_slow(struct test_loader *loader, enum on_error on_error) {
    static const struct stage_ops ops = {.name = "slow",
                                         .slow = true,
                                         .bytes_needed = slow_bytes_needed,
                                         .run = slow_run,
                                         .close = test_stage_close};
    fixture_open(loader, &small, 256, on_error);
    job_board_close(&loader->board);
    memset(&slow, 0, sizeof slow);
    slow.stage.ops = &ops;
    loader->stages.of_field[0] = &loader->stage.stage;
    loader->stages.of_field[1] = &slow.stage;
    loader->board = (struct job_board){.ring = loader->ring,
                                       .settings = loader->settings,
                                       .stages = &loader->stages,
                                       .stats = loader->stats,
                                       .event_fd = loader->board.event_fd};
    assert_int_equal(job_board_open(&loader->board, NULL), 0);
    fixture_dispatch(loader, 0, 0);
}

static void check_slow(const struct test_loader *loader) {
    const struct ring_field *fields = loader->ring.header->fields;
    for (uint32_t i = 0; i < BATCH; i++) {
        const uint8_t *slot = ring_slot_data(&loader->ring, 0);
        const uint64_t *number = (const uint64_t *)(const void *)(slot + fields[0].slot_offset) + i;
        const uint64_t *words =
            (const uint64_t *)(const void *)(slot + fields[1].slot_offset + i * fields[1].sample_bytes);
        assert_int_equal(loader->stage.seen[i], 1);
        assert_int_equal(*number, ~(uint64_t)i);
        for (uint32_t at = 0; !is_skipped(loader, 0, i) && at < small.words; at++)
            assert_int_equal(words[at], fixture_word(i, at));
    }
}

// Others may give some back.
static void a_slow_stage_that_lacks_memory_is_tried_again(void **state) {
    (void)state;
    struct test_loader loader;
    open_slow(&loader, ON_ERROR_FAIL);
    slow.lacks[0] = 1;
    slow.lacks[20] = 9; // for half a second
    fixture_work(&loader);
    assert_int_equal(ring_slot_poll(&loader.ring, 0), RING_SLOT_READY);
    assert_int_equal(slow.runs, BATCH + 10);
    check_slow(&loader);
    fixture_close(&loader);
}

static void memory_is_not_waited_for_indefinitely(void **state) {
    (void)state;
    struct test_loader loader;
    open_slow(&loader, ON_ERROR_SKIP);
    log_open("loader", LOG_LEVEL_INFO);
    slow.lacks[5] = slow.lacks[6] = UINT32_MAX;
    const uint64_t began = monotonic_ns();
    AUTO_FREE char *text = capture(&loader, fixture_work);
    assert_in_range(monotonic_ns() - began, 2 * NS_PER_S, 20 * NS_PER_S);
    assert_non_null(strstr(text, "sample 5 was refused by its slow: "));
    assert_non_null(strstr(text, ": no memory for its image"));
    assert_int_equal(fixture_counter(&loader, LOADER_skipped), 2);
    assert_true(is_skipped(&loader, 0, 5) && is_skipped(&loader, 0, 6));
    assert_int_equal(UINT32_MAX - slow.lacks[6], 3); // sample 6 has three attempts of its own
    check_slow(&loader);
    fixture_close(&loader);
}

// ---- Replacing -----------------------------------------------------------------------------------------------

// What stands in the place of a sample: the first of those that the order names which the stage takes.
static uint64_t expected_sample(const struct test_loader *loader, uint64_t position) {
    uint64_t seed = loader->ring.header->seed, sample = position;
    for (uint32_t attempt = 1; loader->reader.bad[sample] || loader->stage.refused[sample]; attempt++) {
        assert_true(attempt <= REPLACE_ATTEMPTS);
        sample = replace_number(seed, FIXTURE_EPOCH, position, attempt, FIXTURE_SAMPLES);
    }
    return sample;
}

static void refused_and_unreadable_samples_are_replaced(void **state) {
    (void)state;
    static const struct ring_shape *const shapes[] = {&small, &large};
    for (size_t k = 0; k < COUNT_OF(shapes); k++) {
        struct test_loader loader;
        fixture_open(&loader, shapes[k], 256, ON_ERROR_REPLACE);
        loader.board.sampler.samples = FIXTURE_SAMPLES;
        for (uint32_t i = 0; i < FIXTURE_SAMPLES; i++) {
            loader.stage.refused[i] = i % 3 == 0;
            loader.reader.bad[i] = i % 5 == 0;
        }
        fixture_dispatch(&loader, 0, 0);
        fixture_work(&loader);
        assert_int_equal(ring_slot_poll(&loader.ring, 0), RING_SLOT_READY);
        uint32_t replaced = 0;
        for (uint32_t i = 0; i < BATCH; i++) {
            uint64_t sample = expected_sample(&loader, i);
            assert_true(fixture_sample_is(&loader.ring, 0, i, sample));
            replaced += sample != i;
        }
        assert_int_equal(fixture_counter(&loader, LOADER_replaced), replaced);
        assert_int_equal(fixture_counter(&loader, LOADER_skipped), 0);
        assert_int_equal(fixture_counter(&loader, LOADER_samples), BATCH);
        assert_true(atomic_load(&loader.stats->bad_totals[BAD_REPLACED]) >= replaced);
        fixture_close(&loader);
    }
}

static void a_chunk_without_replacements_fails(void **state) {
    (void)state;
    struct test_loader loader;
    fixture_open(&loader, &small, 256, ON_ERROR_REPLACE);
    loader.board.sampler.samples = FIXTURE_SAMPLES;
    for (uint32_t i = 0; i < FIXTURE_SAMPLES; i++)
        loader.stage.refused[i] = true;
    fixture_dispatch(&loader, 0, 0);
    fixture_work(&loader);
    assert_int_equal(ring_slot_poll(&loader.ring, 0), RING_SLOT_FAILED);
    assert_int_equal(atomic_load(&loader.stats->bad_totals[BAD_FATAL]), 3); // a chunk each
    fixture_close(&loader);
}

// Each read in flight may be the slow one of its chunk.
static void there_is_a_job_for_each_read(void **state) {
    (void)state;
    struct test_loader loader;
    fixture_open(&loader, &small, 256, ON_ERROR_FAIL);
    while (job_board_add(&loader.board, NULL) == 0)
        ;
    assert_true(loader.board.job_count >= 256);
    assert_int_equal(job_board_add(&loader.board, NULL), -EAGAIN);
    fixture_close(&loader);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(there_is_a_job_for_each_read),
                                       cmocka_unit_test(samples_go_through_the_stage_once),
                                       cmocka_unit_test(refused_samples_are_skipped),
                                       cmocka_unit_test(refused_and_unreadable_samples_are_replaced),
                                       cmocka_unit_test(a_chunk_without_replacements_fails),
                                       cmocka_unit_test(unreadable_samples_do_not_reach_the_stage),
                                       cmocka_unit_test(a_refused_sample_fails_the_feed),
                                       cmocka_unit_test(many_refusals_write_few_lines),
                                       cmocka_unit_test(reads_continue_while_stages_run),
                                       cmocka_unit_test(a_slow_stage_does_not_hoard_chunks),
                                       cmocka_unit_test(a_slow_stage_that_lacks_memory_is_tried_again),
                                       cmocka_unit_test(memory_is_not_waited_for_indefinitely),
                                       cmocka_unit_test(a_stage_says_what_it_takes)};
    return cmocka_run_group_tests_name("stage", tests, NULL, NULL);
}
