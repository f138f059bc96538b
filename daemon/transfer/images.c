#include "daemon/transfer/images.h"

#include <stdlib.h>
#include <string.h>

#include "base/lack.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/image/jpeg.h"
#include "daemon/log.h"
#include "daemon/transfer/pinned.h"
#include "daemon/transfer/plain_jpeg.h"

#define LIBRARY_AT_ONCE 8u         // images that libjpeg decodes before they are copied,
#define LIBRARY_PIXELS  (2u << 20) // ... or fewer that have so many pixels together
#define ROOM_STEP       (256u << 10)

// A batch whose images are being decoded.
struct work {
    bool busy;
    struct images_batch batch;
    gpu_stream stream;
    bool by_engine; // what it takes
    struct engine_job job;
    struct engine_image
        *jobs;            // all of its images: in the ring until prepared; the engine then has those in front
    uint32_t count, next; // `next`: that the second half comes to
    struct pinned bytes;  // private copies of its JPEGs: loaders can change what is in the ring
    uint64_t used;
};

struct images {
    struct gpu *gpu;
    struct engine_queue *engine; // NULL: there is none
    const struct ring *source, *pool;
    uint64_t pool_address;
    bool tolerant;
    struct image_jpeg *jpeg;
    struct pinned records; // of each slot of the pool and each field with images
    struct pinned planes;  // that libjpeg makes
    uint32_t fields;       // with images
    uint64_t area;         // of the largest of them in the pool
    struct work works[IMAGES_AT_ONCE];
    struct images_counts counts;
    struct lack lack; // of memory for libjpeg
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

uint64_t images_pinned_bytes(const struct images *images) {
    uint64_t bytes = images ? images->records.bytes + images->planes.bytes : 0;
    for (uint32_t i = 0; images && i < IMAGES_AT_ONCE; i++)
        bytes += images->works[i].bytes.bytes;
    return bytes;
}

// ---- Opening and closing -----------------------------------------------------------------------------------

static int check_fields(struct images *images, struct error *error) {
    const struct ring_header *source = images->source->header, *pool = images->pool->header;
    // With ragged fields, a slot of a pool has less than slot_bytes, and a loader can write what the source says.
    bool same = source->field_count == pool->field_count && source->batch_size == pool->batch_size &&
                !source->ragged_count && !pool->ragged_count;
    for (uint32_t i = 0; same && i < pool->field_count; i++) {
        if (!has_images(images->source, images->pool, i))
            continue;
        same = source->fields[i].sample_bytes > IMAGE_RECORD_BYTES &&
               pool->fields[i].sample_bytes > IMAGE_RECORD_BYTES;
        images->area = max_u64(images->area, pool->fields[i].sample_bytes - IMAGE_RECORD_BYTES);
        images->fields++;
    }
    return same && images->fields ? 0
                                  : error_set(error, -EPROTO, "the pool's ring does not match the feed's");
}

static int allocate(struct images *images, struct error *error) {
    const struct ring_header *pool = images->pool->header;
    const uint64_t most = (uint64_t)images->fields * pool->batch_size;
    for (uint32_t i = 0; i < IMAGES_AT_ONCE; i++) {
        images->works[i].jobs = calloc(most, sizeof *images->works[i].jobs);
        if (!images->works[i].jobs)
            return error_set(error, -ENOMEM, "no memory for images");
    }
    int err = pinned_open(&images->records, images->gpu, pool->slot_count * most * IMAGE_RECORD_BYTES, error);
    return err ? err : pinned_open(&images->planes, images->gpu, images->area * LIBRARY_AT_ONCE, error);
}

int images_open(struct images **images, struct gpu *gpu, struct engine_queue *engine,
                const struct ring *source, const struct ring *pool, uint64_t pool_address, bool tolerant,
                struct error *error) {
    struct images *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, -ENOMEM, "no memory for images");
    *made = (struct images){.gpu = gpu,
                            .engine = engine,
                            .source = source,
                            .pool = pool,
                            .pool_address = pool_address,
                            .tolerant = tolerant};
    int err = check_fields(made, error);
    if (!err)
        err = allocate(made, error);
    if (!err)
        err = image_jpeg_open(&made->jpeg, error);
    if (err)
        images_close(made);
    else
        *images = made;
    return err;
}

bool images_are_settled(const struct images *images) {
    for (uint32_t i = 0; images && i < IMAGES_AT_ONCE; i++)
        if (images->works[i].busy && !images_are_decoded(images, i))
            return false;
    return true;
}

void images_close(struct images *images) {
    if (!images)
        return;
    pinned_close(&images->records, images->gpu);
    pinned_close(&images->planes, images->gpu);
    image_jpeg_close(images->jpeg);
    for (uint32_t i = 0; i < IMAGES_AT_ONCE; i++) {
        pinned_close(&images->works[i].bytes, images->gpu);
        free(images->works[i].jobs);
    }
    free(images);
}

// ---- The first half: what is in the ring -------------------------------------------------------------------

// A field with images of a batch.
struct field_work {
    struct images *images;
    struct work *work;
    const uint8_t *from;          // samples in the feed's ring
    uint64_t from_bytes;          // of one
    struct image_record *records; // of the batch
    uint64_t to;                  // of the records in the pool; the pixels follow those of a full batch
    uint64_t area;
};

static struct field_work field_of(struct images *images, struct work *work, uint32_t field, uint32_t number) {
    const struct ring_header *source = images->source->header, *pool = images->pool->header;
    const struct images_batch *batch = &work->batch;
    const uint64_t first = ((uint64_t)batch->slot * images->fields + number) * pool->batch_size;
    return (struct field_work){
        .images = images,
        .work = work,
        .from = ring_slot_data(images->source, batch->source) + source->fields[field].slot_offset,
        .from_bytes = source->fields[field].sample_bytes,
        .records = (struct image_record *)(void *)images->records.memory + first,
        .to = images->pool_address + batch->slot * pool->slot_bytes + pool->fields[field].slot_offset,
        .area = pool->fields[field].sample_bytes - IMAGE_RECORD_BYTES,
    };
}

static uint64_t pixels_of(const struct field_work *field, uint32_t sample) {
    return field->to + (uint64_t)field->images->pool->header->batch_size * IMAGE_RECORD_BYTES +
           sample * field->area;
}

// This process has other users' pools, too, so it carries on.
static int refuse(struct images *images, struct image_record *record, const char *why, struct error *error) {
    if (!images->counts.refused++ && images->tolerant)
        log_warning("an image that cannot be decoded is delivered black: %s", why);
    record->kind = IMAGE_RECORD_NONE;
    return images->tolerant
               ? 0
               : error_set(error, IMAGES_REFUSED, "an image cannot be decoded for the GPU: %s", why);
}

// As their records say now.
static uint64_t jpeg_bytes(const struct field_work *field) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < field->work->batch.count; i++) {
        struct image_record record;
        memcpy(&record, field->from + i * field->from_bytes, sizeof record);
        if (record.kind == IMAGE_RECORD_JPEG)
            bytes += min_u64(record.bytes, field->from_bytes);
    }
    return bytes;
}

// No batch of an honest loader has more than can be registered at once, as its slot has not.
static int make_room(struct images *images, struct work *work, uint64_t bytes, struct error *error) {
    if (min_u64(bytes, GPU_REGISTER_MOST) <= work->bytes.bytes)
        return 0;
    pinned_close(&work->bytes, images->gpu);
    bytes = min_u64(align_up(bytes + bytes / 4, ROOM_STEP), GPU_REGISTER_MOST);
    int err = pinned_open(&work->bytes, images->gpu, bytes, error);
    return err ? registration_judge(images->gpu, err, error) : 0;
}

static int gather_jpeg(struct field_work *field, uint32_t sample, struct image_record *record,
                       struct error *error) {
    struct work *work = field->work;
    if (record->bytes > work->bytes.bytes - work->used)
        return refuse(field->images, record, "a loader describes it incorrectly", error);
    work->jobs[work->count++] =
        (struct engine_image){.bytes = field->from + sample * field->from_bytes + sizeof *record,
                              .record = record,
                              .to = pixels_of(field, sample)};
    work->used += record->bytes;
    return 0;
}

// Copies the records, each once; finished pixels go to the pool directly.
static int gather(struct field_work *field, struct error *error) {
    struct images *images = field->images;
    int err = 0;
    for (uint32_t i = 0; i < field->work->batch.count && !err; i++) {
        const uint8_t *sample = field->from + i * field->from_bytes;
        struct image_record *record = &field->records[i];
        memcpy(record, sample, sizeof *record);
        const bool inside = record->bytes <= field->from_bytes - sizeof *record;
        if (inside && record->kind == IMAGE_RECORD_PIXELS && record->bytes <= field->area) {
            err = gpu_copy_in(images->gpu, field->work->stream, pixels_of(field, i), sample + sizeof *record,
                              record->bytes, error);
            images->counts.finished++;
        } else if (inside && record->kind == IMAGE_RECORD_JPEG && record->bytes &&
                   image_record_fits(record, field->area)) {
            err = gather_jpeg(field, i, record, error);
        } else {
            err = refuse(images, record, "a loader describes it incorrectly", error);
        }
    }
    return err;
}

// Copies the JPEGs, looks at each while it is in the processor's cache, and moves those that the engine may get to the
// front.
static void prepare(struct engine_job *of) {
    struct work *work = CONTAINER_OF(of, struct work, job);
    uint8_t *to = work->bytes.memory;
    uint32_t plain = 0;
    for (uint32_t i = 0; i < work->count; i++) {
        struct engine_image image = work->jobs[i];
        const size_t count = image.record->bytes;
        image.bytes = memcpy(to, image.bytes, count);
        to += count;
        work->jobs[i] = image;
        if (!work->by_engine || !plain_jpeg_is(image.bytes, count, image.record))
            continue;
        work->jobs[i] = work->jobs[plain];
        work->jobs[plain++] = image;
    }
    work->job.images = work->jobs;
    work->job.count = plain;
}

static void submit(struct images *images, struct work *work) {
    work->by_engine = images->engine && work->count && !work->batch.without_engine;
    work->job.prepare = prepare;
    if (work->by_engine) {
        engine_queue_submit(images->engine, &work->job);
        return;
    }
    prepare(&work->job);
    work->job.err = 0;
    atomic_store_explicit(&work->job.done, true, memory_order_relaxed);
}

static int make_room_for_all(struct images *images, struct work *work, struct error *error) {
    uint64_t bytes = 0;
    uint32_t number = 0;
    for (uint32_t i = 0; i < images->pool->header->field_count; i++) {
        if (!has_images(images->source, images->pool, i))
            continue;
        const struct field_work field = field_of(images, work, i, number++);
        bytes += jpeg_bytes(&field);
    }
    return make_room(images, work, bytes, error);
}

int images_begin(struct images *images, gpu_stream stream, const struct images_batch *batch, uint32_t *place,
                 struct error *error) {
    const struct ring_header *source = images->source->header, *pool = images->pool->header;
    const uint8_t *from = ring_slot_data(images->source, batch->source);
    const uint64_t to = images->pool_address + batch->slot * pool->slot_bytes;
    uint32_t number = 0;
    for (*place = 0; images->works[*place].busy;)
        ++*place;
    struct work *work = &images->works[*place];
    work->batch = *batch;
    work->stream = stream;
    work->used = work->count = work->next = 0;
    int err = make_room_for_all(images, work, error);
    for (uint32_t i = 0; i < pool->field_count && batch->count && !err; i++) {
        if (has_images(images->source, images->pool, i)) {
            struct field_work field = field_of(images, work, i, number++);
            err = gather(&field, error);
        } else {
            err = gpu_copy_in(images->gpu, stream, to + pool->fields[i].slot_offset,
                              from + source->fields[i].slot_offset,
                              batch->count * source->fields[i].sample_bytes, error);
        }
    }
    if (err)
        return err;
    work->busy = true;
    submit(images, work);
    return 0;
}

bool images_have_room(const struct images *images) {
    for (uint32_t i = 0; i < IMAGES_AT_ONCE; i++)
        if (!images->works[i].busy)
            return true;
    return false;
}

bool images_are_decoded(const struct images *images, uint32_t place) {
    // Acquire: pairs with the thread of the engine that did it.
    return atomic_load_explicit(&images->works[place].job.done, memory_order_acquire);
}

// ---- The second half: what the engine has left -------------------------------------------------------------

// A few at a time: their memory is used again, and meanwhile the process says that it is alive. 1: there are more.
static int decode_with_library(struct images *images, struct work *work, struct error *error) {
    uint32_t held = 0;
    uint64_t pixels = 0;
    int err = 0;
    if (monotonic_ns() < images->lack.seen_ns + LACK_PAUSE_NS)
        return 1;
    for (; work->next < work->count && held < LIBRARY_AT_ONCE && pixels < LIBRARY_PIXELS && !err;
         work->next++) {
        struct engine_image *job = &work->jobs[work->next];
        struct error why = {0};
        if (job->decoded) {
            images->counts.by_engine++;
            continue;
        }
        uint8_t *planes = images->planes.memory + held++ * images->area;
        pixels += (uint64_t)job->record->image_width * job->record->image_height;
        const uint64_t began = monotonic_ns();
        err = image_jpeg_planes(images->jpeg, job->bytes, job->record->bytes, job->record, planes, &why);
        if (error_is_lack(err) && !lack_lasts(&images->lack, began, monotonic_ns())) {
            err = 0;
            break; // it is tried again later
        }
        if (err) {
            err = refuse(images, job->record, why.text, error);
            continue;
        }
        images->counts.by_library++;
        err = gpu_copy_in(images->gpu, work->stream, job->to, planes, image_record_plane_bytes(job->record),
                          error);
    }
    if (!err && held)
        err = gpu_stream_synchronize(images->gpu, work->stream, error);
    return err ? err : work->next < work->count;
}

static int send_records(struct field_work *field, struct error *error) {
    const uint32_t count = field->work->batch.count;
    for (uint32_t i = 0; i < count; i++)
        if (field->records[i].kind == IMAGE_RECORD_JPEG)
            field->records[i].kind = IMAGE_RECORD_PLANES;
    return count ? gpu_copy_in(field->images->gpu, field->work->stream, field->to, field->records,
                               count * sizeof *field->records, error)
                 : 0;
}

int images_end(struct images *images, uint32_t place, struct error *error) {
    struct work *work = &images->works[place];
    uint32_t number = 0;
    int err = work->job.err ? error_set(error, work->job.err, "%s", work->job.error.text)
                            : decode_with_library(images, work, error);
    if (err > 0)
        return err;
    for (uint32_t i = 0; i < images->pool->header->field_count && !err; i++) {
        if (!has_images(images->source, images->pool, i))
            continue;
        struct field_work field = field_of(images, work, i, number++);
        err = send_records(&field, error);
    }
    work->busy = false;
    return err;
}
