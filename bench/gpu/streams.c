#include "bench/gpu/streams.h"

void streams_open(struct streams *streams, const struct work *work, uint32_t count) {
    *streams = (struct streams){.work = work, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        streams->stream[i] = work->stream(true);
        streams->reached[i] = work->event(false);
    }
}

work_stream streams_of(const struct streams *streams, uint64_t batch) {
    return streams->stream[batch % streams->count];
}

void streams_gather(const struct streams *streams) {
    for (uint32_t i = 1; i < streams->count; i++) {
        streams->work->record(streams->reached[i], streams->stream[i]);
        streams->work->wait_on(streams->stream[0], streams->reached[i]);
    }
}

void streams_spread(const struct streams *streams) {
    if (streams->count > 1)
        streams->work->record(streams->reached[0], streams->stream[0]);
    for (uint32_t i = 1; i < streams->count; i++)
        streams->work->wait_on(streams->stream[i], streams->reached[0]);
}
