#include "daemon/transfer/images.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/image/jpeg.h"
#include "daemon/transfer/plain_jpeg.h"

#define LIBRARY_AT_ONCE 8u // images that libjpeg decodes before they are copied

// Memory that is registered with the GPU.
struct pinned {
    uint8_t *memory;
    uint64_t bytes;
};

struct images {
    struct gpu *gpu;
    struct engine *engine; // NULL: there is none
    const struct ring *source, *pool;
    uint64_t pool_address;
    struct image_jpeg *jpeg;
    struct pinned records; // of each slot of the pool and each field with images
    struct pinned planes;  // that libjpeg makes
    uint32_t fields;       // with images
    // Of the batch that is being decoded.
    uint8_t *bytes; // private copies of its JPEGs: loaders can change what is in the ring
    uint64_t room;
    struct engine_image *jobs;
    uint64_t *places; // in `bytes`
    struct images_counts counts;
};

static bool has_images(const struct ring *source, const struct ring *pool, uint32_t field) {
    return pool->header->fields[field].sample_bytes != source->header->fields[field].sample_bytes;
}

bool images_wanted(const struct ring *source, const struct ring *pool) {
    for (uint32_t i = 0; i < pool->header->field_count && i < source->header->field_count; i++)
        if (has_images(source, pool, i))
            return true;
    return false;
}

struct images_counts images_count(const struct images *images) {
    return images->counts;
}

// ---- Opening and closing -----------------------------------------------------------------------------------

static int pin(struct gpu *gpu, uint64_t bytes, struct pinned *pinned, struct error *error) {
    uint64_t address, size = align_up(bytes, RING_PAGE);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "no memory for images: %m");
    int err = gpu_host_register(gpu, memory, size, false, &address, error);
    if (err)
        munmap(memory, size);
    else
        *pinned = (struct pinned){memory, size};
    return err;
}

static void unpin(struct gpu *gpu, const struct pinned *pinned) {
    if (!pinned->memory)
        return;
    gpu_host_unregister(gpu, pinned->memory);
    munmap(pinned->memory, pinned->bytes);
}

static int check_fields(struct images *images, uint64_t *area, struct error *error) {
    const struct ring_header *source = images->source->header, *pool = images->pool->header;
    bool same = source->field_count == pool->field_count && source->batch_size == pool->batch_size &&
                !source->ragged_count;
    *area = 0;
    for (uint32_t i = 0; same && i < pool->field_count; i++) {
        if (!has_images(images->source, images->pool, i))
            continue;
        same = source->fields[i].sample_bytes > IMAGE_RECORD_BYTES &&
               pool->fields[i].sample_bytes > IMAGE_RECORD_BYTES;
        *area = max_u64(*area, pool->fields[i].sample_bytes - IMAGE_RECORD_BYTES);
        images->fields++;
    }
    return same ? 0 : error_set(error, -EPROTO, "the pool's ring does not match the feed's");
}

static int allocate(struct images *images, uint64_t area, struct error *error) {
    const struct ring_header *pool = images->pool->header;
    uint64_t records = (uint64_t)pool->slot_count * images->fields * pool->batch_size * IMAGE_RECORD_BYTES;
    images->jobs = calloc(pool->batch_size, sizeof *images->jobs);
    images->places = calloc(pool->batch_size, sizeof *images->places);
    if (!images->jobs || !images->places)
        return error_set(error, -ENOMEM, "no memory for images");
    int err = pin(images->gpu, records, &images->records, error);
    return err ? err : pin(images->gpu, area * LIBRARY_AT_ONCE, &images->planes, error);
}

int images_open(struct images **images, struct gpu *gpu, struct engine *engine, const struct ring *source,
                const struct ring *pool, uint64_t pool_address, struct error *error) {
    struct images *made = calloc(1, sizeof *made);
    uint64_t area;
    if (!made)
        return error_set(error, -ENOMEM, "no memory for images");
    *made = (struct images){
        .gpu = gpu, .engine = engine, .source = source, .pool = pool, .pool_address = pool_address};
    int err = check_fields(made, &area, error);
    if (!err)
        err = allocate(made, area, error);
    if (!err)
        err = image_jpeg_open(&made->jpeg, error);
    if (err)
        images_close(made);
    else
        *images = made;
    return err;
}

void images_close(struct images *images) {
    if (!images)
        return;
    unpin(images->gpu, &images->records);
    unpin(images->gpu, &images->planes);
    image_jpeg_close(images->jpeg);
    free(images->bytes);
    free(images->jobs);
    free(images->places);
    free(images);
}

// ---- One field of a batch ----------------------------------------------------------------------------------

struct field_work {
    struct images *images;
    const struct images_batch *batch;
    gpu_stream stream;
    const uint8_t *from; // samples in the feed's ring
    uint64_t from_bytes; // of one
    struct image_record *records;
    uint64_t to; // of the records in the pool; the pixels follow those of a full batch
    uint64_t area;
    uint32_t jobs; // of images that are to be decoded
    struct error *error;
};

static uint64_t pixels_of(const struct field_work *work, uint32_t sample) {
    return work->to + (uint64_t)work->images->pool->header->batch_size * IMAGE_RECORD_BYTES +
           sample * work->area;
}

static bool make_room(struct images *images, uint64_t bytes) {
    if (bytes <= images->room)
        return true;
    uint64_t room = align_up(bytes, 16u << 20);
    uint8_t *more = realloc(images->bytes, room);
    if (!more)
        return false;
    images->bytes = more;
    images->room = room;
    return true;
}

// Copies the records, each once, and the JPEGs; finished pixels go to the pool directly.
static int gather(struct field_work *work) {
    struct images *images = work->images;
    uint64_t used = 0;
    for (uint32_t i = 0; i < work->batch->count; i++) {
        const uint8_t *sample = work->from + i * work->from_bytes;
        struct image_record *record = &work->records[i];
        memcpy(record, sample, sizeof *record);
        const bool inside = record->bytes <= work->from_bytes - sizeof *record;
        if (inside && record->kind == IMAGE_RECORD_PIXELS && record->bytes <= work->area) {
            int err = gpu_copy_in(images->gpu, work->stream, pixels_of(work, i), sample + sizeof *record,
                                  record->bytes, work->error);
            if (err)
                return err;
            images->counts.finished++;
        } else if (inside && record->kind == IMAGE_RECORD_JPEG && image_record_fits(record, work->area)) {
            if (!make_room(images, used + record->bytes))
                return error_set(work->error, -ENOMEM, "no memory for the images of a batch");
            memcpy(images->bytes + used, sample + sizeof *record, record->bytes);
            images->places[work->jobs] = used;
            images->jobs[work->jobs++] = (struct engine_image){.record = record, .to = pixels_of(work, i)};
            used += record->bytes;
        } else {
            record->kind = IMAGE_RECORD_NONE; // a loader has written what it should not
        }
    }
    return 0;
}

// Moves those that the engine may get to the front, and has it decode them.
static int decode_with_engine(struct field_work *work) {
    struct images *images = work->images;
    uint32_t plain = 0;
    for (uint32_t i = 0; i < work->jobs; i++)
        images->jobs[i].bytes = images->bytes + images->places[i];
    if (!images->engine || work->batch->without_engine)
        return 0;
    for (uint32_t i = 0; i < work->jobs; i++) {
        struct engine_image job = images->jobs[i];
        if (!plain_jpeg_is(job.bytes, job.record->bytes, job.record))
            continue;
        images->jobs[i] = images->jobs[plain];
        images->jobs[plain++] = job;
    }
    return engine_decode(images->engine, work->stream, images->jobs, plain, work->error);
}

// The others, a few at a time: their memory is used again.
static int decode_with_library(struct field_work *work) {
    struct images *images = work->images;
    uint32_t held = 0;
    int err = 0;
    for (uint32_t i = 0; i < work->jobs && !err; i++) {
        struct engine_image *job = &images->jobs[i];
        job->decoded ? images->counts.by_engine++ : images->counts.by_library++;
        if (job->decoded)
            continue;
        uint8_t *planes = images->planes.memory + held++ * work->area;
        err =
            image_jpeg_planes(images->jpeg, job->bytes, job->record->bytes, job->record, planes, work->error);
        if (!err)
            err = gpu_copy_in(images->gpu, work->stream, job->to, planes,
                              image_record_plane_bytes(job->record), work->error);
        if (!err && held == LIBRARY_AT_ONCE) {
            err = gpu_synchronize(images->gpu, work->error);
            held = 0;
        }
    }
    return err || !held ? err : gpu_synchronize(images->gpu, work->error);
}

static int queue_images(struct field_work *work) {
    int err = gather(work);
    if (!err)
        err = decode_with_engine(work);
    if (!err)
        err = decode_with_library(work);
    for (uint32_t i = 0; i < work->batch->count; i++)
        if (work->records[i].kind == IMAGE_RECORD_JPEG)
            work->records[i].kind = IMAGE_RECORD_PLANES;
    return err ? err
               : gpu_copy_in(work->images->gpu, work->stream, work->to, work->records,
                             work->batch->count * sizeof *work->records, work->error);
}

int images_queue(struct images *images, gpu_stream stream, const struct images_batch *batch,
                 struct error *error) {
    const struct ring_header *source = images->source->header, *pool = images->pool->header;
    const uint8_t *from = ring_slot_data(images->source, batch->source);
    const uint64_t to = images->pool_address + batch->slot * pool->slot_bytes;
    struct image_record *records = (struct image_record *)(void *)images->records.memory +
                                   (uint64_t)batch->slot * images->fields * pool->batch_size;
    int err = 0;
    for (uint32_t i = 0; i < pool->field_count && batch->count && !err; i++) {
        const struct ring_field *field = &source->fields[i];
        if (!has_images(images->source, images->pool, i)) {
            err = gpu_copy_in(images->gpu, stream, to + pool->fields[i].slot_offset,
                              from + field->slot_offset, batch->count * field->sample_bytes, error);
            continue;
        }
        struct field_work work = {.images = images,
                                  .batch = batch,
                                  .stream = stream,
                                  .from = from + field->slot_offset,
                                  .from_bytes = field->sample_bytes,
                                  .records = records,
                                  .to = to + pool->fields[i].slot_offset,
                                  .area = pool->fields[i].sample_bytes - IMAGE_RECORD_BYTES,
                                  .error = error};
        err = queue_images(&work);
        records += pool->batch_size;
    }
    return err;
}
