#include "daemon/loader/read/uring_queues.h"

#include <sys/syscall.h>

#include "base/sizes.h"

#define MOST_SQ_ENTRIES 1024u

static uint32_t entries_of(uint32_t depth, bool delays) {
    return (uint32_t)power_of_two_up(depth * (delays ? 2ull : 1ull));
}

static int set_up(struct uring_queues *queues, uint32_t entries, unsigned flags) {
    static const unsigned choices[] = {
        IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER |
            IORING_SETUP_DEFER_TASKRUN,
        IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN,
        IORING_SETUP_CQSIZE,
    };
    int err = -EINVAL;
    for (size_t i = 0; i < COUNT_OF(choices) && err == -EINVAL; i++) {
        struct io_uring_params params = {.flags = choices[i] | flags, .cq_entries = 2 * entries};
        err =
            io_uring_queue_init_params((unsigned)min_u64(entries, MOST_SQ_ENTRIES), &queues->uring, &params);
        if (err == 0 &&
            (!(params.features & IORING_FEAT_EXT_ARG) || !(params.features & IORING_FEAT_NODROP))) {
            io_uring_queue_exit(&queues->uring);
            return -ENOSYS;
        }
    }
    return err;
}

// All files that are not folders, then life_fd, then places for files of folders, one per read in flight. Without the
// places, or life_fd alone, if more than may be registered are wanted.
static int register_files(struct uring_queues *queues, const struct reader_options *options) {
    uint32_t count = dataset_plain_files(options->layout), life = options->life_fd >= 0;
    uint32_t places = options->folders.count ? options->depth : 0;
    AUTO_FREE int *fds = calloc(count + 1 + places, sizeof *fds);
    if (!fds)
        return -ENOMEM;
    for (uint32_t i = 0; i < count + 1 + places; i++)
        fds[i] = i < count ? options->first_fd + (int)i : -1;
    fds[count] = options->life_fd;
    if (places && io_uring_register_files(&queues->uring, fds, count + 1 + places) == 0) {
        queues->fixed_files = count;
        queues->first_place = count + 1;
        queues->place_count = places;
        return 0;
    }
    queues->fixed_files = count && io_uring_register_files(&queues->uring, fds, count + life) == 0;
    return queues->fixed_files || !life ? 0 : io_uring_register_files(&queues->uring, &fds[count], 1);
}

// Not by liburing: some versions declare these calls without exporting them.
static long register_call(const struct uring_queues *queues, unsigned what, const void *of, unsigned count) {
    return syscall(SYS_io_uring_register, queues->uring.ring_fd, what, of, count);
}

// What the reader uses, and nothing else from now on. The last two are for folders. Of the registrations, one remains:
// memory may take its place in the table of buffers later (uring_buffers.h). That is memory which the process has
// mapped, and the kernel pins it for writing only if the process may write to it; so a process that has been taken over
// can reach nothing through it that it cannot reach by itself.
static int restrict_and_enable(struct uring_queues *queues, bool folder) {
    static const unsigned operations[] = {IORING_OP_READ,    IORING_OP_READV,        IORING_OP_READ_FIXED,
                                          IORING_OP_TIMEOUT, IORING_OP_ASYNC_CANCEL, IORING_OP_OPENAT2,
                                          IORING_OP_CLOSE};
    struct io_uring_restriction rules[COUNT_OF(operations) + 2] = {0};
    size_t count = COUNT_OF(operations) - (folder ? 0 : 2);
    for (size_t i = 0; i < count; i++)
        rules[i] = (struct io_uring_restriction){.opcode = IORING_RESTRICTION_SQE_OP,
                                                 .sqe_op = (uint8_t)operations[i]};
    unsigned flags = IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK;
    if (folder)
        flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
    rules[count] = (struct io_uring_restriction){.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED,
                                                 .sqe_flags = (uint8_t)flags};
    rules[count + 1] = (struct io_uring_restriction){.opcode = IORING_RESTRICTION_REGISTER_OP,
                                                     .register_op = IORING_REGISTER_BUFFERS_UPDATE};
    queues->restricted = register_call(queues, IORING_REGISTER_RESTRICTIONS, rules, (unsigned)count + 2) == 0;
    return register_call(queues, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0 ? -errno : 0;
}

static int fill(struct uring_queues *queues, const struct reader_options *options, bool restrict_them) {
    int err = register_files(queues, options);
    if (err < 0)
        return err;
    if (options->ring && !options->delay_us) // whose reads name a piece long before they begin
        uring_buffers_open(&queues->buffers, &queues->uring, options->ring);
    io_uring_register_ring_fd(&queues->uring); // saves a lookup per call; since Linux 5.18
    return restrict_them ? restrict_and_enable(queues, options->layout->folder_count) : 0;
}

static unsigned flags_of(bool restrict_them) {
    return restrict_them ? IORING_SETUP_R_DISABLED : 0;
}

void uring_queues_prepare(struct uring_queues *queues, uint32_t depth, bool restrict_them) {
    *queues = (struct uring_queues){0};
    if (set_up(queues, entries_of(depth, false), flags_of(restrict_them)) == 0)
        queues->prepared = depth;
}

// Of the shape that is wanted, whoever made them.
static int make(struct uring_queues *queues, const struct reader_options *options, bool restrict_them) {
    if (queues->prepared && queues->prepared == options->depth && !options->delay_us)
        return 0;
    if (queues->prepared)
        io_uring_queue_exit(&queues->uring);
    *queues = (struct uring_queues){0};
    return set_up(queues, entries_of(options->depth, options->delay_us), flags_of(restrict_them));
}

void uring_queues_open(struct uring_queues *queues, const struct reader_options *options,
                       bool restrict_them) {
    queues->err = make(queues, options, restrict_them);
    if (queues->err < 0)
        return;
    queues->err = fill(queues, options, restrict_them);
    if (queues->err < 0)
        io_uring_queue_exit(&queues->uring);
}

enum reader_reason uring_queues_reason(int err) {
    return err == -EPERM || err == -EACCES ? REASON_URING_FORBIDDEN
           : err == -ENOSYS                ? REASON_URING_MISSING
           : err == -ENOMEM                ? REASON_MEMLOCK
                                           : REASON_URING_FAILED;
}

void uring_queues_close(struct uring_queues *queues) {
    if (queues->err == 0)
        io_uring_queue_exit(&queues->uring);
    uring_buffers_close(&queues->buffers);
    *queues = (struct uring_queues){.err = -EBADF};
}

void uring_queues_ask(const struct uring_queues *queues, struct io_uring_sqe *entry, int fd, bool fixed_file,
                      const struct request_rest *rest) {
    int buffer = rest->memory ? uring_buffers_find(&queues->buffers, rest->memory, rest->bytes) : -1;
    if (buffer >= 0)
        io_uring_prep_read_fixed(entry, fd, rest->memory, rest->bytes, rest->offset, buffer);
    else if (rest->memory)
        io_uring_prep_read(entry, fd, rest->memory, rest->bytes, rest->offset);
    else
        io_uring_prep_readv(entry, fd, rest->pieces, rest->piece_count, rest->offset);
    if (fixed_file)
        entry->flags |= IOSQE_FIXED_FILE;
}
