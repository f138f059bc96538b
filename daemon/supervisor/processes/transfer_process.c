#include "daemon/supervisor/processes/transfer_process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/confine/confine.h"
#include "daemon/heritage.h"
#include "daemon/log.h"
#include "daemon/supervisor/closer.h"

#define UNSENT_MOST 4096u // requests; a process with more of them has been hanging for long

// A process fails to start unless it gets as far as opening the GPU, however long it takes.
const struct respawn_policy transfer_respawn_policy = {
    .failures_most = 5,
    .start_ns = UINT64_MAX,
    .backoff_first_ns = 200 * NS_PER_MS,
    .backoff_most_ns = 30 * NS_PER_S,
    .short_life_ns = 1 * NS_PER_S,
    .short_pause_ns = 100 * NS_PER_MS,
    .retry_ns = 1 * NS_PER_S,
    .unspawned_counts = true,
};

struct unsent {
    TAILQ_ENTRY(unsent) link;
    struct transfer_request request;
    int fds[CONTROL_MAX_DESCRIPTORS];
    uint32_t count;
};

uint64_t transfer_process_silent_ns(const struct transfer_process *transfer, uint64_t now) {
    return process_silent_ns(&transfer->process, &transfer->record->heartbeat_ns, now);
}

bool transfer_process_is_in_driver(const struct transfer_process *transfer) {
    // Pairs with the release in transfer.c: after a call that has ended, its heartbeat is a new one.
    return atomic_load_explicit(&transfer->record->in_driver, memory_order_acquire) != 0;
}

// ---- Sending -----------------------------------------------------------------------------------------------

// A socket that has ended stays unpolled: it would be reported again and again.
static void poll_for(struct transfer_process *transfer) {
    uint32_t writable = TAILQ_EMPTY(&transfer->unsent) ? 0 : EPOLLOUT;
    if (!transfer->process.channel_ended)
        process_poll_channel(&transfer->process, EPOLLIN | writable);
}

static void drop_unsent(struct transfer_process *transfer, struct unsent *unsent) {
    TAILQ_REMOVE(&transfer->unsent, unsent, link);
    transfer->unsent_count--;
    closer_take(transfer->closer, transfer->account, unsent->fds,
                &unsent->count); // it may have sent one of them
    free(unsent);
}

// False: out of memory or descriptors, or it has been hanging for long.
static bool keep_unsent(struct transfer_process *transfer, const struct transfer_request *request,
                        const int *fds, uint32_t count) {
    struct unsent *unsent = transfer->unsent_count < UNSENT_MOST ? calloc(1, sizeof *unsent) : NULL;
    if (!unsent)
        return false;
    TAILQ_INSERT_TAIL(&transfer->unsent, unsent, link);
    transfer->unsent_count++;
    unsent->request = *request;
    while (unsent->count < count) {
        int copy = fcntl(fds[unsent->count], F_DUPFD_CLOEXEC, 0);
        if (copy < 0) {
            drop_unsent(transfer, unsent);
            return false;
        }
        unsent->fds[unsent->count++] = copy;
    }
    poll_for(transfer);
    return true;
}

static bool take_back(struct transfer_process *transfer, const struct transfer_request *removal) {
    struct unsent *unsent;
    if (removal->kind != TRANSFER_REMOVE_CONSUMER)
        return false;
    TAILQ_FOREACH(unsent, &transfer->unsent, link) {
        if (unsent->request.kind == TRANSFER_ADD_CONSUMER && unsent->request.pool == removal->pool &&
            unsent->request.consumer == removal->consumer) {
            drop_unsent(transfer, unsent);
            return true;
        }
    }
    return false;
}

bool transfer_process_send(struct transfer_process *transfer, const struct transfer_request *request,
                           const int *fds, uint32_t count) {
    if (take_back(transfer, request))
        return false;
    int err = -EAGAIN;
    if (TAILQ_EMPTY(&transfer->unsent))
        err = control_send(transfer->process.channel_fd, request, sizeof *request, fds, count);
    // A process that was not told something would be wrong from then on.
    if (err == -EAGAIN ? !keep_unsent(transfer, request, fds, count) : err != 0)
        process_kill(&transfer->process);
    return true;
}

static void send_unsent(struct transfer_process *transfer) {
    struct unsent *unsent;
    while ((unsent = TAILQ_FIRST(&transfer->unsent))) {
        int err = control_send(transfer->process.channel_fd, &unsent->request, sizeof unsent->request,
                               unsent->fds, unsent->count);
        if (err == -EAGAIN)
            return;
        drop_unsent(transfer, unsent);
        if (err)
            process_kill(&transfer->process);
    }
    poll_for(transfer);
}

// ---- Receiving ---------------------------------------------------------------------------------------------

// Clients are told the code and the text, and rely on both.
static void put_right(struct transfer_report *report) {
    bool fails = report->kind == TRANSFER_POOL_REFUSED || report->kind == TRANSFER_CONSUMER_REFUSED ||
                 report->kind == TRANSFER_GROWTH_REFUSED || report->kind == TRANSFER_LOST;
    if (fails && (report->code >= 0 || report->code <= -4096))
        report->code = -EIO;
    report->text[sizeof report->text - 1] = 0;
    for (char *at = report->text; *at; at++)
        if (*at < 0x20 || *at > 0x7e) // as a client takes only UTF-8, and the log is made of lines
            *at = '?';
}

// Only memory comes with a descriptor.
static bool is_report(const struct transfer_report *report, uint32_t fd_count) {
    const bool has_memory = report->kind == TRANSFER_POOL_OPEN || report->kind == TRANSFER_SLOT_GROWN;
    return report->kind >= TRANSFER_READY && report->kind <= TRANSFER_LOST && fd_count <= has_memory;
}

// A report that was lost, for want of descriptors, would be missed from then on, and so would all that follow the end
// of the channel: another process starts over. Mostly the channel ends because this one has.
static int hear_no_more(struct transfer_process *transfer) {
    struct process *process = &transfer->process;
    process->channel_ended = true;
    process_poll_channel(process, 0);
    process_kill(process);
    return 0;
}

// With room for all descriptors that a message can have: the kernel would close the rest here and now.
int transfer_process_receive(struct transfer_process *transfer, struct transfer_report *report, int *fd) {
    int fds[FDPASS_MOST];
    struct received_fds received = receive_into(fds, FDPASS_MOST);
    if (transfer->process.channel_ended)
        return 0;
    int got = control_receive(transfer->process.channel_fd, report, sizeof *report, &received);
    if (got == 0)
        return 0;
    if (got == -EPROTO && received.lost && !received.count) {
        log_warning(
            "feedd ran out of descriptors while receiving from process %d, a transfer process; replacing it",
            (int)process_pid(&transfer->process));
        got = -EMFILE;
    }
    if (got == -EPROTO || (got == 1 && !is_report(report, received.count))) {
        log_warning("process %d, a transfer process, sent an invalid report; killing it",
                    (int)process_pid(&transfer->process));
        got = -EPROTO;
    }
    if (got < 0) {
        closer_take(transfer->closer, transfer->account, fds, &received.count);
        return hear_no_more(transfer);
    }
    *fd = received.count ? fds[0] : -1;
    put_right(report);
    return 1;
}

void transfer_process_close(struct closer *closer, uint32_t record, int *fd) {
    uint32_t count = 1;
    if (*fd >= 0)
        closer_take(closer, closer_account(record), fd, &count);
    *fd = -1;
}

// Level-triggered: readable is reported in every turn until the reports are taken, so the owner may leave some for the
// next turn and no mark can be lost. An owner that takes them all, as it should, pays nothing for that.
static void on_ready(struct process *process, uint32_t events) {
    struct transfer_process *transfer = transfer_process_of(process);
    if (events & EPOLLOUT)
        send_unsent(transfer);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        process->changed(process);
}

void transfer_process_release(struct transfer_process *transfer) {
    struct unsent *unsent;
    while ((unsent = TAILQ_FIRST(&transfer->unsent)))
        drop_unsent(transfer, unsent);
    // There may be more in its receive queue, which nobody has looked at.
    uint32_t one = 1;
    process_poll_channel(&transfer->process, 0);
    closer_take(transfer->closer, transfer->account, &transfer->process.channel_fd, &one);
    transfer->process.channel_fd = -1;
    process_release(&transfer->process);
}

// ---- Starting ----------------------------------------------------------------------------------------------

static int write_settings(const struct transfer_start *start, int *settings_fd, struct error *error) {
    struct transfer_settings settings = {
        .bytes = sizeof settings,
        .supervisor_pid = (uint64_t)getpid(),
        .stats_record = start->record,
        .log_level = log_get_level(),
        .confine = confine_is_wanted(),
        .decodes = start->decodes,
    };
    snprintf(settings.uuid, sizeof settings.uuid, "%s", start->uuid);
    AUTO_CLOSE int fd = memfd_create("feedd-transfer-settings", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, &settings, sizeof settings, 0) != (ssize_t)sizeof settings)
        return error_set(error, fd < 0 ? -errno : -EIO,
                         "cannot make the memory file of a transfer process's settings: %m");
    *settings_fd = fd;
    fd = -1;
    return 0;
}

static void free_transfer(struct process *process) {
    free(transfer_process_of(process));
}

static int spawn(struct transfer_process *transfer, const struct transfer_start *start, const int ends[2],
                 int settings_fd, struct error *error) {
    const int fds[] = {
        [STDIN_FILENO] = -1,
        [STDOUT_FILENO] = STDOUT_FILENO,
        [STDERR_FILENO] = STDERR_FILENO,
        [HERITAGE_SETTINGS] = settings_fd,
        [HERITAGE_CONTROL] = ends[1],
        [HERITAGE_TRANSFER_STATS] = start->stats_fd,
        [HERITAGE_WAKE] = start->wake_fd,
    };
    char *arguments[] = {(char *)"feedd-transfer", (char *)"--role=transfer", (char *)start->uuid, NULL};
    const struct process_start options = {
        .processes = start->processes,
        .poll_set = start->poll_set,
        .what = "transfer process",
        .arguments = arguments, // the UUID is shown by ps, not read
        .fds = fds,
        .fd_count = COUNT_OF(fds),
        .channel = ends[0],
        .channel_ready = on_ready,
        .changed = start->changed,
        .closed = free_transfer,
        .owner = start->owner,
    };
    return process_start(&transfer->process, &options, error);
}

int transfer_process_start(const struct transfer_start *start, struct transfer_process **started,
                           struct error *error) {
    AUTO_CLOSE int settings_fd = -1;
    int ends[2];
    int err = write_settings(start, &settings_fd, error);
    if (err)
        return err;
    // The far end blocks; ours does not, by uv_poll_init.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_set(error, -errno, "cannot make sockets for a transfer process: %m");
    AUTO_CLOSE int far_end = ends[1];
    struct transfer_process *transfer = calloc(1, sizeof *transfer);
    if (!transfer) {
        close(ends[0]);
        return error_set(error, -ENOMEM, "out of memory");
    }
    TAILQ_INIT(&transfer->unsent);
    transfer->closer = start->closer;
    transfer->account = closer_account(start->record);
    transfer->record = &start->stats->gpus[start->record];
    // Before it runs: from then on the heartbeat is its own.
    atomic_store_explicit(&transfer->record->heartbeat_ns, monotonic_ns(), memory_order_relaxed);
    atomic_store_explicit(&transfer->record->confined, 0, memory_order_relaxed);
    atomic_store_explicit(&transfer->record->in_driver, 0, memory_order_relaxed);
    err = spawn(transfer, start, ends, settings_fd, error);
    if (err)
        return err;
    pid_t pid = process_pid(&transfer->process);
    atomic_store_explicit(&transfer->record->pid, (uint64_t)pid, memory_order_relaxed);
    log_info("transfer process of GPU %s started as process %d", start->uuid, (int)pid);
    *started = transfer;
    return 0;
}
