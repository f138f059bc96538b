#include "daemon/supervisor/clients/attach_answer.h"

#include "daemon/supervisor/feeds/places.h"
#include "daemon/supervisor/feeds/pool.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "order/order.h"
#include "order/partition.h"

static void describe_place(const struct member *member, Feedd__Attached *attached) {
    const struct served_feed *feed = member->feed;
    const struct consumer *consumer = &member->consumer;
    struct batch_place place = {0};
    attached->feed = feed->id;
    attached->ring_bytes = (member->pool ? &member->pool->ring : &feed->ring)->header->total_bytes;
    attached->pool_bytes = member->pool ? member->pool->memory_bytes : 0;
    attached->prefetch = consumer->prefetch;
    attached->sequence = consumer->cursor;
    attached->run = feed->delivery.run;
    attached->run_epoch = feed->delivery.partition.start_epoch;
    attached->run_consumed = feed->delivery.partition.start_sample;
    attached->wait_for = served_feed_company(feed);
    attached->ring_slots = feed->ring.header->slot_count;
    if (partition_locate(&feed->delivery.partition, consumer->lane->rank, consumer->cursor, &place) == 0) {
        uint64_t global = (uint64_t)feed->shape.batch_size * feed->shape.world_size;
        bool resumed = place.epoch == feed->delivery.partition.start_epoch;
        attached->epoch = place.epoch;
        attached->consumed = place.index * global + (resumed ? feed->delivery.partition.start_sample : 0);
    }
}

static void describe_mix(const struct feed_shape *shape, Feedd__Mix *mix) {
    const struct mix_run *run = &shape->mix;
    feedd__mix__init(mix);
    mix->version = run->version;
    mix->order_version = shape->shuffle ? ORDER_FEISTEL_1 : ORDER_SEQUENTIAL;
    mix->start = run->base.start;
    mix->n_weights = mix->n_drawn = run->sources;
    mix->weights = (uint32_t *)run->weights;
    mix->drawn = (uint64_t *)run->base.drawn;
}

// False: the run has none.
static bool describe_window(const struct served_feed *feed, Feedd__Window *window) {
    const struct dataset_layout *layout = feed->dataset->layout;
    if (dataset_order(layout, feed->shape.shuffle) != ORDER_WINDOW_1)
        return false;
    feedd__window__init(window);
    window->offset = sizeof(struct dataset_list);
    window->bytes = dataset_list_bytes(layout);
    window->stored = dataset_stored_samples(layout);
    window->first = layout->selection.first;
    return true;
}

void attach_answer_describe(const struct member *member, struct attach_answer *answer) {
    feedd__attached__init(&answer->attached);
    describe_place(member, &answer->attached);
    describe_mix(&member->feed->shape, &answer->mix);
    if (answer->mix.version)
        answer->attached.mix = &answer->mix;
    attach_images_describe(member->feed, &answer->images, &answer->attached);
    if (describe_window(member->feed, &answer->window))
        answer->attached.window = &answer->window;
}

int attach_answer_descriptors(const struct member *member, const struct attach_answer *answer,
                              struct frame_writer *writer) {
    const struct pool *pool = member->pool;
    int err = frame_attach_fd(writer, pool ? pool->ring_read_fd : member->feed->ring_read_fd);
    if (!err && pool)
        err = frame_attach_fd(writer, pool->memory_fd);
    if (!err && pool)
        err = frame_attach_fd(writer, member->words_fd);
    if (!err && answer->attached.window)
        err = frame_attach_fd(writer, member->feed->dataset->list_fd);
    return err;
}
