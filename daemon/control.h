// Messages between the supervisor and a transfer process: a pair of seqpacket sockets, one structure per packet, with
// its descriptors. Both ends are the same program, so the structures are sent as they are.
#ifndef FEEDD_DAEMON_CONTROL_H
#define FEEDD_DAEMON_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "base/fdpass.h"
#include "base/scope.h"

#define CONTROL_MAX_DESCRIPTORS 4u

enum transfer_request_kind {
    // descriptors: the feed's ring (read-only), the pool's ring, the feed's eventfd, and the pool's memory
    // if it exists already. Answered by POOL_OPEN or POOL_REFUSED, once its GIVE_MEMORYs have arrived
    TRANSFER_OPEN_POOL = 1,
    TRANSFER_CLOSE_POOL,      // answered by POOL_CLOSED
    TRANSFER_ADD_CONSUMER,    // descriptor: its release words. CONSUMER_REFUSED if they cannot be used
    TRANSFER_REMOVE_CONSUMER, // answered by CONSUMER_REMOVED
    TRANSFER_GIVE_MEMORY,     // after OPEN_POOL; descriptor: memory that a slot has of its own
    // Gives a free slot that much memory of its own. Answered by SLOT_GROWN or GROWTH_REFUSED
    TRANSFER_GROW_SLOT,
};

struct transfer_request {
    uint32_t kind;
    uint32_t pool;     // all kinds: its id
    uint32_t owner;    // OPEN_POOL: number of the transfer process in the chunk words of the pool's ring
    uint32_t consumer; // ADD_CONSUMER, REMOVE_CONSUMER: bit of ring_slot.unread
    uint32_t
        tolerant; // OPEN_POOL: an image that cannot be decoded is delivered black; 0: the pool is REFUSED then
    uint32_t slot;        // GIVE_MEMORY, GROW_SLOT
    uint32_t grown_slots; // OPEN_POOL: how many GIVE_MEMORYs follow
    // OPEN_POOL: size of the memory sent along; 0: allocate it. GIVE_MEMORY: the same. GROW_SLOT: to be allocated
    uint64_t memory_bytes;
};

enum transfer_report_kind {
    TRANSFER_READY = 1,        // the GPU is open
    TRANSFER_POOL_OPEN,        // descriptor: the pool's memory if this process allocated it
    TRANSFER_POOL_REFUSED,     // it cannot be opened, or can no longer be filled; nothing of it is left
    TRANSFER_POOL_CLOSED,      // nothing of it is in use any more
    TRANSFER_CONSUMER_REMOVED, // its release words are no longer read
    TRANSFER_CONSUMER_REFUSED, // its release words cannot be read
    TRANSFER_LAGGING,          // copies have been waiting for this consumer's stream
    TRANSFER_IMAGES,           // who has decoded images since the last such report
    TRANSFER_SLOT_GROWN,       // descriptor: the slot's new memory
    TRANSFER_GROWTH_REFUSED,   // the slot keeps what it had
    TRANSFER_LOST,             // the GPU can no longer be used; the process ends
};

enum transfer_engine {
    ENGINE_NOT_WANTED, // nobody asked for it when the process was started
    ENGINE_WORKS,
    ENGINE_MISSING, // the text continues after the GPU's name: why
    ENGINE_FAILED,  // likewise; another process may open it
};

// A field that the kind does not use is 0.
struct transfer_report {
    uint32_t kind;
    uint32_t pool;         // all but READY, LOST
    int32_t code;          // POOL_REFUSED, CONSUMER_REFUSED, GROWTH_REFUSED, LOST: negative errno
    uint32_t consumer;     // CONSUMER_REMOVED, CONSUMER_REFUSED, LAGGING
    uint32_t slot;         // SLOT_GROWN, GROWTH_REFUSED
    uint64_t memory_bytes; // POOL_OPEN, SLOT_GROWN
    uint64_t waited_ns;    // LAGGING: how long the oldest copy has waited
    // IMAGES: decoded by the engine and by libjpeg, and delivered black
    uint64_t engine_images, library_images, refused_images;
    uint32_t engine; // READY: enum transfer_engine
    char text[400];  // with a code: why, in a sentence. READY: the name of the GPU
};

// Sends one structure with `count` descriptors, which are duplicated. 0 or a negative errno; -EAGAIN only if the
// socket does not block.
int control_send(int socket, const void *message, size_t bytes, const int *fds, uint32_t count);

// 1: a structure of that size has come; 0: there is none; -ECONNRESET: the other side is gone; -EPROTO: anything else
// came. The descriptors in `received`, to which none are added once it is full, are the caller's to close in any case.
int control_receive(int socket, void *message, size_t bytes, struct received_fds *received) MUST_CHECK;

#endif
