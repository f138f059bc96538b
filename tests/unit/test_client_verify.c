// feedctl read --verify must see every way in which a batch can be wrong: a daemon hands out right ones and
// wrong ones.
#include "base/error.h"
#include "base/sizes.h"
#include "client/ctl/verify.h"
#include "order/order.h"
#include "order/partition.h"
#include "tests/unit/fake_feedd.h"

#define SAMPLES 20u  // two batches of 8 and one of 4 an epoch
#define BATCHES 6u   // two epochs
#define GAP     7u   // between the two parts of the labels
#define LABELS  256u // where they begin in a slot: the images take 160 bytes

// Which batch is spoiled, and how. The pointer is to the batch's record and its images.
struct spoil {
    uint32_t batch;
    void (*how)(struct ring_slot *record, uint8_t *images);
    const char *part; // of the sentence; NULL: all is well
    uint64_t start;   // samples of the first epoch that came before
    bool hole;        // between the two files of labels
    bool transformed; // labels are not what the files have
};

static uint8_t image_byte(uint64_t sample, uint64_t at) {
    return (uint8_t)(sample * 31 + at);
}

// Two files, as the formats have them: images alone after 16 bytes of header, labels and padding in records of 10.
static void write_files(struct fake *fake) {
    char path[128];
    uint8_t bytes[16 + SAMPLES * 20] = {0};
    for (uint64_t i = 0; i < SAMPLES * 20; i++)
        bytes[16 + i] = image_byte(i / 20, i % 20);
    snprintf(path, sizeof path, "%s/images", fake->folder);
    FILE *file = fopen(path, "w");
    FAKE_CHECK(fake, file && fwrite(bytes, sizeof bytes, 1, file) == 1 && fclose(file) == 0);
    uint8_t records[SAMPLES * 10 + GAP] = {0};
    for (uint64_t i = 0; i < SAMPLES; i++)
        memcpy(records + i * 10 + (i < 15 ? 0 : GAP) + 2, &i, sizeof i);
    snprintf(path, sizeof path, "%s/labels", fake->folder);
    file = fopen(path, "w");
    FAKE_CHECK(fake, file && fwrite(records, sizeof records, 1, file) == 1 && fclose(file) == 0);
}

// The second session asks where the samples are.
static void answer_files(struct fake *fake) {
    const struct spoil *spoil = fake->context;
    char images[128], labels[128];
    snprintf(images, sizeof images, "%s/images", fake->folder);
    snprintf(labels, sizeof labels, "%s/labels", fake->folder);
    Feedd__File__Extent image = FEEDD__FILE__EXTENT__INIT, label = FEEDD__FILE__EXTENT__INIT;
    image.bytes = 20;
    label.field = 1;
    label.offset = 2;
    label.bytes = spoil->transformed ? 4 : 8;
    label.transformed = spoil->transformed;
    Feedd__File__Extent *image_list[] = {&image}, *label_list[] = {&label};
    Feedd__File first = FEEDD__FILE__INIT, second = FEEDD__FILE__INIT, third = FEEDD__FILE__INIT;
    first.path = images;
    first.samples = SAMPLES;
    first.data_offset = 16;
    first.record_bytes = 20;
    first.n_extents = 1;
    first.extents = image_list;
    second = third = first;
    second.path = third.path = labels; // one file given as two parts, so that finding the part matters
    second.extents = third.extents = label_list;
    second.record_bytes = third.record_bytes = 10;
    second.data_offset = 0;
    second.samples = spoil->hole ? 14 : 15;
    third.first_sample = 15;
    third.data_offset = 150 + GAP;
    third.samples = 5;
    Feedd__File *pages[][2] = {{&third, &first}, {&second, NULL}};
    for (uint32_t page = 0; page < 2; page++) {
        const Feedd__ClientMessage *message = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_QUERY);
        FAKE_CHECK(fake, message && message->query->kind == FEEDD__QUERY__KIND__FILES);
        FAKE_CHECK(fake,
                   message && message->query->start == 2 * page && !strcmp(message->query->name, "numbers"));
        Feedd__Answer answer = FEEDD__ANSWER__INIT;
        answer.next = page == 0 ? 2 : 0;
        answer.files = pages[page];
        answer.n_files = page == 0 ? 2 : 1;
        FAKE_SEND(fake, ANSWER, answer, &answer);
    }
}

static void fill_batch(struct fake *fake, uint32_t batch) {
    struct partition partition = {.samples = SAMPLES,
                                  .batch_size = FAKE_BATCH,
                                  .world_size = 1,
                                  .start_epoch = 1,
                                  .start_sample = fake->consumed};
    struct batch_place place;
    struct order order;
    FAKE_CHECK(fake, partition_locate(&partition, 0, batch, &place) == 0);
    order_init(&order, ORDER_FEISTEL_1, SAMPLES, 7, place.epoch);
    fake_fill(fake, batch, 5 + batch);
    struct ring_slot *record = ring_slot(&fake->ring, batch);
    record->epoch = place.epoch;
    record->index = place.index;
    record->first_position = place.first_position;
    record->consumed = place.consumed;
    record->count = (uint32_t)place.count;
    record->last_of_epoch = place.last_of_epoch;
    uint8_t *images = ring_slot_data(&fake->ring, batch);
    uint8_t *labels = images + fake->ring.header->fields[1].slot_offset;
    for (uint64_t i = 0; i < place.count; i++) {
        uint64_t sample = order_sample(&order, place.first_position + i);
        for (uint64_t k = 0; k < 20; k++)
            images[i * 20 + k] = image_byte(sample, k);
        memcpy(labels + i * 8, &sample, sizeof sample);
    }
}

static void two_epochs(struct fake *fake) {
    const struct spoil *spoil = fake->context;
    uint32_t slots[BATCHES], batches = BATCHES - (uint32_t)(fake->consumed / FAKE_BATCH);
    write_files(fake);
    fake_open(fake);
    for (uint32_t batch = 0; batch < batches; batch++) {
        fill_batch(fake, batch);
        slots[batch] = batch;
    }
    if (spoil->how)
        spoil->how(ring_slot(&fake->ring, spoil->batch), ring_slot_data(&fake->ring, spoil->batch));
    fake_send_grant(fake, 5, slots, batches);
    fake_end(fake);
    int consumer AUTO_CLOSE = fake->peer;
    frame_reader_free(&fake->reader);
    fake->peer = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
    fake_welcome(fake, PROTO_VERSION);
    answer_files(fake);
    fake_linger(fake);
}

// ---- Ways to be wrong ------------------------------------------------------------------------------

static void flip_first(struct ring_slot *record, uint8_t *images) {
    (void)record, images[0] ^= 1;
}
static void flip_last(struct ring_slot *record, uint8_t *images) {
    images[record->count * 20 - 1] ^= 0x80;
}
static void flip_label(struct ring_slot *record, uint8_t *images) {
    (void)record, images[LABELS] ^= 1;
}
static void swap_two(struct ring_slot *record, uint8_t *images) {
    uint8_t image[20];
    (void)record;
    memcpy(image, images, 20);
    memcpy(images, images + 20, 20);
    memcpy(images + 20, image, 20);
}
static void elsewhere(struct ring_slot *record, uint8_t *images) {
    (void)images, record->first_position--;
}
static void other_epoch(struct ring_slot *record, uint8_t *images) {
    (void)images, record->epoch++;
}
static void too_few(struct ring_slot *record, uint8_t *images) {
    (void)images, record->count--;
}
static void last_too_early(struct ring_slot *record, uint8_t *images) {
    (void)images, record->last_of_epoch = 1;
}
static void never_last(struct ring_slot *record, uint8_t *images) {
    (void)images, record->last_of_epoch = 0;
}

static void check_names(const struct fake *fake, const struct verify *verify) {
    const struct spoil *spoil = fake->context;
    char names[64];
    assert_int_equal(verify_fields(verify, true, names, sizeof names), spoil->transformed ? 1 : 2);
    assert_string_equal(names, spoil->transformed ? "image" : "image, label");
    assert_int_equal(verify_fields(verify, false, names, sizeof names), spoil->transformed ? 1 : 0);
    assert_string_equal(names, spoil->transformed ? "label" : "");
}

// Reads everything, as feedctl read does. 0 or the verification's error.
static int read_all(const struct fake *fake, struct error *error) {
    struct feed_options options = fake_options(fake);
    options.dataset = "numbers";
    struct ctl ctl = {.socket = fake->path};
    struct feed *feed = fake_client(fake);
    struct verify *verify;
    struct verify_epoch epoch;
    struct feed_batch batch;
    int err = verify_open(&verify, &ctl, feed, &options, error);
    uint32_t epochs = 0;
    while (err == 0 && feed_next(feed, &batch, FAKE_WAIT_MS) == 1) {
        err = verify_batch(verify, feed, &batch, error);
        if (err == 0 && batch.last_of_epoch) {
            err = verify_epoch_end(verify, &epoch, error);
            if (err == 0) {
                assert_int_equal(epoch.whole, epochs > 0 || fake->consumed == 0);
                assert_int_equal(epoch.samples, SAMPLES - (epochs == 0 ? fake->consumed : 0));
            }
            epochs++;
        }
        assert_int_equal(feed_batch_release(feed, &batch, NULL), 0);
    }
    if (err == 0) {
        assert_int_equal(epochs, 2);
        assert_int_equal(verify_samples(verify), 2 * SAMPLES - fake->consumed);
        check_names(fake, verify);
    }
    verify_close(verify);
    feed_close(feed);
    return err;
}

static void remove_files(const struct fake *fake) {
    char path[128];
    snprintf(path, sizeof path, "%s/images", fake->folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/labels", fake->folder);
    unlink(path);
}

static void right_batches_pass_and_wrong_ones_do_not(void **state) {
    (void)state;
    const struct spoil cases[] = {
        {0, NULL, NULL, 0, false},
        {0, NULL, NULL, FAKE_BATCH, false},
        {0, flip_first, "differs at byte 0", FAKE_BATCH, false},
        {0, flip_first, "differs at byte 0", 0, false},
        {4, flip_last, "differs at byte 19", 0, false},
        {5, flip_label, "field label of sample", 0, false},
        {1, swap_two, "differs", 0, false},
        {1, elsewhere, "begins at position 7, expected was position 8 of epoch 1", 0, false},
        {3, other_epoch, "expected was position 0 of epoch 2", 0, false},
        {2, too_few, "3 samples and 0 skipped, expected were 4", 0, false},
        {1, last_too_early, "claims to be the last of the epoch", 0, false},
        {2, never_last, "claims not to be the last of the epoch", 0, false},
        {0, NULL, "hold 14 of 20 samples of field label", 0, true},
        {5, flip_label, NULL, 0, false, .transformed = true},
        {0, flip_first, "differs at byte 0", 0, false, .transformed = true},
        {1, elsewhere, "expected was position 8 of epoch 1", 0, false, .transformed = true},
        {0, NULL, "hold 14 of 20 samples of field label", 0, true, .transformed = true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct fake fake;
        struct error error = {0};
        fake_start_at(&fake, two_epochs, SAMPLES, 1, cases[i].start, (void *)&cases[i]);
        int err = read_all(&fake, &error);
        if ((err == 0) != !cases[i].part || (cases[i].part && !strstr(error.text, cases[i].part)))
            fail_msg("case %zu: %d %s", i, err, error.text);
        pthread_join(fake.thread, NULL);
        fake.script = NULL;
        remove_files(&fake);
        fake_stop(&fake);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(right_batches_pass_and_wrong_ones_do_not)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
