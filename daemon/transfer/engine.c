#include "daemon/transfer/engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/image/jpeg.h"
#include "daemon/transfer/nvjpeg.h"
#include "gpu/gpu_host_faults.h"
#include "gpu/gpu_host_range.h"

#define THREADS 1 // nvJPEG's own, which read headers
// CUDA's default without MPS. More do not make the engine faster (bench/README.md).
#define CONNECTIONS_VARIABLE "CUDA_DEVICE_MAX_CONNECTIONS"
#define CONNECTIONS          "8"

struct engine {
    struct gpu *gpu;
    // Of a simulated GPU.
    struct image_jpeg *jpeg;
    struct host_faults faults;
    uint64_t seen; // images
    // Of nvJPEG.
    struct nvjpeg nvjpeg;
    nvjpeg_handle handle;
    nvjpeg_state state;
    gpu_stream stream;
    uint32_t batch; // images that the state is initialised for
    nvjpeg_parameters *parameters;
    uint32_t made;   // parameters
    uint32_t places; // in these:
    struct nvjpeg_planes *to;
    const unsigned char **bytes;
    size_t *counts;
};

// ---- Simulated ---------------------------------------------------------------------------------------------

static bool has_none(const struct engine *engine) {
    char uuid[GPU_UUID_BYTES];
    snprintf(uuid, sizeof uuid, "HOST-%" PRIu64, engine->faults.no_engine_on);
    return engine->faults.no_engine || (engine->faults.no_engine_on && strcmp(engine->gpu->uuid, uuid) == 0);
}

static int open_simulated(struct engine *engine, struct error *error) {
    int err = host_faults_read(&engine->faults, error);
    if (!err && has_none(engine))
        err = error_set(error, -ENOTSUP, "this simulated GPU has no engine");
    if (!err && monotonic_ns() < engine->faults.engine_at_ms * NS_PER_MS)
        err = error_set(error, -ENOMEM, "this simulated GPU has no memory for its engine yet");
    return err ? err : image_jpeg_open(&engine->jpeg, error);
}

static bool refuses(struct engine *engine) {
    engine->seen++;
    if (engine->seen == 1)
        host_faults_delay(&engine->faults, engine->faults.first_image_ms);
    if (engine->seen == engine->faults.crash_image)
        abort();
    while (engine->seen == engine->faults.stall_image)
        pause();
    return engine->faults.refuse_image && engine->seen % engine->faults.refuse_image == 0;
}

static int decode_simulated(struct engine *engine, struct engine_image *images, uint32_t count,
                            struct error *error) {
    for (uint32_t i = 0; i < count; i++) {
        const struct image_record *record = images[i].record;
        if (!host_registrations_hold((uint64_t)(uintptr_t)images[i].bytes, record->bytes, false))
            return error_set(error, -EIO, "an image for the engine is not in registered memory");
        images[i].decoded =
            !refuses(engine) && image_jpeg_planes(engine->jpeg, images[i].bytes, record->bytes, record,
                                                  (uint8_t *)(uintptr_t)images[i].to, NULL) == 0;
    }
    return 0;
}

// ---- nvJPEG ------------------------------------------------------------------------------------------------

struct opening {
    struct engine *engine;
    struct error *error;
    int err;
};

static void open_nvjpeg(void *argument) {
    struct opening *opening = argument;
    struct engine *engine = opening->engine;
    unsigned engines = 0, cores = 0;
    int status = engine->nvjpeg.CreateEx(NVJPEG_BACKEND_HARDWARE, NULL, NULL, 0, &engine->handle);
    if (status == NVJPEG_SUCCESS)
        status = engine->nvjpeg.GetHardwareDecoderInfo(engine->handle, &engines, &cores);
    if (status == NVJPEG_SUCCESS && engines)
        status = engine->nvjpeg.JpegStateCreate(engine->handle, &engine->state);
    if (status == NVJPEG_ALLOCATOR_FAILURE)
        opening->err = error_set(opening->error, -ENOMEM, "nvJPEG has no memory");
    else if (status != NVJPEG_SUCCESS || !engines)
        opening->err = error_set(opening->error, -ENOTSUP, "%s has no engine for JPEG (nvJPEG says %d)",
                                 engine->gpu->name, status);
}

static void close_nvjpeg(void *argument) {
    struct engine *engine = argument;
    for (uint32_t i = 0; i < engine->made; i++)
        engine->nvjpeg.DecodeParamsDestroy(engine->parameters[i]);
    if (engine->state)
        engine->nvjpeg.JpegStateDestroy(engine->state);
    engine->nvjpeg.Destroy(engine->handle);
}

static bool grow(struct engine *engine, uint32_t images) {
    const uint32_t count =
        images > engine->made ? images : engine->made; // never fewer parameters than there are
    nvjpeg_parameters *parameters = reallocarray(engine->parameters, count, sizeof(nvjpeg_parameters));
    if (parameters)
        engine->parameters = parameters;
    free(engine->to);
    free(engine->bytes);
    free(engine->counts);
    engine->places = 0;
    engine->to = calloc(count, sizeof *engine->to);
    engine->bytes = calloc(count, sizeof *engine->bytes);
    engine->counts = calloc(count, sizeof *engine->counts);
    if (!parameters || !engine->to || !engine->bytes || !engine->counts)
        return false;
    while (engine->made < count && engine->nvjpeg.DecodeParamsCreate(
                                       engine->handle, &engine->parameters[engine->made]) == NVJPEG_SUCCESS) {
        engine->nvjpeg.DecodeParamsSetOutputFormat(engine->parameters[engine->made], NVJPEG_YUV);
        engine->made++;
    }
    engine->places = engine->made >= count ? count : 0;
    return engine->places;
}

static void describe(struct engine *engine, uint32_t place, const struct engine_image *image) {
    const struct image_record *record = image->record;
    const bool whole = record->width == record->image_width && record->height == record->image_height;
    engine->bytes[place] = image->bytes;
    engine->counts[place] = record->bytes;
    engine->to[place] = (struct nvjpeg_planes){{0}};
    for (uint32_t i = 0; i < (record->sampling == IMAGE_SAMPLING_GREY ? 1 : 3); i++) {
        const struct image_plane plane = image_record_plane(record, i);
        engine->to[place].channel[i] = (unsigned char *)(uintptr_t)(image->to + plane.offset);
        engine->to[place].pitch[i] = plane.width;
    }
    if (whole)
        engine->nvjpeg.DecodeParamsSetROI(engine->parameters[place], 0, 0, -1, -1);
    else
        engine->nvjpeg.DecodeParamsSetROI(engine->parameters[place], (int)record->x, (int)record->y,
                                          (int)record->width, (int)record->height);
}

struct decoding {
    struct engine *engine;
    struct engine_image *images;
    uint32_t count;
    struct error *error;
    int err; // of the GPU
};

// Waits, because a state that gets images from registered memory while the GPU still works on its last ones hangs
// within a second (seen on an H200 with nvJPEG 13.0).
static bool decode_some(struct decoding *decoding, struct engine_image *images, uint32_t count) {
    struct engine *engine = decoding->engine;
    for (uint32_t i = 0; i < count; i++)
        describe(engine, i, &images[i]);
    int status = NVJPEG_SUCCESS;
    if (engine->batch != count)
        status = engine->nvjpeg.DecodeBatchedInitialize(engine->handle, engine->state, (int)count, THREADS,
                                                        NVJPEG_YUV);
    engine->batch = status == NVJPEG_SUCCESS ? count : 0;
    if (status == NVJPEG_SUCCESS)
        status = engine->nvjpeg.DecodeBatchedEx(engine->handle, engine->state, engine->bytes, engine->counts,
                                                engine->to, engine->parameters, engine->stream);
    decoding->err = gpu_stream_synchronize(engine->gpu, engine->stream, decoding->error);
    const bool decoded = status == NVJPEG_SUCCESS && !decoding->err;
    for (uint32_t i = 0; i < count; i++)
        images[i].decoded = decoded;
    return decoded;
}

// An image that it does not take spoils the batch. So each is tried by itself then.
static void decode_nvjpeg(void *argument) {
    struct decoding *decoding = argument;
    struct engine *engine = decoding->engine;
    if (decoding->count > engine->places && !grow(engine, decoding->count))
        return;
    if (decode_some(decoding, decoding->images, decoding->count) || decoding->count == 1)
        return;
    for (uint32_t i = 0; i < decoding->count && !decoding->err; i++)
        decode_some(decoding, &decoding->images[i], 1);
}

// ---- Both --------------------------------------------------------------------------------------------------

void engine_use_connections(void) {
    setenv(CONNECTIONS_VARIABLE, CONNECTIONS, 0);
}

int engine_open(struct engine **engine, struct gpu *gpu, struct error *error) {
    struct engine *made = calloc(1, sizeof *made);
    if (!made)
        return error_set(error, -ENOMEM, "out of memory");
    made->gpu = gpu;
    int err;
    if (gpu->number < 0) {
        err = open_simulated(made, error);
    } else {
        struct opening opening = {.engine = made, .error = error};
        err = nvjpeg_load(&made->nvjpeg, error);
        if (!err)
            err = gpu_stream_create(gpu, &made->stream, error);
        if (!err)
            err = gpu_call(gpu, open_nvjpeg, &opening, error);
        if (!err)
            err = opening.err;
    }
    if (err)
        engine_close(made);
    else
        *engine = made;
    return err;
}

void engine_close(struct engine *engine) {
    if (!engine)
        return;
    image_jpeg_close(engine->jpeg);
    if (engine->handle)
        gpu_call(engine->gpu, close_nvjpeg, engine, NULL);
    gpu_stream_destroy(engine->gpu, engine->stream);
    free(engine->parameters);
    free(engine->to);
    free(engine->bytes);
    free(engine->counts);
    free(engine);
}

int engine_decode(struct engine *engine, struct engine_image *images, uint32_t count, struct error *error) {
    for (uint32_t i = 0; i < count; i++)
        images[i].decoded = false;
    if (!count)
        return 0;
    if (engine->jpeg)
        return decode_simulated(engine, images, count, error);
    struct decoding decoding = {.engine = engine, .images = images, .count = count, .error = error};
    int err = gpu_call(engine->gpu, decode_nvjpeg, &decoding, error);
    return err ? err : decoding.err;
}
