#include "client/lib/finisher.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/dtype.h"
#include "base/sizes.h"

#define FIELD_ALIGN 256u

// ---- What the daemon says ----------------------------------------------------------------------------------

static int refuse(struct error *error) {
    return error_set(error, -EPROTO, "feedd describes images that do not fit their pool");
}

// Three numbers of 1 to 65535, which are then in `shape` and in `batch`.
static bool take_shape(const Feedd__FinishedField *told, struct finished_field *field) {
    if (told->n_shape != 3)
        return false;
    field->dimensions = 3;
    for (uint32_t i = 0; i < 3; i++) {
        field->shape[i] = told->shape[i];
        if (told->shape[i] < 1 || told->shape[i] > 65535)
            return false;
    }
    const uint64_t *shape = field->shape;
    field->batch = (struct finish_batch){
        .area = told->area,
        .height = (uint32_t)shape[told->planes ? 1 : 0],
        .width = (uint32_t)shape[told->planes ? 2 : 1],
        .channels = (uint32_t)shape[told->planes ? 0 : 2],
        .element_bytes = dtype_bytes(told->dtype),
        .planes = told->planes,
    };
    field->sample_bytes = shape[0] * shape[1] * shape[2] * field->batch.element_bytes;
    return field->batch.channels == 1 || field->batch.channels == 3;
}

// The daemon is trusted as far as nothing here is written or read beyond its end.
static int take_field(struct finisher *finisher, const struct ring *ring, const Feedd__FinishedField *told,
                      struct error *error) {
    struct finished_field *field = &finisher->fields[finisher->count];
    if (told->field >= ring->header->field_count || !take_shape(told, field) ||
        told->area > ring->header->slot_bytes ||
        ring->header->fields[told->field].sample_bytes != IMAGE_RECORD_BYTES + told->area)
        return refuse(error);
    const uint32_t element = field->batch.element_bytes;
    if ((element != 1 && element != 2 && element != 4) ||
        told->table.len != 256ull * field->batch.channels * element)
        return refuse(error);
    field->field = told->field;
    field->dtype = told->dtype;
    field->offset = finisher->slot_bytes;
    memcpy(finisher->host + finisher->host_bytes - (RING_MAX_FIELDS - finisher->count) * FINISH_TABLE_BYTES,
           told->table.data, told->table.len);
    finisher->slot_bytes += align_up(field->sample_bytes * ring->header->batch_size, FIELD_ALIGN);
    finisher->count++;
    return 0;
}

// ---- Memory ------------------------------------------------------------------------------------------------

static int make_memory(struct gpu *gpu, uint64_t bytes, struct gpu_memory *memory, struct error *error) {
    int fd = -1;
    int err = gpu_create(gpu, gpu_round_up(gpu, bytes), memory, &fd, error);
    if (!err)
        close_fd(&fd);
    return err;
}

static int make_host(struct finisher *finisher, const struct ring *ring, struct error *error) {
    finisher->slots = ring->header->slot_count;
    finisher->host_bytes =
        align_up(ring_slot_words_bytes(ring->header), RING_PAGE) + RING_MAX_FIELDS * FINISH_TABLE_BYTES;
    void *memory =
        mmap(NULL, finisher->host_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "no memory to finish images: %m");
    int err = gpu_host_register(finisher->gpu, memory, finisher->host_bytes, false, &finisher->words_address,
                                error);
    if (err) {
        munmap(memory, finisher->host_bytes);
        return err;
    }
    finisher->host = memory;
    finisher->words = memory;
    finisher->outputs = calloc(finisher->slots, sizeof *finisher->outputs);
    return finisher->outputs ? 0 : error_set(error, -ENOMEM, "out of memory");
}

static int send_tables(struct finisher *finisher, struct error *error) {
    const uint64_t bytes = RING_MAX_FIELDS * FINISH_TABLE_BYTES;
    int err = make_memory(finisher->gpu, bytes, &finisher->tables, error);
    for (uint32_t i = 0; i < finisher->count; i++)
        finisher->fields[i].batch.table = finisher->tables.address + i * FINISH_TABLE_BYTES;
    return err ? err
               : gpu_copy_in(finisher->gpu, finisher->stream, finisher->tables.address,
                             finisher->host + finisher->host_bytes - bytes, bytes, error);
}

int finisher_open(struct finisher *finisher, struct gpu *gpu, const struct ring *ring,
                  const Feedd__Attached *attached, struct error *error) {
    *finisher = (struct finisher){0};
    if (!attached->n_images)
        return 0;
    if (!gpu || attached->n_images > RING_MAX_FIELDS || !gpu_finishes(gpu))
        return refuse(error);
    finisher->gpu = gpu;
    int err = make_host(finisher, ring, error);
    for (size_t i = 0; i < attached->n_images && !err; i++)
        err = take_field(finisher, ring, attached->images[i], error);
    if (!err)
        err = gpu_urgent_stream_create(gpu, &finisher->stream, error);
    if (!err)
        err = send_tables(finisher, error);
    if (err)
        finisher_close(finisher);
    return err;
}

void finisher_close(struct finisher *finisher) {
    if (!finisher->gpu)
        return;
    gpu_synchronize(finisher->gpu, NULL);
    gpu_stream_destroy(finisher->gpu, finisher->stream);
    for (uint32_t i = 0; finisher->outputs && i < finisher->slots; i++)
        gpu_free(finisher->gpu, &finisher->outputs[i]);
    gpu_free(finisher->gpu, &finisher->tables);
    if (finisher->host) {
        gpu_host_unregister(finisher->gpu, finisher->host);
        munmap(finisher->host, finisher->host_bytes);
    }
    free(finisher->outputs);
    *finisher = (struct finisher){0};
}

// ---- Batches -----------------------------------------------------------------------------------------------

const struct finished_field *finisher_field(const struct finisher *finisher, uint32_t field) {
    for (uint32_t i = 0; i < finisher->count; i++)
        if (finisher->fields[i].field == field)
            return &finisher->fields[i];
    return NULL;
}

uint64_t finisher_data(const struct finisher *finisher, const struct finished_field *field, uint32_t slot) {
    return finisher->outputs[slot].address + field->offset;
}

int finisher_queue(struct finisher *finisher, const struct mapped_pool *pool, const struct ring *ring,
                   uint32_t slot, uint64_t fill, uint32_t samples, struct error *error) {
    const struct ring_header *header = ring->header;
    struct gpu_memory *output = &finisher->outputs[slot];
    int err = output->bytes ? 0 : make_memory(finisher->gpu, finisher->slot_bytes, output, error);
    if (!err)
        err = mapped_pool_wait(pool, ring, slot, fill, finisher->stream, error);
    for (uint32_t i = 0; i < finisher->count && !err; i++) {
        const struct finished_field *field = &finisher->fields[i];
        struct finish_batch batch = field->batch;
        batch.count = samples < header->batch_size ? samples : header->batch_size;
        batch.records = gpu_slot_address(&pool->slots, slot) + header->fields[field->field].slot_offset;
        batch.pixels = batch.records + (uint64_t)header->batch_size * IMAGE_RECORD_BYTES;
        batch.output = output->address + field->offset;
        err = gpu_finish(finisher->gpu, finisher->stream, &batch, error);
    }
    const struct gpu_word done = {finisher->words_address + ring_slot_word(slot), fill};
    return err ? err : gpu_write_words(finisher->gpu, finisher->stream, &done, 1, error);
}

int finisher_wait(const struct finisher *finisher, uint32_t slot, uint64_t fill, gpu_stream stream,
                  struct error *error) {
    return gpu_wait_word(finisher->gpu, stream, finisher->words_address + ring_slot_word(slot), fill, error);
}

int finisher_settle(const struct finisher *finisher, uint32_t slot, uint64_t fill, struct error *error) {
    // Acquire: pairs with the word that the GPU writes after the kernels.
    if (atomic_load_explicit(&finisher->words[slot], memory_order_acquire) >= fill)
        return 0;
    return gpu_synchronize(finisher->gpu, error);
}
