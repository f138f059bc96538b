// Planning: whatever the layout, the planned reads bring exactly the right bytes to exactly the right places.
#include "base/error.h"
#include "base/sizes.h"
#include "shm/ring_loader.h"
#include "tests/unit/dataset_fixture.h"

// Does one request from the contents in memory, and checks that it keeps the rules of reader.h.
static void perform(const struct fixture *fixture, const struct read_request *request) {
    const struct dataset_file *file = &fixture->layout->files[request->file];
    assert_in_range(request->piece_count, 1, READER_MAX_PIECES);
    assert_in_range(request->bytes, 1, READER_MAX_BYTES);
    assert_true(request->offset + request->bytes <= file->bytes);
    const uint8_t *from = fixture->contents[request->file] + request->offset;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < request->piece_count; i++) {
        const struct iovec *piece = &request->pieces[i];
        if (piece->iov_base == reader_scratch)
            assert_true(piece->iov_len <= READER_SCRATCH_BYTES);
        else
            memcpy(piece->iov_base, from + bytes, piece->iov_len);
        bytes += piece->iov_len;
    }
    assert_int_equal(bytes, request->bytes);
}

// Every sample is served by as many bytes as it has, and no request names a sample it has nothing of.
static void check_members(const struct chunk_plan *plan) {
    uint32_t served = 0;
    for (uint32_t i = 0; i < plan->request_count; i++) {
        const struct read_request *request = &plan->requests[i];
        assert_in_range(request->sample_count, 1, plan->claim.count);
        assert_true(request->first_sample + request->sample_count <= plan->claim.count);
        served += request->sample_count;
    }
    assert_true(served >= plan->claim.count);
}

static void check_plan(struct fixture *fixture, struct chunk_plan *plan, const struct ring_claim *claim,
                       uint32_t flags) {
    assert_int_equal(chunk_plan_fill(plan, claim, flags), 0);
    check_members(plan);
    for (uint32_t i = 0; i < plan->request_count; i++)
        perform(fixture, &plan->requests[i]);
    fixture_check(fixture, plan, NULL);

    // The same once more with every merged request split.
    for (uint32_t i = 0; i < plan->request_count; i++) {
        struct read_request *request = &plan->requests[i], *list;
        int count = chunk_plan_split(plan, request, &list);
        assert_int_equal(count, request->sample_count > 1 ? request->sample_count : 0);
        if (count == 0)
            perform(fixture, request);
        for (uint32_t k = 0; list; list = list->next, k++) {
            assert_int_equal(list->sample_count, 1);
            assert_int_equal(chunk_request_sample(plan, list, 0), chunk_request_sample(plan, request, k));
            perform(fixture, list);
        }
    }
    fixture_check(fixture, plan, NULL);
}

static void random_stream(struct fixture_shape *shape, uint32_t index, uint64_t *random) {
    uint64_t end = 0;
    shape->stream[index].extents = 1 + (uint32_t)(fixture_random(random) % FIXTURE_EXTENTS);
    for (uint32_t i = 0; i < shape->stream[index].extents; i++) {
        uint64_t kind = fixture_random(random) % 4; // none, small, around the limit
        uint64_t gap = kind < 2 ? 0 : fixture_random(random) % (kind == 2 ? 10 : 2 * READER_SCRATCH_BYTES);
        uint64_t bytes = 1 + fixture_random(random) % (fixture_random(random) % 8 ? 100 : 5000);
        shape->stream[index].extent[i].offset = end + gap;
        shape->stream[index].extent[i].bytes = bytes;
        end += gap + bytes;
    }
    uint64_t kind = fixture_random(random) % 4;
    shape->stream[index].record_bytes =
        end + (kind < 2 ? 0 : fixture_random(random) % (kind == 2 ? 10 : 9000));
    if (fixture_random(random) % 4 == 0) // overlapping windows
        shape->stream[index].record_bytes = 1 + fixture_random(random) % end;
}

static void random_layouts(void **state) {
    (void)state;
    uint64_t random = 20;
    for (int round = 0; round < 250; round++) {
        struct fixture_shape shape = {.streams = 1 + (uint32_t)(fixture_random(&random) % 3), .slots = 2};
        shape.files = 1 + (uint32_t)(fixture_random(&random) % 4);
        for (uint32_t i = 0; i < shape.files; i++)
            shape.file_samples[i] = 1 + fixture_random(&random) % 100;
        shape.header_bytes = fixture_random(&random) % 300;
        shape.direct = fixture_random(&random) % 3 ? 0 : 512;
        shape.batch = 1 + (uint32_t)(fixture_random(&random) % 300);
        for (uint32_t i = 0; i < shape.streams; i++)
            random_stream(&shape, i, &random);
        struct fixture fixture;
        struct chunk_plan plan;
        fixture_make(&fixture, &shape);
        uint64_t samples = fixture.layout->samples;
        assert_int_equal(chunk_plan_init(&plan, fixture.layout, &fixture.ring, NULL, NULL), 0);
        for (int turn = 0; turn < 6; turn++) {
            struct ring_claim claim = {.slot = (uint32_t)turn % 2};
            claim.count = 1 + (uint32_t)(fixture_random(&random) % min_u64(shape.batch, samples));
            claim.first_sample = (uint32_t)(fixture_random(&random) % (shape.batch - claim.count + 1));
            fixture_shuffle(&fixture, &plan, claim.count, &random);
            for (uint32_t i = 0, first = (uint32_t)(fixture_random(&random) % (samples - claim.count + 1));
                 turn < 2 && i < claim.count; i++)
                plan.samples[i] = first + i;
            check_plan(&fixture, &plan, &claim,
                       turn == 5   ? 0
                       : turn == 4 ? CHUNK_MERGE
                                   : CHUNK_MERGE | CHUNK_SORT);
        }
        chunk_plan_free(&plan);
        fixture_free(&fixture);
    }
}

// ---- How many requests and pieces --------------------------------------------------------------------------

struct counts {
    uint32_t requests, pieces;
};

static struct counts count_plan(const struct fixture_shape *shape, bool shuffled, uint32_t flags) {
    struct fixture fixture;
    struct chunk_plan plan;
    uint64_t random = 7;
    fixture_make(&fixture, shape);
    assert_int_equal(chunk_plan_init(&plan, fixture.layout, &fixture.ring, NULL, NULL), 0);
    struct ring_claim claim = {.count = shape->batch};
    if (shuffled)
        fixture_shuffle(&fixture, &plan, claim.count, &random);
    for (uint32_t i = 0; !shuffled && i < claim.count; i++)
        plan.samples[i] = i;
    check_plan(&fixture, &plan, &claim, flags);
    struct counts counts = {plan.request_count, plan.piece_count};
    chunk_plan_free(&plan);
    fixture_free(&fixture);
    return counts;
}

#define ONE_STREAM(bytes_of_record, ...)                                                                     \
    .streams = 1, .slots = 1, .stream = {{.record_bytes = bytes_of_record, __VA_ARGS__}}
#define ONE_FIELD(bytes_of_field) .extents = 1, .extent = {{0, bytes_of_field}}

static void assert_counts(struct counts counts, uint32_t requests, uint32_t pieces) {
    assert_int_equal(counts.requests, requests);
    assert_int_equal(counts.pieces, pieces);
}

static void neighbours_become_one_read(void **state) {
    (void)state;
    struct fixture_shape plain = {ONE_STREAM(784, ONE_FIELD(784)), .files = 1, .file_samples = {300},
                                  .header_bytes = 16, .batch = 256};
    assert_counts(count_plan(&plain, false, CHUNK_MERGE), 1, 1);
    assert_counts(count_plan(&plain, false, 0), 256, 256);
    // All but 44 samples, shuffled: sorted they are runs with gaps small enough to be read over.
    struct counts sorted = count_plan(&plain, true, CHUNK_MERGE | CHUNK_SORT);
    assert_in_range(sorted.requests, 1, 3);
    struct counts unsorted = count_plan(&plain, true, CHUNK_MERGE);
    assert_in_range(unsorted.requests, 200, 256);

    struct fixture_shape two_files = {ONE_STREAM(784, ONE_FIELD(784)), .files = 2, .file_samples = {100, 200},
                                      .batch = 256};
    assert_counts(count_plan(&two_files, false, CHUNK_MERGE), 2, 2);
    struct fixture_shape far = {ONE_STREAM(9000, ONE_FIELD(784)), .files = 1, .file_samples = {64},
                                .batch = 64};
    assert_counts(count_plan(&far, false, CHUNK_MERGE), 64, 64);
}

static void interleaved_fields_are_scattered(void **state) {
    (void)state;
    // CIFAR-100: a byte nobody wants, a label, an image.
    struct fixture_shape cifar = {ONE_STREAM(3074, .extents = 2, .extent = {{1, 1}, {2, 3072}}), .files = 1,
                                  .file_samples = {80}, .batch = 64};
    assert_counts(count_plan(&cifar, false, CHUNK_MERGE), 1, 3 * 64 - 1);
    assert_counts(count_plan(&cifar, false, 0), 64, 2 * 64);
    // More than a scratch piece between the fields: two segments, and each field far from its next.
    struct fixture_shape apart = {ONE_STREAM(6000, .extents = 2, .extent = {{0, 10}, {5000, 1000}}),
                                  .files = 1, .file_samples = {10}, .batch = 10};
    assert_counts(count_plan(&apart, false, CHUNK_MERGE), 20, 20);
}

static void overlapping_windows_stay_apart(void **state) {
    (void)state;
    struct fixture_shape tokens = {ONE_STREAM(2048, ONE_FIELD(2050)), .files = 1, .file_samples = {80},
                                   .batch = 64};
    assert_counts(count_plan(&tokens, false, CHUNK_MERGE | CHUNK_SORT), 64, 64);
}

static void reads_stay_within_bounds(void **state) {
    (void)state;
    // 512 KiB hold 128 samples.
    struct fixture_shape many = {ONE_STREAM(4096, ONE_FIELD(4096)), .files = 1, .file_samples = {300},
                                 .batch = 256};
    assert_counts(count_plan(&many, false, CHUNK_MERGE), 2, 2);
    // 1024 pieces hold 341 samples of 3.
    struct fixture_shape pieces = {ONE_STREAM(10, .extents = 2, .extent = {{1, 1}, {4, 3}}), .files = 1,
                                   .file_samples = {1000}, .batch = 600};
    assert_in_range(count_plan(&pieces, false, CHUNK_MERGE).requests, 2, 4);
    // A big sample is cut where the file offset is a multiple of 4 KiB.
    struct fixture_shape big = {ONE_STREAM(3u << 20, ONE_FIELD(3u << 20)), .files = 1, .file_samples = {3},
                                .header_bytes = 100, .batch = 2};
    assert_counts(count_plan(&big, false, CHUNK_MERGE), 14, 14);
    struct fixture_shape big_fields = {
        ONE_STREAM(2000000, .extents = 3, .extent = {{0, 700000}, {700100, 1}, {702000, 1298000}}),
        .files = 2, .file_samples = {2, 2}, .header_bytes = 100, .batch = 4};
    assert_in_range(count_plan(&big_fields, false, CHUNK_MERGE).requests, 16, 20);
}

static void direct_reads_copy_their_ends_alone(void **state) {
    (void)state;
    // File offset 512 + i * 100000 and the slot agree modulo 512 for sample 0, and so for all.
    struct fixture_shape alike = {ONE_STREAM(100000, ONE_FIELD(100000)),
                                  .files = 1,
                                  .file_samples = {4},
                                  .header_bytes = 512,
                                  .slot_align = 4096,
                                  .direct = 512,
                                  .batch = 4};
    assert_counts(count_plan(&alike, false, 0), 11, 11); // sample 0 has no head
    struct fixture_shape otherwise = alike;
    otherwise.header_bytes = 16;
    assert_counts(count_plan(&otherwise, false, 0), 4, 4);
    assert_counts(count_plan(&alike, false, CHUNK_MERGE), 2, 2); // middle and tail of one read of 400000
}

static void failures_are_counted_once(void **state) {
    (void)state;
    struct fixture_shape shape = {ONE_STREAM(10, ONE_FIELD(10)), .files = 1, .file_samples = {300},
                                  .batch = 200};
    struct fixture fixture;
    struct chunk_plan plan;
    fixture_make(&fixture, &shape);
    assert_int_equal(chunk_plan_init(&plan, fixture.layout, &fixture.ring, NULL, NULL), 0);
    struct ring_claim claim = {.count = 200};
    for (uint32_t i = 0; i < 200; i++)
        plan.samples[i] = 299 - i;
    assert_int_equal(chunk_plan_fill(&plan, &claim, CHUNK_MERGE | CHUNK_SORT), 0);
    assert_int_equal(plan.request_count, 1);
    assert_int_equal(chunk_request_sample(&plan, plan.requests, 0), 199);
    assert_true(chunk_plan_mark_failed(&plan, 64));
    assert_false(chunk_plan_mark_failed(&plan, 64));
    assert_true(chunk_plan_mark_failed(&plan, 0));
    assert_int_equal(chunk_plan_fill(&plan, &claim, 0), 0);
    assert_true(chunk_plan_mark_failed(&plan, 0)); // forgotten by the fill

    claim.count = 201;
    assert_int_equal(chunk_plan_fill(&plan, &claim, 0), -EINVAL);
    claim.count = 200;
    plan.samples[199] = 300;
    assert_int_equal(chunk_plan_fill(&plan, &claim, 0), -EINVAL);
    chunk_plan_free(&plan);
    ((struct ring_header *)fixture.ring.header)->fields[0].sample_bytes = 11;
    struct error error = {0};
    assert_int_equal(chunk_plan_init(&plan, fixture.layout, &fixture.ring, NULL, &error), -EINVAL);
    assert_string_not_equal(error.text, "");
    fixture_free(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_layouts),
        cmocka_unit_test(neighbours_become_one_read),
        cmocka_unit_test(interleaved_fields_are_scattered),
        cmocka_unit_test(overlapping_windows_stay_apart),
        cmocka_unit_test(reads_stay_within_bounds),
        cmocka_unit_test(direct_reads_copy_their_ends_alone),
        cmocka_unit_test(failures_are_counted_once),
    };
    return cmocka_run_group_tests_name("chunk", tests, NULL, NULL);
}
