// Messages there and back, and bytes that are none: garbage must cost a bounded arena and nothing else.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "proto/codec.h"

// A message as a frame_writer holds it, without its length.
static size_t packed(struct frame_writer *writer, const void *message, const uint8_t **bytes) {
    assert_int_equal(codec_send(writer, message, SIZE_MAX), 0);
    *bytes = writer->buffer + writer->start + PROTO_FRAME_HEADER;
    return frame_pending(writer) - PROTO_FRAME_HEADER;
}

static void a_message_comes_back_as_it_was(void **state) {
    (void)state;
    struct codec_arena arena CLEANUP(codec_arena_free) = {0};
    struct frame_writer writer CLEANUP(frame_writer_free) = {0};
    uint32_t slots[] = {3, 0, 4095};
    Feedd__Grant grant = FEEDD__GRANT__INIT;
    grant.sequence = UINT64_MAX;
    grant.slots = slots;
    grant.n_slots = 3;
    Feedd__ServerMessage message = FEEDD__SERVER_MESSAGE__INIT;
    message.body_case = FEEDD__SERVER_MESSAGE__BODY_GRANT;
    message.grant = &grant;
    const uint8_t *bytes;
    size_t count = packed(&writer, &message, &bytes);
    const Feedd__ServerMessage *back = codec_unpack_server(&arena, bytes, count);
    assert_non_null(back);
    assert_int_equal(back->body_case, FEEDD__SERVER_MESSAGE__BODY_GRANT);
    assert_true(back->grant->sequence == UINT64_MAX);
    assert_int_equal(back->grant->n_slots, 3);
    assert_memory_equal(back->grant->slots, slots, sizeof slots);
}

static void an_attach_keeps_every_field(void **state) {
    (void)state;
    struct codec_arena arena CLEANUP(codec_arena_free) = {0};
    struct frame_writer writer CLEANUP(frame_writer_free) = {0};
    Feedd__Attach attach = FEEDD__ATTACH__INIT;
    attach.dataset = (char *)"cifar100";
    attach.batch_size = 16777215;
    attach.shuffle = true;
    attach.seed = UINT64_MAX;
    attach.share = (char *)"";
    attach.resume = (char *)"token";
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_ATTACH;
    message.attach = &attach;
    const uint8_t *bytes;
    size_t count = packed(&writer, &message, &bytes);
    const Feedd__ClientMessage *back = codec_unpack_client(&arena, bytes, count);
    assert_non_null(back);
    assert_string_equal(back->attach->dataset, "cifar100");
    assert_int_equal(back->attach->batch_size, 16777215);
    assert_true(back->attach->shuffle && !back->attach->drop_last);
    assert_true(back->attach->seed == UINT64_MAX);
    assert_string_equal(back->attach->share, "");
    assert_string_equal(back->attach->resume, "token");
}

static void bytes_without_a_known_body_are_no_message(void **state) {
    (void)state;
    struct codec_arena arena CLEANUP(codec_arena_free) = {0};
    static const uint8_t unknown_body[] = {0xfa, 0x01, 0x00}; // field 31, empty
    static const uint8_t cut[] = {0x0a, 0x05, 0x08};          // hello of 5 bytes, one there
    assert_null(codec_unpack_client(&arena, unknown_body, 0));
    assert_null(codec_unpack_client(&arena, unknown_body, sizeof unknown_body));
    assert_null(codec_unpack_server(&arena, unknown_body, sizeof unknown_body));
    assert_null(codec_unpack_client(&arena, cut, sizeof cut));
    static uint8_t huge[PROTO_MAX_MESSAGE + 1];
    assert_null(codec_unpack_client(&arena, huge, sizeof huge));
}

// A length-delimited field holding `count` bytes.
static size_t wrap(uint8_t *out, unsigned field, const uint8_t *bytes, size_t count) {
    size_t used = 0;
    out[used++] = (uint8_t)(field << 3 | 2);
    for (size_t rest = count; used == 1 || rest > 0; rest >>= 7)
        out[used++] = (uint8_t)((rest & 127) | (rest >> 7 ? 128 : 0));
    memcpy(out + used, bytes, count);
    return used + count;
}

static void lists_that_are_too_long_are_refused(void **state) {
    (void)state;
    struct codec_arena arena CLEANUP(codec_arena_free) = {0};
    static uint8_t slots[PROTO_MAX_MESSAGE], body[PROTO_MAX_MESSAGE], message[PROTO_MAX_MESSAGE];
    static const size_t counts[] = {PROTO_MAX_GRANTS, PROTO_MAX_GRANTS + 1, 65000};
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        size_t release = wrap(message, 3, body, wrap(body, 1, slots, counts[i]));
        assert_int_equal(codec_unpack_client(&arena, message, release) != NULL,
                         counts[i] <= PROTO_MAX_GRANTS);
        size_t grant = wrap(message, 3, body, wrap(body, 2, slots, counts[i]));
        assert_int_equal(codec_unpack_server(&arena, message, grant) != NULL, counts[i] <= PROTO_MAX_GRANTS);
    }
}

// Thirty thousand empty datasets in one answer would take megabytes; the arena ends that.
static void many_small_parts_do_not_outgrow_the_arena(void **state) {
    (void)state;
    struct codec_arena arena CLEANUP(codec_arena_free) = {0};
    static uint8_t body[60000], message[PROTO_MAX_MESSAGE];
    for (size_t i = 0; i < sizeof body; i += 2) {
        body[i] = 3 << 3 | 2;
        body[i + 1] = 0;
    }
    size_t count = wrap(message, 6, body, sizeof body);
    assert_null(codec_unpack_server(&arena, message, count));
    assert_true(arena.used <= PROTO_ARENA_BYTES);
    count = wrap(message, 6, body, 2000);
    const Feedd__ServerMessage *answer = codec_unpack_server(&arena, message, count);
    assert_non_null(answer);
    assert_int_equal(answer->answer->n_datasets, 1000);
}

static uint64_t random_state = 88172645463325252u;

static uint64_t random_word(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static void random_bytes_never_crash(void **state) {
    (void)state;
    struct codec_arena arena CLEANUP(codec_arena_free) = {0};
    uint8_t bytes[512];
    unsigned understood = 0;
    for (int round = 0; round < 200000; round++) {
        size_t count = random_word() % sizeof bytes;
        for (size_t i = 0; i < count; i++)
            bytes[i] = (uint8_t)random_word();
        if (count > 4 && round % 2) { // begin like a body, so that more is parsed
            bytes[0] = (uint8_t)((1 + random_word() % 7) << 3 | 2);
            bytes[1] = (uint8_t)(random_word() % 128);
        }
        understood += codec_unpack_client(&arena, bytes, count) != NULL;
        understood += codec_unpack_server(&arena, bytes, count) != NULL;
    }
    assert_true(understood > 0); // otherwise this test looks at nothing but the first byte
}

// Real messages with bits flipped and ends cut: closer to what gets past the first checks.
static void damaged_messages_never_crash(void **state) {
    (void)state;
    struct codec_arena arena CLEANUP(codec_arena_free) = {0};
    struct frame_writer writer CLEANUP(frame_writer_free) = {0};
    uint64_t shape[] = {3, 32, 32};
    Feedd__Field field = FEEDD__FIELD__INIT, *fields[] = {&field, &field, &field};
    field.name = (char *)"image";
    field.shape = shape;
    field.n_shape = 3;
    Feedd__Dataset dataset = FEEDD__DATASET__INIT, *datasets[] = {&dataset, &dataset};
    dataset.name = (char *)"cifar100";
    dataset.fields = fields;
    dataset.n_fields = 3;
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    answer.datasets = datasets;
    answer.n_datasets = 2;
    Feedd__ServerMessage message = FEEDD__SERVER_MESSAGE__INIT;
    message.body_case = FEEDD__SERVER_MESSAGE__BODY_ANSWER;
    message.answer = &answer;
    const uint8_t *bytes;
    size_t count = packed(&writer, &message, &bytes);
    uint8_t damaged[512];
    assert_true(count <= sizeof damaged);
    for (int round = 0; round < 200000; round++) {
        memcpy(damaged, bytes, count);
        for (uint64_t flips = random_word() % 4; flips-- > 0;)
            damaged[random_word() % count] ^= (uint8_t)(1u << random_word() % 8);
        codec_unpack_server(&arena, damaged, random_word() % 3 ? count : random_word() % count);
    }
}

static void sending_keeps_to_its_limits(void **state) {
    (void)state;
    struct frame_writer writer CLEANUP(frame_writer_free) = {0};
    static char text[PROTO_MAX_MESSAGE];
    memset(text, 'x', sizeof text - 1);
    Feedd__Done done = FEEDD__DONE__INIT;
    done.text = text;
    Feedd__ServerMessage message = FEEDD__SERVER_MESSAGE__INIT;
    message.body_case = FEEDD__SERVER_MESSAGE__BODY_DONE;
    message.done = &done;
    assert_int_equal(codec_send(&writer, &message.base, SIZE_MAX), -EMSGSIZE);
    text[1000] = 0;
    assert_int_equal(codec_send(&writer, &message.base, 500), -ENOBUFS);
    assert_int_equal(frame_pending(&writer), 0);
    assert_int_equal(codec_send(&writer, &message.base, 2000), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_comes_back_as_it_was),
        cmocka_unit_test(an_attach_keeps_every_field),
        cmocka_unit_test(bytes_without_a_known_body_are_no_message),
        cmocka_unit_test(lists_that_are_too_long_are_refused),
        cmocka_unit_test(many_small_parts_do_not_outgrow_the_arena),
        cmocka_unit_test(random_bytes_never_crash),
        cmocka_unit_test(damaged_messages_never_crash),
        cmocka_unit_test(sending_keeps_to_its_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
