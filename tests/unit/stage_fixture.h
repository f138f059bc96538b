// A loader in one thread: a real ring, a job board, a reader that copies from memory when it is told to, and a stage
// that inverts a field and refuses the samples that a test names.
#ifndef FEEDD_TESTS_UNIT_STAGE_FIXTURE_H
#define FEEDD_TESTS_UNIT_STAGE_FIXTURE_H

#include "tests/unit/ring_fixture.h"

#include <sys/eventfd.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/loader/job_round.h"
#include "daemon/log.h"
#include "daemon/on_error.h"
#include "shm/ring_supervisor.h"

#define FIXTURE_SAMPLES 256u
#define FIXTURE_HEADER  16u // of the dataset's one file
#define FIXTURE_EPOCH   3u  // as fixture_place has it

struct test_reader {
    struct reader reader;
    const struct test_loader *loader;
    struct read_request *queue, **end;
    uint32_t most;             // completions per reap
    uint32_t submitted;        // requests, ever
    uint32_t reaps, waits;     // calls; of them with a timeout
    bool bad[FIXTURE_SAMPLES]; // samples that cannot be read
};

struct test_stage {
    struct stage stage;
    const struct test_loader *loader;
    bool refused[FIXTURE_SAMPLES];
    uint32_t seen[FIXTURE_SAMPLES]; // how often the stage was given each sample
    uint32_t runs;
    struct {
        uint32_t count, submitted, reaps; // samples of the run; what the reader had done by then
    } run[64];
};

struct test_loader {
    struct ring ring;
    struct job_board board;
    struct stage_set stages;
    struct test_reader reader;
    struct test_stage stage;
    struct stats_loader *stats;
    struct loader_settings *settings;
    uint8_t *file;
    uint64_t record_bytes;
};

static inline uint64_t fixture_offset(const struct test_loader *loader, uint64_t sample) {
    return FIXTURE_HEADER + sample * loader->record_bytes;
}

// ---- The reader -------------------------------------------------------------------------------------------

static inline int test_submit(struct reader *reader, struct read_request *request) {
    struct test_reader *self = (struct test_reader *)reader;
    if (reader->in_flight == reader->depth)
        return -EBUSY;
    reader->in_flight++;
    self->submitted++;
    request->next = NULL;
    *self->end = request;
    self->end = &request->next;
    return 0;
}

static inline void test_read(const struct test_reader *self, struct read_request *request) {
    const uint8_t *from = self->loader->file + request->offset;
    for (uint32_t i = 0; i < request->piece_count; i++) {
        const struct iovec *piece = &request->pieces[i];
        if (piece->iov_base != reader_scratch)
            memcpy(piece->iov_base, from, piece->iov_len);
        from += piece->iov_len;
    }
    uint64_t first = (request->offset - FIXTURE_HEADER) / self->loader->record_bytes;
    uint64_t end = divide_up(request->offset - FIXTURE_HEADER + request->bytes, self->loader->record_bytes);
    request->result = 0;
    for (uint64_t sample = first; sample < end; sample++)
        if (self->bad[sample])
            request->result = -EIO;
}

static inline struct read_request *test_reap(struct reader *reader, int timeout_ms) {
    struct test_reader *self = (struct test_reader *)reader;
    struct read_request *list = self->queue, **end = &self->queue;
    self->reaps++;
    self->waits += timeout_ms > 0;
    for (uint32_t i = 0; i < self->most && *end; i++, end = &(*end)->next) {
        test_read(self, *end);
        reader->in_flight--;
    }
    if (end == &self->queue)
        return NULL;
    self->queue = *end;
    *end = NULL;
    if (!self->queue)
        self->end = &self->queue;
    return list;
}

// ---- The stage --------------------------------------------------------------------------------------------

static inline int test_bytes_needed(const struct stage *stage, uint64_t stored_bytes, uint64_t *bytes) {
    (void)stage;
    *bytes = 0;
    return stored_bytes % 8 ? -EINVAL : 0;
}

static inline void test_stage_run(struct stage *stage, const struct stage_run *run) {
    struct test_stage *self = (struct test_stage *)stage;
    assert_true(run->stored_bytes == run->delivered_bytes && run->epoch == FIXTURE_EPOCH);
    if (self->runs < COUNT_OF(self->run)) {
        self->run[self->runs].count = run->count;
        self->run[self->runs].submitted = self->loader->reader.submitted;
        self->run[self->runs].reaps = self->loader->reader.reaps;
    }
    self->runs++;
    const uint64_t *from = (const uint64_t *)run->stored;
    uint64_t *to = (uint64_t *)run->delivered;
    for (uint32_t i = 0; i < run->count; i++) {
        uint64_t sample = run->samples[i];
        // The order is sequential.
        assert_true(sample == run->first_position + i ||
                    self->loader->settings->on_error == ON_ERROR_REPLACE);
        self->seen[sample]++;
        if (self->refused[sample])
            stage_refuse(run, i, -EBADMSG, "sample %u is not to the test's liking", (unsigned)sample);
        for (uint64_t at = 0; at < run->stored_bytes / 8; at++)
            *to++ = ~*from++;
    }
}

static inline void test_stage_close(struct stage *stage) {
    (void)stage;
}

static const struct stage_ops test_stage_ops = {
    .name = "test", .bytes_needed = test_bytes_needed, .run = test_stage_run, .close = test_stage_close};

// ---- The loader -------------------------------------------------------------------------------------------

static inline void fixture_make_dataset(struct test_loader *loader, uint32_t words) {
    loader->record_bytes = 8 + 8ull * words;
    struct dataset_layout *layout = &loader->settings->layout;
    layout->samples = FIXTURE_SAMPLES;
    layout->field_count = 2;
    layout->stream_count = layout->file_count = 1;
    layout->streams[0] = (struct dataset_stream){
        .record_bytes = loader->record_bytes,
        .file_count = 1,
        .extent_count = 2,
        .extents = {{.field = 0, .bytes = 8}, {.field = 1, .offset = 8, .bytes = 8ull * words}}};
    layout->files[0] = (struct dataset_file){.samples = FIXTURE_SAMPLES,
                                             .data_offset = FIXTURE_HEADER,
                                             .bytes = fixture_offset(loader, FIXTURE_SAMPLES)};
    loader->file = malloc(layout->files[0].bytes);
    assert_non_null(loader->file);
    for (uint64_t sample = 0; sample < FIXTURE_SAMPLES; sample++) {
        uint64_t *record = (uint64_t *)(loader->file + fixture_offset(loader, sample));
        record[0] = sample;
        for (uint64_t at = 0; at < words; at++)
            record[1 + at] = ~fixture_word(sample, at);
    }
}

// Reads of one sample each, so that `depth` counts samples.
static inline void fixture_open(struct test_loader *loader, const struct ring_shape *shape, uint32_t depth,
                                enum on_error on_error) {
    *loader = (struct test_loader){0};
    log_set_level(LOG_LEVEL_ERROR);
    fixture_ring(&loader->ring, shape);
    loader->settings = calloc(1, sizeof *loader->settings + sizeof loader->settings->layout.files[0]);
    loader->stats = aligned_alloc(RING_PAGE, sizeof *loader->stats);
    assert_true(loader->settings && loader->stats);
    memset(loader->stats, 0, sizeof *loader->stats);
    loader->settings->serial = 5;
    loader->settings->queue_depth = depth;
    loader->settings->on_error = on_error;
    fixture_make_dataset(loader, shape->words);
    loader->reader.reader =
        (struct reader){.kind = READER_URING, .submit = test_submit, .reap = test_reap, .depth = depth};
    loader->reader.end = &loader->reader.queue;
    loader->reader.loader = loader->stage.loader = loader;
    loader->reader.most = UINT32_MAX;
    loader->stage.stage.ops = &test_stage_ops;
    loader->stages.of_field[1] = &loader->stage.stage;
    loader->board.ring = loader->ring;
    loader->board.settings = loader->settings;
    loader->board.stages = &loader->stages;
    loader->board.stats = loader->stats;
    loader->board.event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_int_equal(job_board_open(&loader->board, NULL), 0);
}

static inline void fixture_close(struct test_loader *loader) {
    job_board_close(&loader->board);
    close_fd(&loader->board.event_fd);
    ring_unmap(&loader->ring);
    free(loader->settings);
    free(loader->stats);
    free(loader->file);
}

static inline void fixture_dispatch(struct test_loader *loader, uint32_t slot, uint64_t sequence) {
    uint32_t batch = loader->ring.header->batch_size;
    struct batch_place place = fixture_place(sequence, batch, batch);
    assert_true(ring_dispatch(&loader->ring, slot, &(struct ring_batch){1, 0, sequence}, &place));
}

// Turns of the loader until it has nothing to do.
static inline void fixture_work(struct test_loader *loader) {
    for (uint32_t turns = 0; job_round(&loader->board, &loader->reader.reader, true); turns++)
        assert_true(turns < 10000);
}

static inline uint64_t fixture_counter(const struct test_loader *loader, uint32_t counter) {
    return atomic_load(&loader->stats->counters[counter]);
}

#endif
