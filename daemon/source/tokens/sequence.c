#include "daemon/source/tokens/sequence.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "daemon/source/build/builder_groups.h"
#include "daemon/source/tokens/boundaries.h"
#include "daemon/source/tokens/sequence_layout.h"

int sequence_init(struct builder *builder, struct sequence *sequence, uint32_t dtype,
                  const struct sequence_room *room) {
    *sequence = (struct sequence){.dtype = dtype};
    sequence->documents.starts = calloc(room->documents + 1, sizeof *sequence->documents.starts);
    sequence->stretches = calloc(room->stretches + 1, sizeof *sequence->stretches);
    sequence->blocks = calloc(room->blocks + 1, sizeof *sequence->blocks);
    sequence->file_ends = calloc(room->files + 1ull, sizeof *sequence->file_ends);
    return sequence->documents.starts && sequence->stretches && sequence->blocks && sequence->file_ends
               ? 0
               : builder_out_of_memory(builder);
}

void sequence_release(struct sequence *sequence) {
    free(sequence->documents.starts);
    free(sequence->stretches);
    free(sequence->blocks);
    free(sequence->file_ends);
    *sequence = (struct sequence){0};
}

void sequence_add_blocks(struct sequence *sequence, const struct index_blocks *blocks) {
    if (blocks->count)
        memcpy(sequence->blocks + sequence->block_count, blocks->blocks,
               blocks->count * sizeof *blocks->blocks);
    sequence->block_count += blocks->count;
}

void sequence_add_stretch(struct sequence *sequence, uint64_t place, uint64_t offset, uint64_t tokens) {
    const uint64_t before = sequence->documents.values;
    if (!tokens)
        return;
    sequence->stretches[sequence->stretch_count++] = (struct index_stretch){
        .first = before * dtype_bytes(sequence->dtype), .offset = offset, .file = (uint32_t)place};
    sequence->documents.values = before + tokens;
}

void sequence_add_document(struct sequence *sequence, uint64_t tokens) {
    struct documents *documents = &sequence->documents;
    documents->starts[documents->count + 1] = documents->starts[documents->count] + tokens;
    documents->count++;
}

void sequence_end_file(struct sequence *sequence) {
    sequence->file_ends[sequence->file_count++] = sequence->documents.values;
}

// ---- The index ---------------------------------------------------------------------------------------------

static uint64_t most_stretches(const struct index_windows *windows, const struct index_stretch *stretches,
                               uint64_t stride, uint64_t window_bytes) {
    uint64_t most = 0, first = 0, last = 0;
    for (uint64_t begin = 0; begin + window_bytes <= windows->bytes; begin += stride) {
        while (first + 1 < windows->count && stretches[first + 1].first <= begin)
            first++;
        while (last + 1 < windows->count && stretches[last + 1].first < begin + window_bytes)
            last++;
        if (last - first + 1 > most)
            most = last - first + 1;
    }
    return most;
}

int sequence_place(struct builder *builder, const struct index_windows *windows,
                   const struct index_stretch *stretches, uint64_t *most) {
    struct dataset_layout *layout = builder->dataset->layout;
    const uint64_t window_bytes = layout->columns[0].bytes;
    const uint64_t stride = window_bytes - dtype_bytes(layout->fields[0].dtype);
    *most = most_stretches(windows, stretches, stride, window_bytes);
    if (*most > DATASET_MAX_STRETCHES)
        return -EFBIG;
    layout->columns[0].offset = offsetof(struct sequence_head, windows);
    layout->columns[1].offset = layout->columns[2].offset = offsetof(struct sequence_head, documents);
    for (uint32_t i = 0; i < 3; i++)
        layout->columns[i].stretches = (uint32_t)*most;
    layout->streams[0].record_bytes = stride;
    return 0;
}

int sequence_add_groups(struct builder *builder, const struct index_windows *windows,
                        const struct index_stretch *stretches, uint64_t samples) {
    const uint64_t token_bytes = dtype_bytes(builder->dataset->layout->fields[0].dtype);
    uint64_t begin = 0;
    int err = 0;
    if (!builder->dataset->layout->blocks.coded)
        return 0;
    for (uint64_t i = 0; i < windows->count && !err; i++) {
        const uint64_t end = i + 1 < windows->count ? stretches[i + 1].first : windows->bytes;
        const uint64_t next = sequence_windows_before(builder, end / token_bytes, samples);
        if (next > begin)
            err = builder_add_group(builder, begin);
        begin = next;
    }
    return err;
}

static int check(struct builder *builder, const struct sequence *sequence, uint64_t windows) {
    const uint64_t pack = builder->config->pack;
    const struct document_files all = {.dtype = sequence->dtype, .documents = sequence->documents.count};
    if (!windows)
        return builder_refuse(builder, -EINVAL, NULL,
                              "found %" PRIu64 " tokens in all files, wanted at least %" PRIu64
                              ", which is one window of pack+1",
                              sequence->documents.values, pack + 1);
    if (windows > INDEX_MAX_SAMPLES)
        return builder_refuse(builder, -EFBIG, NULL,
                              "found %" PRIu64 " windows, wanted at most %u; pack more tokens into each",
                              windows, INDEX_MAX_SAMPLES);
    return documents_check(builder, &all, &sequence->documents, NULL);
}

static int place(struct builder *builder, const struct sequence *sequence,
                 const struct index_windows *windows, const struct document_files *all) {
    uint64_t most;
    if (sequence_place(builder, windows, sequence->stretches, &most))
        return builder_refuse(builder, -EFBIG, NULL,
                              "found a window in %" PRIu64
                              " record batches or row groups, wanted at most %u; write larger ones, or pack"
                              " fewer tokens",
                              most, DATASET_MAX_STRETCHES);
    struct dataset_layout *layout = builder->dataset->layout;
    layout->blocks = (struct dataset_blocks){
        .offset = sequence_starts_end(sequence->stretch_count, sequence->documents.count),
        .count = sequence->block_count};
    for (uint64_t i = 0; i < sequence->block_count; i++)
        builder_index_count_block(layout, &sequence->blocks[i]);
    layout->index_bytes = layout->blocks.offset + sequence->block_count * sizeof *sequence->blocks;
    int err = sequence_add_groups(builder, windows, sequence->stretches,
                                  documents_windows(&sequence->documents, builder->config->pack));
    return err || !builder->config->cu_seqlens ? err : boundaries_place(builder, all);
}

static int write_index(struct index_writer *writer, const struct sequence *sequence,
                       const struct index_windows *windows, const struct document_files *all) {
    const struct index_documents documents = {.count = sequence->documents.count,
                                              .starts = sequence_starts_at(sequence->stretch_count)};
    int err = index_write(writer, &documents, sizeof documents);
    if (!err)
        err = index_write(writer, windows, sizeof *windows);
    for (uint64_t i = 0; i < sequence->stretch_count && !err; i++)
        err = index_write(writer, &sequence->stretches[i], sizeof sequence->stretches[i]);
    for (uint64_t i = 0; i < documents.count && !err; i++)
        err = index_write(writer, &sequence->documents.starts[i], sizeof sequence->documents.starts[i]);
    for (uint64_t i = 0; i < sequence->block_count && !err; i++)
        err = index_write(writer, &sequence->blocks[i], sizeof sequence->blocks[i]);
    return err || !writer->builder->config->cu_seqlens ? err : boundaries_write(writer, all);
}

int sequence_index(struct builder *builder, const struct sequence *sequence, uint64_t *counts) {
    struct documents documents = sequence->documents;
    const struct document_files all = {.files = &documents, .count = 1, .dtype = sequence->dtype};
    const uint64_t samples = documents_windows(&documents, builder->config->pack);
    const struct index_windows windows = {.bytes = documents.values * dtype_bytes(sequence->dtype),
                                          .count = sequence->stretch_count};
    int err = check(builder, sequence, samples);
    if (!err)
        err = place(builder, sequence, &windows, &all);
    if (err)
        return err;
    for (uint32_t i = 0; i < sequence->file_count; i++)
        counts[i] = sequence_windows_before(builder, sequence->file_ends[i], samples) -
                    sequence_windows_before(builder, i ? sequence->file_ends[i - 1] : 0, samples);
    AUTO_FREE struct index_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return builder_out_of_memory(builder);
    err = index_writer_open(writer, builder, samples);
    if (!err)
        err = write_index(writer, sequence, &windows, &all);
    if (!err)
        err = index_writer_finish(writer);
    index_writer_close(writer);
    return err;
}
