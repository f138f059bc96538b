// Which images are made on a client's GPU (`decode gpu`), and what the client is told of them.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_ATTACH_IMAGES_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_ATTACH_IMAGES_H

#include "base/error.h"
#include "daemon/loader/stage/image_table.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/member.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "proto/codec.h"

// Sets shape.gpu_images and images_by, given the dataset, the batch size, the device and whether the client finishes
// images. -EAGAIN: the GPU's process, which knows whether there is an engine, is still starting.
int attach_images_choose(struct supervisor *supervisor, struct attach_request *request, struct error *error);

// Whether a GPU makes images for others that use the feed of that name.
bool attach_images_are_made(const struct session *session, const char *share);

// Called before the client is given a place. A feed that nobody uses takes over what was chosen for the client, and the
// log says why loaders decode.
void attach_images_keep(struct served_feed *feed, const struct attach_request *request);

// What decodes for consumers there unless something else prevents it: as in images_by, or "loaders" if no dataset has
// asked for an engine.
const char *attach_images_device(const struct device *device);

struct attach_images {
    Feedd__FinishedField *list[RING_MAX_FIELDS];
    Feedd__FinishedField rows[RING_MAX_FIELDS];
    uint8_t tables[RING_MAX_FIELDS][IMAGE_TABLE_BYTES];
};

// Adds the fields to the answer, which refers to `images` from then on.
void attach_images_describe(const struct served_feed *feed, struct attach_images *images,
                            Feedd__Attached *attached);

#endif
