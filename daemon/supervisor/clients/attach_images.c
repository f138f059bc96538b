#include "daemon/supervisor/clients/attach_images.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/time.h"
#include "daemon/dataset/gpu_images.h"
#include "daemon/supervisor/feeds/device.h"

#define ENGINE_PAUSE_NS (5 * NS_PER_S)

const char *attach_images_device(const struct device *device) {
    if (device->state == DEVICE_READY && !device->asked_engine && devices_want_engines(device->supervisor))
        return "the GPU's transfer process was started before there was a dataset with decode gpu, and is"
               " replaced when no feed uses the GPU";
    if (device->engine == ENGINE_NOT_WANTED)
        return "loaders";
    return device->engine == ENGINE_WORKS ? IMAGES_BY_ENGINE : device->engine_why;
}

static void by_loaders(struct attach_request *request, const char *why) {
    snprintf(request->images_by, sizeof request->images_by, "%s", why);
}

// Whether loaders decode, whatever the GPU can do.
static bool is_excluded(struct attach_request *request) {
    const struct dataset *dataset = request->shape.dataset;
    if (!gpu_images_wanted(dataset))
        by_loaders(request, "");
    else if (gpu_images_obstacle(dataset, request->images_by, sizeof request->images_by))
        return true;
    else if (!*request->device)
        by_loaders(request, "the first consumer is in host memory");
    else if (!request->finishes_images && request->reconnect)
        by_loaders(request, "they did so before the daemon was restarted");
    else if (!request->finishes_images)
        by_loaders(request, "the libfeed of the first consumer was built without nvcc");
    else if (request->shape.batch_size > GPU_IMAGES_BATCH_MOST)
        snprintf(request->images_by, sizeof request->images_by, "batches have more than %u samples",
                 GPU_IMAGES_BATCH_MOST);
    else
        return false;
    return true;
}

// A process opens its engine before it is confined. One that was started when no dataset wanted an engine, or that
// failed to open it a while ago, is replaced if nobody uses it: the next try finds the new one. Otherwise status says
// why loaders decode.
static bool may_open_engine(const struct device *device) {
    if (device->state != DEVICE_READY || !LIST_EMPTY(&device->tenants))
        return false;
    return !device->asked_engine ||
           (device->engine == ENGINE_FAILED && monotonic_ns() >= device->ready_ns + ENGINE_PAUSE_NS);
}

int attach_images_choose(struct supervisor *supervisor, struct attach_request *request, struct error *error) {
    struct device *device;
    request->shape.gpu_images = false;
    if (is_excluded(request))
        return 0;
    // If the GPU cannot be used at all, opening the pool says so.
    by_loaders(request, "the GPU could not be opened");
    int err = device_get(supervisor, request->device, &device, error);
    if (err)
        return error_is_lack(err) ? err : 0;
    device_keep(device);
    if (may_open_engine(device)) {
        device_stop(device, false);
        return error_set(error, -EAGAIN, "the engine of GPU %s is still being opened", request->device);
    }
    if (device->state == DEVICE_STARTING)
        return error_set(error, -EAGAIN, "GPU %s is still being opened", request->device);
    // Between two processes, what the last one said holds: a consumer that joins others must find what they found.
    request->shape.gpu_images = (device->state == DEVICE_READY || device->state == DEVICE_BACKING_OFF) &&
                                device->engine == ENGINE_WORKS;
    if (device->engine != ENGINE_NOT_WANTED || device->state == DEVICE_READY)
        by_loaders(request, attach_images_device(device));
    return 0;
}

bool attach_images_are_made(const struct session *session, const char *share) {
    const struct served_feed *feed;
    LIST_FOREACH(feed, &session->supervisor->feeds, link)
        if (feed->shape.gpu_images && feed->state != FEED_CLOSING && served_feed_in_use(feed) &&
            feed->user == session->peer.uid && *feed->name && strcmp(feed->name, share) == 0)
            return true;
    return false;
}

void attach_images_keep(struct served_feed *feed, const struct attach_request *request) {
    if (served_feed_in_use(feed) || strcmp(feed->images_by, request->images_by) == 0)
        return;
    memcpy(feed->images_by, request->images_by, sizeof feed->images_by);
    if (*feed->images_by && !feed->shape.gpu_images)
        log_info("feed %" PRIu64 ": loaders decode the images of dataset %s, in spite of decode gpu: %s",
                 feed->id, feed->dataset->name, feed->images_by);
}

static void describe(const struct dataset_layout *layout, uint32_t field, uint8_t table[IMAGE_TABLE_BYTES],
                     Feedd__FinishedField *row) {
    const struct image_steps *steps = &layout->images[field].steps;
    const struct transform *transform = &layout->transforms[field];
    const struct ring_field *delivered = &layout->fields[field];
    feedd__finished_field__init(row);
    image_table_make(transform, steps->channels, table);
    row->field = field;
    row->dtype = delivered->dtype;
    row->shape = (uint64_t *)delivered->shape;
    row->n_shape = delivered->dimensions;
    row->planes = transform->planes;
    row->area = gpu_images_pool_area(layout, field);
    row->table.data = table;
    row->table.len = (size_t)steps->channels * IMAGE_TABLE_VALUES * dtype_bytes(transform->target);
}

void attach_images_describe(const struct served_feed *feed, struct attach_images *images,
                            Feedd__Attached *attached) {
    const struct dataset_layout *layout = gpu_images_layout(feed->dataset);
    for (uint32_t i = 0; feed->shape.gpu_images && i < layout->field_count; i++) {
        if (!gpu_images_has(layout, i))
            continue;
        size_t place = attached->n_images++;
        images->list[place] = &images->rows[place];
        describe(layout, i, images->tables[place], &images->rows[place]);
    }
    attached->images = images->list;
}
