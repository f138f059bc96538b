// Frames over a real socket pair: torn, coalesced, oversize, with descriptors, against a peer that never reads.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/scope.h"
#include "proto/frame.h"
#include "tests/unit/descriptors.h"

struct pair {
    int near, far;
    struct frame_writer writer; // sends on near
    struct frame_reader reader; // reads from far
};

static int set_up(void **state) {
    struct pair *pair = calloc(1, sizeof *pair);
    int ends[2];
    if (!pair || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    pair->near = ends[0];
    pair->far = ends[1];
    *state = pair;
    return 0;
}

static int tear_down(void **state) {
    struct pair *pair = *state;
    frame_writer_free(&pair->writer);
    frame_reader_free(&pair->reader);
    close_fd(&pair->near);
    close_fd(&pair->far);
    free(pair);
    return 0;
}

static void put(struct frame_writer *writer, const void *bytes, size_t count) {
    uint8_t *place = frame_reserve(writer, count, SIZE_MAX);
    assert_non_null(place);
    memcpy(place, bytes, count);
}

static void expect_frame(struct frame_reader *reader, const void *bytes, size_t count) {
    const uint8_t *message;
    size_t got;
    assert_int_equal(frame_next(reader, &message, &got), 1);
    assert_int_equal(got, count);
    assert_memory_equal(message, bytes, count);
}

static void expect_nothing(struct frame_reader *reader) {
    const uint8_t *message;
    size_t got;
    assert_int_equal(frame_next(reader, &message, &got), 0);
}

static void a_frame_torn_at_every_byte_is_put_together(void **state) {
    struct pair *pair = *state;
    static const uint8_t wire[] = {5, 0, 0, 0, 'h', 'e', 'l', 'l', 'o'};
    for (size_t cut = 1; cut < sizeof wire; cut++) {
        assert_int_equal(write(pair->near, wire, cut), cut);
        assert_int_equal(frame_read(&pair->reader, pair->far), cut);
        expect_nothing(&pair->reader);
        assert_int_equal(frame_read(&pair->reader, pair->far), -EAGAIN);
        assert_int_equal(write(pair->near, wire + cut, sizeof wire - cut), sizeof wire - cut);
        assert_int_equal(frame_read(&pair->reader, pair->far), sizeof wire - cut);
        expect_frame(&pair->reader, "hello", 5);
        expect_nothing(&pair->reader);
    }
}

static void frames_that_arrive_together_come_out_one_by_one(void **state) {
    struct pair *pair = *state;
    char text[32];
    for (int i = 0; i < 100; i++)
        put(&pair->writer, text, (size_t)snprintf(text, sizeof text, "message %d", i));
    put(&pair->writer, "", 0);
    assert_int_equal(frame_flush(&pair->writer, pair->near), 0);
    assert_true(frame_read(&pair->reader, pair->far) > 0);
    for (int i = 0; i < 100; i++)
        expect_frame(&pair->reader, text, (size_t)snprintf(text, sizeof text, "message %d", i));
    expect_frame(&pair->reader, "", 0);
    expect_nothing(&pair->reader);
}

// Largest frames through a small socket buffer, both sides in small steps, in order and without a wrong byte.
static void a_long_stream_survives_partial_writes(void **state) {
    struct pair *pair = *state;
    static uint8_t sent[PROTO_MAX_MESSAGE];
    int small = 4096;
    setsockopt(pair->near, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    unsigned written = 0, read = 0, stalls = 0;
    while (read < 50) {
        if (written < 50 && frame_pending(&pair->writer) < 2 * PROTO_MAX_MESSAGE) {
            memset(sent, (int)written, sizeof sent);
            put(&pair->writer, sent, sizeof sent - written);
            written++;
        }
        stalls += frame_flush(&pair->writer, pair->near) == -EAGAIN;
        ssize_t got = frame_read(&pair->reader, pair->far);
        assert_true(got > 0 || got == -EAGAIN);
        const uint8_t *message;
        size_t count;
        while (frame_next(&pair->reader, &message, &count) == 1) {
            memset(sent, (int)read, sizeof sent);
            assert_int_equal(count, sizeof sent - read);
            assert_memory_equal(message, sent, count);
            read++;
        }
    }
    assert_true(stalls > 0);
}

static void an_oversize_length_is_refused_at_its_header(void **state) {
    struct pair *pair = *state;
    static const uint8_t largest[] = {0, 0, 1, 0}, beyond[] = {1, 0, 1, 0}, absurd[] = {255, 255, 255, 255};
    const uint8_t *message;
    size_t count;
    assert_int_equal(write(pair->near, largest, 4), 4);
    assert_int_equal(frame_read(&pair->reader, pair->far), 4);
    assert_int_equal(frame_next(&pair->reader, &message, &count), 0);
    frame_reader_free(&pair->reader);
    assert_int_equal(write(pair->near, beyond, 4), 4);
    assert_int_equal(frame_read(&pair->reader, pair->far), 4);
    assert_int_equal(frame_next(&pair->reader, &message, &count), -EMSGSIZE);
    frame_reader_free(&pair->reader);
    assert_int_equal(write(pair->near, absurd, 4), 4);
    assert_int_equal(frame_read(&pair->reader, pair->far), 4);
    assert_int_equal(frame_next(&pair->reader, &message, &count), -EMSGSIZE);
}

static void the_end_of_the_stream_is_told_from_a_torn_frame(void **state) {
    struct pair *pair = *state;
    const uint8_t *message;
    size_t count;
    assert_int_equal(write(pair->near, "\1\0\0\0x\2\0", 7), 7);
    close_fd(&pair->near);
    assert_int_equal(frame_read(&pair->reader, pair->far), 7);
    assert_int_equal(frame_read(&pair->reader, pair->far), 0);
    assert_int_equal(frame_next(&pair->reader, &message, &count), 1);
    assert_int_equal(frame_next(&pair->reader, &message, &count), -EPROTO);

    struct frame_reader empty CLEANUP(frame_reader_free) = {0};
    assert_int_equal(frame_read(&empty, pair->far), 0);
    assert_int_equal(frame_next(&empty, &message, &count), 0);
    assert_true(empty.closed);
}

static void a_reader_whose_frames_nobody_takes_is_bounded(void **state) {
    struct pair *pair = *state;
    static const uint8_t zeros[32768];
    size_t taken = 0;
    ssize_t got;
    do {
        assert_int_equal(write(pair->near, zeros, sizeof zeros), sizeof zeros);
        while ((got = frame_read(&pair->reader, pair->far)) > 0)
            taken += (size_t)got;
    } while (got == -EAGAIN && taken < (1u << 20));
    assert_int_equal(got, -ENOBUFS);
    assert_in_range(taken, PROTO_MAX_MESSAGE, 2 * (PROTO_MAX_MESSAGE + PROTO_FRAME_HEADER));
}

static void the_writer_keeps_to_its_limit(void **state) {
    struct pair *pair = *state;
    assert_non_null(frame_reserve(&pair->writer, 96, 200));
    assert_non_null(frame_reserve(&pair->writer, 96, 200));
    assert_null(frame_reserve(&pair->writer, 0, 200));
    assert_null(frame_reserve(&pair->writer, PROTO_MAX_MESSAGE + 1, SIZE_MAX));
    assert_int_equal(frame_pending(&pair->writer), 200);
}

static void a_closed_peer_is_an_error_and_no_signal(void **state) {
    struct pair *pair = *state;
    put(&pair->writer, "x", 1);
    close_fd(&pair->far);
    assert_int_equal(signal(SIGPIPE, SIG_DFL), SIG_DFL);
    assert_int_equal(frame_flush(&pair->writer, pair->near), -EPIPE);
}

// ---- Descriptors -----------------------------------------------------------------------------------

static void same_file(int left, int right) {
    struct stat a, b;
    assert_int_equal(fstat(left, &a), 0);
    assert_int_equal(fstat(right, &b), 0);
    assert_int_equal(a.st_dev, b.st_dev);
    assert_int_equal(a.st_ino, b.st_ino);
}

static void a_descriptor_arrives_with_its_frame(void **state) {
    struct pair *pair = *state;
    int file AUTO_CLOSE = open("/dev/null", O_RDONLY | O_CLOEXEC);
    put(&pair->writer, "before", 6);
    assert_int_equal(frame_attach_fd(&pair->writer, file), 0);
    put(&pair->writer, "with", 4);
    assert_int_equal(frame_attach_fd(&pair->writer, file), -EBUSY); // that one has not gone out yet
    put(&pair->writer, "after", 5);
    assert_int_equal(frame_flush(&pair->writer, pair->near), 0);

    // The descriptor must not have come with the first frame's bytes alone.
    uint8_t first[10];
    assert_int_equal(recv(pair->far, first, sizeof first, 0), sizeof first);
    assert_memory_equal(first + 4, "before", 6);
    while (frame_read(&pair->reader, pair->far) > 0)
        ;
    expect_frame(&pair->reader, "with", 4);
    expect_frame(&pair->reader, "after", 5);
    assert_int_equal(pair->reader.fd_count, 1);
    int received AUTO_CLOSE = frame_take_fd(&pair->reader);
    same_file(received, file);
    assert_true(fcntl(received, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(frame_take_fd(&pair->reader), -1);
    assert_int_equal(frame_attach_fd(&pair->writer, file), 0);
}

static void an_attached_descriptor_waits_for_its_frame(void **state) {
    struct pair *pair = *state;
    int file AUTO_CLOSE = open("/dev/null", O_RDONLY | O_CLOEXEC);
    put(&pair->writer, "before", 6);
    assert_int_equal(frame_attach_fd(&pair->writer, file), 0);
    assert_int_equal(frame_flush(&pair->writer, pair->near), 0);
    assert_int_equal(frame_read(&pair->reader, pair->far), 10);
    assert_int_equal(pair->reader.fd_count, 0);
    put(&pair->writer, "with", 4);
    assert_int_equal(frame_flush(&pair->writer, pair->near), 0);
    assert_int_equal(frame_read(&pair->reader, pair->far), 8);
    assert_int_equal(pair->reader.fd_count, 1);
}

static void several_descriptors_arrive_in_order_with_their_frame(void **state) {
    struct pair *pair = *state;
    unsigned before = open_descriptors();
    int files[PROTO_MAX_DESCRIPTORS];
    for (uint32_t i = 0; i < PROTO_MAX_DESCRIPTORS; i++) {
        files[i] = memfd_create("test", MFD_CLOEXEC);
        assert_int_equal(frame_attach_fd(&pair->writer, files[i]), 0);
    }
    assert_int_equal(frame_attach_fd(&pair->writer, files[0]), -E2BIG);
    put(&pair->writer, "with", 4);
    assert_int_equal(frame_attach_fd(&pair->writer, files[0]), -EBUSY);
    put(&pair->writer, "after", 5);
    assert_int_equal(frame_flush(&pair->writer, pair->near), 0);
    while (frame_read(&pair->reader, pair->far) > 0)
        ;
    expect_frame(&pair->reader, "with", 4);
    assert_int_equal(pair->reader.fd_count, PROTO_MAX_DESCRIPTORS);
    for (uint32_t i = 0; i < PROTO_MAX_DESCRIPTORS; i++) {
        int received AUTO_CLOSE = frame_take_fd(&pair->reader);
        same_file(received, files[i]);
        assert_int_equal(pair->reader.fd_count, PROTO_MAX_DESCRIPTORS - 1 - i);
        close(files[i]);
    }
    assert_int_equal(frame_take_fd(&pair->reader), -1);
    expect_frame(&pair->reader, "after", 5);
    assert_int_equal(open_descriptors(), before);
}

// What a hostile peer sends: `count` descriptors with one byte.
static void send_descriptors(int socket, int fd, uint32_t count) {
    int fds[FDPASS_MOST];
    for (uint32_t i = 0; i < count; i++)
        fds[i] = fd;
    assert_int_equal(fdpass_send(socket, "", 1, lend_fds(fds, count), 0), 1);
}

// They are all here, for the caller to close where that may block: the kernel has closed none.
static void too_many_descriptors_are_refused_and_kept(void **state) {
    struct pair *pair = *state;
    for (uint32_t count = 1; count <= FDPASS_MOST; count++) {
        unsigned before = open_descriptors();
        send_descriptors(pair->near, pair->near, count);
        ssize_t got = frame_read(&pair->reader, pair->far);
        assert_int_equal(got, count <= FRAME_FDS_MOST ? 1 : -EPROTO);
        assert_int_equal(pair->reader.fd_count, count);
        assert_int_equal(open_descriptors(), before + count);
        frame_reader_free(&pair->reader);
        assert_int_equal(open_descriptors(), before);
    }
}

static void descriptors_that_add_up_are_refused_too(void **state) {
    struct pair *pair = *state;
    unsigned before = open_descriptors();
    send_descriptors(pair->near, pair->near, FRAME_FDS_MOST);
    send_descriptors(pair->near, pair->near, FDPASS_MOST);
    send_descriptors(pair->near, pair->near, 1);
    assert_int_equal(frame_read(&pair->reader, pair->far), 1);
    assert_int_equal(frame_read(&pair->reader, pair->far), -EPROTO);
    assert_int_equal(pair->reader.fd_count, FRAME_FDS_MOST + FDPASS_MOST);
    assert_int_equal(frame_read(&pair->reader, pair->far), -EPROTO); // though there is no more room
    assert_int_equal(pair->reader.fd_count, FRAME_FDS_MOST + FDPASS_MOST);
    frame_reader_free(&pair->reader);
    assert_int_equal(open_descriptors(), before);
}

static void an_unsent_descriptor_is_closed_with_the_writer(void **state) {
    struct pair *pair = *state;
    unsigned before = open_descriptors();
    assert_int_equal(frame_attach_fd(&pair->writer, pair->near), 0);
    assert_int_equal(open_descriptors(), before + 1);
    frame_writer_free(&pair->writer);
    assert_int_equal(open_descriptors(), before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_frame_torn_at_every_byte_is_put_together),
        TEST(frames_that_arrive_together_come_out_one_by_one),
        TEST(a_long_stream_survives_partial_writes),
        TEST(an_oversize_length_is_refused_at_its_header),
        TEST(the_end_of_the_stream_is_told_from_a_torn_frame),
        TEST(a_reader_whose_frames_nobody_takes_is_bounded),
        TEST(the_writer_keeps_to_its_limit),
        TEST(a_closed_peer_is_an_error_and_no_signal),
        TEST(a_descriptor_arrives_with_its_frame),
        TEST(an_attached_descriptor_waits_for_its_frame),
        TEST(several_descriptors_arrive_in_order_with_their_frame),
        TEST(too_many_descriptors_are_refused_and_kept),
        TEST(descriptors_that_add_up_are_refused_too),
        TEST(an_unsent_descriptor_is_closed_with_the_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
