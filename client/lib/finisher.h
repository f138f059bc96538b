// Images that are finished in this process: the pool has decoded images, and what the application gets is made of them
// by a kernel, on a stream of our own, into memory of our own.
//
// Each slot of the pool has memory for what is made of it. It needs no bookkeeping: a slot is filled again only after
// the application's stream has released it, and so has the memory.
#ifndef FEEDD_CLIENT_LIB_FINISHER_H
#define FEEDD_CLIENT_LIB_FINISHER_H

#include "base/error.h"
#include "client/lib/mapped_pool.h"
#include "gpu/finish.h"
#include "proto/codec.h"
#include "shm/ring.h"

struct finished_field {
    uint32_t field; // its number
    uint32_t dtype;
    uint32_t dimensions; // of a sample
    uint64_t shape[RING_MAX_DIMS];
    uint64_t sample_bytes;
    uint64_t offset; // in a slot's memory
    struct finish_batch batch;
};

// Belongs to one attachment. All 0 if nothing is finished here.
struct finisher {
    struct gpu *gpu; // the handle's
    gpu_stream stream;
    uint32_t count; // of fields
    struct finished_field fields[RING_MAX_FIELDS];
    uint32_t slots;
    uint64_t slot_bytes;
    struct gpu_memory tables;
    struct gpu_memory *outputs; // of each slot; made when it is first needed
    uint8_t *host;              // registered: the words, and behind them the tables
    uint64_t host_bytes;
    uint64_t words_address;  // as the GPU sees them
    _Atomic uint64_t *words; // word[slot]: the last fill that has been finished; written by the GPU
};

// Does nothing if the answer has no such fields.
int finisher_open(struct finisher *finisher, struct gpu *gpu, const struct ring *ring,
                  const Feedd__Attached *attached, struct error *error);
// Waits for the GPU. Fine to call again.
void finisher_close(struct finisher *finisher);

// What is known of a field; NULL: it is not finished here.
const struct finished_field *finisher_field(const struct finisher *finisher, uint32_t field);

// Queues all work for the batch in that slot, which was granted.
int finisher_queue(struct finisher *finisher, const struct mapped_pool *pool, const struct ring *ring,
                   uint32_t slot, uint64_t fill, uint32_t samples, struct error *error);

// Where what is made of a field begins, as the GPU sees it.
uint64_t finisher_data(const struct finisher *finisher, const struct finished_field *field, uint32_t slot);

// Makes work that is queued on `stream` from now on wait for it.
int finisher_wait(const struct finisher *finisher, uint32_t slot, uint64_t fill, gpu_stream stream,
                  struct error *error);
// Waits until it is done.
int finisher_settle(const struct finisher *finisher, uint32_t slot, uint64_t fill, struct error *error);

#endif
