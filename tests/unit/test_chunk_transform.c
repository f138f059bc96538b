// Planning with transforms: what is read ends up where it is transformed from, and what comes of it where it belongs,
// whatever the layout; nothing else is touched.
#include "tests/unit/dataset_fixture.h"

#include "base/dtype.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/loader/chunk_stage.h"
#include "daemon/loader/stage/transform_run.h"
#include "shm/ring_loader.h"

static const uint32_t dtypes[] = {DTYPE_U8, DTYPE_I16, DTYPE_F32, DTYPE_F64};
static const uint32_t targets[] = {DTYPE_F32, DTYPE_F16, 0}; // 0: delivered as it is stored

struct field_kind {
    uint32_t source, target;
    uint64_t elements;
};

static void perform(const struct fixture *fixture, const struct read_request *request) {
    const uint8_t *from = fixture->contents[request->file] + request->offset;
    for (uint32_t i = 0; i < request->piece_count; i++) {
        const struct iovec *piece = &request->pieces[i];
        if (piece->iov_base != reader_scratch)
            memcpy(piece->iov_base, from, piece->iov_len);
        from += piece->iov_len;
    }
}

// Some requests whole, others split, as after an error.
static void read_all(const struct fixture *fixture, struct chunk_plan *plan, uint64_t *random) {
    for (uint32_t i = 0; i < plan->request_count; i++) {
        struct read_request *list = NULL;
        if (fixture_random(random) % 2 == 0 && chunk_plan_split(plan, &plan->requests[i], &list) > 0)
            for (; list; list = list->next)
                perform(fixture, list);
        else
            perform(fixture, &plan->requests[i]);
    }
}

static void nothing_is_refused(void *context, const struct chunk_refusal *refusal) {
    (void)context;
    fail_msg("sample %u: %s", refusal->sample, refusal->error->text);
}

// In slices, as a loader does.
static void stage_all(struct chunk_plan *plan, uint64_t *random) {
    for (uint32_t first = 0, count; first < plan->claim.count; first += count) {
        count = 1 + (uint32_t)(fixture_random(random) % (plan->claim.count - first));
        chunk_stage_run(plan, first, count, nothing_is_refused, NULL);
    }
}

static int open_stages(struct stage_set *stages, const struct fixture *fixture) {
    return stage_set_open(stages, fixture->layout, fixture->ring.header->fields, false, NULL);
}

static void check_extent(const struct fixture *fixture, const struct chunk_plan *plan,
                         const struct dataset_stream *stream, const struct dataset_extent *extent) {
    const struct ring_field *field = &fixture->ring.header->fields[extent->field];
    const struct transform *transform = &fixture->layout->transforms[extent->field];
    uint8_t *array = ring_slot_data(&fixture->ring, plan->claim.slot) + field->slot_offset;
    AUTO_FREE uint8_t *wanted = malloc(field->sample_bytes);
    assert_non_null(wanted);
    for (uint32_t i = 0; i < plan->claim.count; i++) {
        const uint8_t *stored = fixture_source(fixture, stream, extent, plan->samples[i]);
        uint8_t *got = array + (plan->claim.first_sample + i) * field->sample_bytes;
        if (transform->stored)
            transform_run(transform, stored, wanted, 1);
        else
            memcpy(wanted, stored, extent->bytes);
        assert_memory_equal(got, wanted, field->sample_bytes);
        memset(got, FIXTURE_UNUSED, field->sample_bytes);
    }
}

static void check(const struct fixture *fixture, const struct chunk_plan *plan) {
    for (uint32_t s = 0; s < fixture->layout->stream_count; s++) {
        const struct dataset_stream *stream = &fixture->layout->streams[s];
        for (uint32_t e = 0; e < stream->extent_count; e++)
            check_extent(fixture, plan, stream, &stream->extents[e]);
    }
    for (uint64_t at = 0; at < fixture->ring_bytes; at++)
        if (fixture->ring.data[at] != FIXTURE_UNUSED)
            fail_msg("byte %lu of the ring was written by nobody's wish", (unsigned long)at);
}

static struct field_kind random_kind(uint64_t *random) {
    return (struct field_kind){.source = dtypes[fixture_random(random) % COUNT_OF(dtypes)],
                               .target = targets[fixture_random(random) % COUNT_OF(targets)],
                               .elements = 1 + fixture_random(random) % 90};
}

static void random_stream(struct fixture_shape *shape, uint32_t index, struct field_kind *kinds,
                          uint64_t *random) {
    uint64_t end = 0;
    shape->stream[index].extents = 1 + (uint32_t)(fixture_random(random) % FIXTURE_EXTENTS);
    for (uint32_t i = 0; i < shape->stream[index].extents; i++) {
        kinds[i] = random_kind(random);
        uint64_t bytes = kinds[i].elements * dtype_bytes(kinds[i].source);
        end += fixture_random(random) % 2 ? 0 : fixture_random(random) % 30;
        shape->stream[index].extent[i].offset = end;
        shape->stream[index].extent[i].bytes = bytes;
        shape->stream[index].extent[i].delivered = kinds[i].elements * dtype_bytes(kinds[i].target);
        end += bytes;
    }
    shape->stream[index].record_bytes = end + fixture_random(random) % 3;
}

static void set_transforms(struct fixture *fixture, const struct field_kind *kinds) {
    static const char *const texts[] = {"scale 1/255, mean 0.5", "standardise", "shift 1", ""};
    for (uint32_t i = 0; i < fixture->layout->field_count && i < 2 * FIXTURE_EXTENTS; i++) {
        char text[64];
        if (!kinds[i].target)
            continue;
        snprintf(text, sizeof text, "%s%scast %s", texts[i % 4], *texts[i % 4] ? ", " : "",
                 dtype_name(kinds[i].target));
        struct transform *transform = &fixture->layout->transforms[i];
        assert_int_equal(transform_parse(text, transform, NULL), 0);
        assert_int_equal(transform_fit(transform, kinds[i].source, 1, &kinds[i].elements, NULL), 0);
    }
}

static void random_layouts(void **state) {
    (void)state;
    uint64_t random = 77;
    for (int round = 0; round < 300; round++) {
        struct field_kind kinds[2 * FIXTURE_EXTENTS] = {0};
        struct fixture_shape shape = {.streams = 1 + (uint32_t)(fixture_random(&random) % 2), .slots = 2};
        shape.files = 1 + (uint32_t)(fixture_random(&random) % 3);
        for (uint32_t i = 0; i < shape.files; i++)
            shape.file_samples[i] = 1 + fixture_random(&random) % 60;
        shape.direct = fixture_random(&random) % 3 ? 0 : 512;
        shape.batch = 1 + (uint32_t)(fixture_random(&random) % 150);
        for (uint32_t i = 0, fields = 0; i < shape.streams; fields += shape.stream[i++].extents)
            random_stream(&shape, i, kinds + fields, &random);
        struct fixture fixture;
        struct stage_set stages;
        struct chunk_plan plan;
        fixture_make(&fixture, &shape);
        set_transforms(&fixture, kinds);
        assert_int_equal(open_stages(&stages, &fixture), 0);
        assert_int_equal(chunk_plan_init(&plan, fixture.layout, &fixture.ring, &stages, NULL), 0);
        for (uint32_t turn = 0; turn < 4; turn++) {
            uint64_t most = min_u64(shape.batch, fixture.layout->samples);
            struct ring_claim claim = {.slot = turn % 2};
            claim.count = 1 + (uint32_t)(fixture_random(&random) % most);
            claim.first_sample = (uint32_t)(fixture_random(&random) % (shape.batch - claim.count + 1));
            fixture_shuffle(&fixture, &plan, claim.count, &random);
            assert_int_equal(chunk_plan_fill(&plan, &claim, turn ? CHUNK_MERGE | CHUNK_SORT : 0), 0);
            read_all(&fixture, &plan, &random);
            stage_all(&plan, &random);
            check(&fixture, &plan);
        }
        chunk_plan_free(&plan);
        stage_set_close(&stages);
        fixture_free(&fixture);
    }
}

// What the supervisor says of a transform must be what the ring has room for.
static void transforms_that_do_not_fit_are_refused(void **state) {
    (void)state;
    struct fixture_shape shape = {.streams = 1,
                                  .stream = {{.record_bytes = 10, .extents = 1, .extent = {{0, 10, 40}}}},
                                  .files = 1,
                                  .file_samples = {5},
                                  .batch = 4,
                                  .slots = 1};
    struct field_kind kinds[2 * FIXTURE_EXTENTS] = {{DTYPE_U8, DTYPE_F32, 10}};
    struct fixture fixture;
    struct stage_set stages;
    struct chunk_plan plan;
    fixture_make(&fixture, &shape);
    assert_int_equal(chunk_plan_init(&plan, fixture.layout, &fixture.ring, NULL, NULL),
                     -EINVAL); // without one
    set_transforms(&fixture, kinds);
    struct transform good = fixture.layout->transforms[0], *transform = &fixture.layout->transforms[0];
    transform->elements = 11;
    assert_int_equal(open_stages(&stages, &fixture), -EINVAL);
    *transform = good;
    transform->target = DTYPE_F16;
    assert_int_equal(open_stages(&stages, &fixture), -EINVAL);
    *transform = good;
    transform->step_count = TRANSFORM_MAX_STEPS + 1;
    assert_int_equal(open_stages(&stages, &fixture), -EINVAL);
    *transform = good;
    transform->stored = DTYPE_U16;
    assert_int_equal(open_stages(&stages, &fixture), 0);
    assert_int_equal(chunk_plan_init(&plan, fixture.layout, &fixture.ring, &stages, NULL), -EINVAL);
    stage_set_close(&stages);
    *transform = good;
    assert_int_equal(open_stages(&stages, &fixture), 0);
    const struct chunk_part whole = {.layout = fixture.layout, .stages = &stages};
    assert_int_equal(chunk_apart_bytes(&whole, 1, &fixture.ring), 0);
    assert_int_equal(chunk_plan_init(&plan, fixture.layout, &fixture.ring, &stages, NULL), 0);
    chunk_plan_free(&plan);
    stage_set_close(&stages);
    fixture_free(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_layouts),
                                       cmocka_unit_test(transforms_that_do_not_fit_are_refused)};
    return cmocka_run_group_tests_name("chunk_transform", tests, NULL, NULL);
}
