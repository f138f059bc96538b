// What a client is told when it has been given its place in a feed.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_ATTACH_ANSWER_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_ATTACH_ANSWER_H

#include "daemon/supervisor/clients/attach_images.h"
#include "daemon/supervisor/feeds/member.h"
#include "proto/codec.h"
#include "proto/frame.h"

// `attached` refers to the others.
struct attach_answer {
    Feedd__Attached attached;
    Feedd__Mix mix;
    Feedd__Window window;
    struct attach_images images;
};

void attach_answer_describe(const struct member *member, struct attach_answer *answer);

// Adds the descriptors that come with it.
int attach_answer_descriptors(const struct member *member, const struct attach_answer *answer,
                              struct frame_writer *writer);

#endif
