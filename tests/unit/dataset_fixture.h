// Made-up datasets with random bytes in memory, and a ring to read them into, for the tests of planning and reading.
#ifndef FEEDD_TESTS_UNIT_DATASET_FIXTURE_H
#define FEEDD_TESTS_UNIT_DATASET_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>
#include <sys/mman.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/loader/chunk.h"

#define FIXTURE_FILES   8
#define FIXTURE_EXTENTS 4
#define FIXTURE_UNUSED  0xEE // what the ring holds where nothing was read

// All streams have the same division into files.
struct fixture_shape {
    uint32_t streams;
    struct {
        uint64_t record_bytes;
        uint32_t extents;
        struct {
            uint64_t offset, bytes;
            uint64_t delivered; // 0: as many bytes
        } extent[FIXTURE_EXTENTS];
    } stream[3];
    uint32_t files;
    uint64_t file_samples[FIXTURE_FILES];
    uint64_t header_bytes;
    uint64_t slot_align; // of a field's array; 0: 64
    uint32_t direct;     // alignment; 0: not O_DIRECT
    uint32_t batch, slots;
};

struct fixture {
    struct dataset_layout *layout;
    uint8_t **contents; // a file each
    struct ring ring;
    uint64_t ring_bytes; // of the data
};

static inline uint64_t fixture_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static inline void fixture_add_files(struct fixture *fixture, const struct fixture_shape *shape,
                                     uint32_t index) {
    struct dataset_stream *stream = &fixture->layout->streams[index];
    const struct dataset_extent *last = &stream->extents[stream->extent_count - 1];
    uint64_t first_sample = 0, random = index + 1;
    stream->first_file = index * shape->files;
    stream->file_count = shape->files;
    for (uint32_t i = 0; i < shape->files; i++) {
        uint32_t number = stream->first_file + i;
        struct dataset_file *file = &fixture->layout->files[number];
        // The last record ends with its last needed byte: reading beyond it hits the end of the file.
        *file = (struct dataset_file){.first_sample = first_sample,
                                      .samples = shape->file_samples[i],
                                      .data_offset = shape->header_bytes + i * shape->header_bytes,
                                      .direct_memory = shape->direct,
                                      .direct_offset = shape->direct};
        file->bytes =
            file->data_offset + (file->samples - 1) * stream->record_bytes + last->offset + last->bytes;
        first_sample += file->samples;
        fixture->contents[number] = malloc(file->bytes);
        assert_non_null(fixture->contents[number]);
        for (uint64_t at = 0; at < file->bytes; at++)
            fixture->contents[number][at] = (uint8_t)fixture_random(&random);
    }
    fixture->layout->samples = first_sample;
}

static inline void fixture_add_fields(struct fixture *fixture, const struct fixture_shape *shape,
                                      uint32_t index) {
    struct dataset_layout *layout = fixture->layout;
    struct ring_header *header = (struct ring_header *)fixture->ring.header; // made below
    struct dataset_stream *stream = &layout->streams[index];
    stream->record_bytes = shape->stream[index].record_bytes;
    stream->extent_count = shape->stream[index].extents;
    for (uint32_t i = 0; i < stream->extent_count; i++) {
        uint64_t bytes = shape->stream[index].extent[i].bytes;
        stream->extents[i] = (struct dataset_extent){
            .field = layout->field_count, .offset = shape->stream[index].extent[i].offset, .bytes = bytes};
        if (shape->stream[index].extent[i].delivered)
            bytes = shape->stream[index].extent[i].delivered;
        layout->fields[layout->field_count].sample_bytes = bytes;
        header->fields[layout->field_count] = (struct ring_field){
            .sample_bytes = bytes, .slot_offset = align_up(header->slot_bytes, shape->slot_align ?: 64)};
        header->slot_bytes = header->fields[layout->field_count].slot_offset + bytes * shape->batch;
        layout->field_count++;
    }
}

static inline void fixture_make(struct fixture *fixture, const struct fixture_shape *shape) {
    *fixture = (struct fixture){0};
    uint32_t files = shape->streams * shape->files;
    fixture->layout = calloc(1, sizeof *fixture->layout + files * sizeof fixture->layout->files[0]);
    fixture->contents = calloc(files, sizeof *fixture->contents);
    struct ring_header *header = calloc(1, sizeof *header);
    if (!header)
        abort(); // the analyzer does not know that an assertion ends the test
    assert_true(fixture->layout && fixture->contents);
    fixture->ring.header = header;
    header->slot_count = shape->slots;
    header->batch_size = header->chunk_samples = shape->batch;
    fixture->layout->stream_count = shape->streams;
    fixture->layout->file_count = files;
    for (uint32_t i = 0; i < shape->streams; i++) {
        fixture_add_fields(fixture, shape, i);
        fixture_add_files(fixture, shape, i);
    }
    header->field_count = fixture->layout->field_count;
    header->slot_bytes = align_up(header->slot_bytes, RING_PAGE);
    fixture->ring_bytes = header->slot_bytes * header->slot_count;
    fixture->ring.data =
        mmap(NULL, fixture->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(fixture->ring.data, MAP_FAILED);
    memset(fixture->ring.data, FIXTURE_UNUSED, fixture->ring_bytes);
    // Of the control part, only the records of the slots: header->slots_offset is 0.
    fixture->ring.control = calloc(shape->slots, sizeof(struct ring_slot));
    assert_non_null(fixture->ring.control);
}

static inline void fixture_free(struct fixture *fixture) {
    free(fixture->ring.control);
    for (uint32_t i = 0; i < fixture->layout->file_count; i++)
        free(fixture->contents[i]);
    munmap(fixture->ring.data, fixture->ring_bytes);
    free((void *)fixture->ring.header);
    free(fixture->contents);
    free(fixture->layout);
}

// Where the bytes of a sample's extent must have come from: found without dataset_find_file.
static inline const uint8_t *fixture_source(const struct fixture *fixture,
                                            const struct dataset_stream *stream,
                                            const struct dataset_extent *extent, uint64_t sample) {
    uint32_t number = stream->first_file;
    const struct dataset_file *file = &fixture->layout->files[number];
    while (sample >= file->first_sample + file->samples)
        file = &fixture->layout->files[++number];
    return fixture->contents[number] + file->data_offset +
           (sample - file->first_sample) * stream->record_bytes + extent->offset;
}

// Checks a filled chunk, `skipped` (may be NULL) samples of it excepted: every byte that belongs to it is right, and
// every other byte of the ring untouched. Leaves the ring unused.
static inline void fixture_check(const struct fixture *fixture, const struct chunk_plan *plan,
                                 const bool *skipped) {
    const struct ring_claim *claim = &plan->claim;
    for (uint32_t s = 0; s < fixture->layout->stream_count; s++) {
        const struct dataset_stream *stream = &fixture->layout->streams[s];
        for (uint32_t e = 0; e < stream->extent_count; e++) {
            const struct dataset_extent *extent = &stream->extents[e];
            uint8_t *array = ring_slot_data(&fixture->ring, claim->slot) +
                             fixture->ring.header->fields[extent->field].slot_offset;
            for (uint32_t i = 0; i < claim->count; i++) {
                uint8_t *got = array + (claim->first_sample + i) * extent->bytes;
                if (!skipped || !skipped[i])
                    assert_memory_equal(got, fixture_source(fixture, stream, extent, plan->samples[i]),
                                        extent->bytes);
                memset(got, FIXTURE_UNUSED, extent->bytes);
            }
        }
    }
    for (uint64_t at = 0; at < fixture->ring_bytes; at++)
        if (fixture->ring.data[at] != FIXTURE_UNUSED)
            fail_msg("byte %lu of the ring was written by nobody's wish", (unsigned long)at);
}

// `count` different samples in random order.
static inline void fixture_shuffle(const struct fixture *fixture, struct chunk_plan *plan, uint32_t count,
                                   uint64_t *random) {
    uint64_t samples = fixture->layout->samples;
    AUTO_FREE uint64_t *all = calloc(samples, sizeof *all);
    assert_true(all && count <= samples);
    for (uint64_t i = 0; i < samples; i++)
        all[i] = i;
    for (uint32_t i = 0; i < count && i < samples; i++) {
        uint64_t other = i + fixture_random(random) % (samples - i), sample = all[other];
        all[other] = all[i];
        plan->samples[i] = all[i] = sample;
    }
}

#endif
