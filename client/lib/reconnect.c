#include "client/lib/reconnect.h"

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "client/lib/leases.h"

#define DEFAULT_RECONNECT_MS 60000
#define TRY_EVERY_NS         (50 * NS_PER_MS)
#define DENIED_NS            NS_PER_S        // after that, it is meant
#define ATTEMPT_NS           (2 * NS_PER_S)  // to connect and attach
#define ATTEMPT_GPU_NS       (10 * NS_PER_S) // the daemon may have to start the GPU's transfer process first
#define STANDSTILL_NS        NS_PER_S        // what takes so much longer than it can has stood still

_Static_assert(TRY_EVERY_NS <= INTERRUPT_EVERY_NS,
               "the sleep between two attempts asks whether to end in time");

// How long to look for the daemon; negative: not at all.
static int reconnect_ms(const struct open_request *request) {
    int timeout_ms = request->options.reconnect_timeout_ms;
    return timeout_ms ? timeout_ms : DEFAULT_RECONNECT_MS;
}

bool reconnect_is_wanted(const struct open_request *request, int err) {
    return (err == -ECONNRESET || err == -ESHUTDOWN) && reconnect_ms(request) >= 0;
}

void reconnect_begin(struct reconnect *reconnect, struct attachment *lost) {
    *reconnect = (struct reconnect){.until_ns = deadline_after_ms(reconnect_ms(lost->request))};
    connection_close(&lost->connection);
    leases_forget_queue(lost);
}

// While this process stood still, and maybe the whole machine, it did not look for the daemon.
static void excuse(struct reconnect *reconnect, uint64_t began, uint64_t most_ns) {
    const uint64_t took = monotonic_ns() - began;
    if (took <= most_ns + STANDSTILL_NS)
        return;
    reconnect->until_ns += took - most_ns;
    if (reconnect->denied_ns)
        reconnect->denied_ns += took - most_ns;
}

static int attach_again(struct reconnect *reconnect, struct attachment **now, struct gpu *gpu,
                        struct error *error) {
    struct attachment *lost = *now;
    // Two pools may be more than the GPU has room for.
    if (!lost->held)
        mapped_pool_close(&lost->pool);
    const uint64_t most_ns = gpu ? ATTEMPT_GPU_NS : ATTEMPT_NS, began = monotonic_ns();
    int err = attachment_open(&reconnect->fresh, lost->request, gpu, lost, began + most_ns, error);
    excuse(reconnect, began, most_ns);
    if (err)
        return err;
    *now = reconnect->fresh;
    reconnect->fresh = NULL;
    (*now)->past = lost->held ? lost : lost->past;
    if (!lost->held)
        attachment_close(lost);
    return 0;
}

// Not -ENOENT: a daemon that answers has all of its datasets.
static bool worth_another_try(int err) {
    switch (err) {
    case -ECONNREFUSED:
    case -ECONNRESET:
    case -ESHUTDOWN:
    case -EPIPE:
    case -ETIMEDOUT:
    case -EAGAIN:
    case -EBUSY:
        return true;
    default:
        // The memory and the descriptors of the lost daemon may not all be free yet.
        return error_is_lack(err);
    }
}

// What a daemon that is being restarted looks like from here. -EACCES, for a moment: its socket is there, and has not
// been given to the group that may connect.
static bool may_come_back(struct reconnect *reconnect, int err) {
    uint64_t now = monotonic_ns();
    if (err != -EACCES) {
        reconnect->denied_ns = 0;
        return worth_another_try(err);
    }
    if (!reconnect->denied_ns)
        reconnect->denied_ns = now;
    return now - reconnect->denied_ns < DENIED_NS;
}

static int pause_until(uint64_t when, const struct open_request *request, struct error *error) {
    int err = interruptible_sleep(when, open_request_interrupt(request));
    return err ? error_set(error, err, "looking for feedd on %s was interrupted", request->socket) : 0;
}

int reconnect_first(struct attachment **fresh, const struct open_request *request, struct gpu *gpu,
                    uint64_t deadline, struct error *error) {
    bool restarting = false;
    for (;;) {
        int err = attachment_open(fresh, request, gpu, NULL, deadline, error);
        if (!restarting && err && reconnect_is_wanted(request, err)) {
            restarting = true;
            deadline = min_u64(deadline, deadline_after_ms(reconnect_ms(request)));
        }
        uint64_t next = monotonic_ns() + TRY_EVERY_NS;
        if (!err || !restarting || !worth_another_try(err) || next >= deadline)
            return err;
        err = pause_until(next, request, error);
        if (err)
            return err;
    }
}

// The daemon is back, but its dataset is not. -EAGAIN, which feed_next() returns for something else, would be misread.
static int came_back_without(const struct open_request *request, struct error *error) {
    error_prefix(error, "feedd on %s was lost and came back", request->socket);
    if (error)
        error->code = -ECONNRESET;
    return -ECONNRESET;
}

int reconnect_try(struct reconnect *reconnect, struct attachment **now, struct gpu *gpu, uint64_t deadline,
                  struct error *error) {
    const struct open_request *request = (*now)->request;
    for (;;) {
        if (monotonic_ns() < reconnect->next_try_ns && deadline != DEADLINE_NOW) {
            const uint64_t began = monotonic_ns();
            int err = pause_until(min_u64(reconnect->next_try_ns, deadline), request, error);
            excuse(reconnect, began, TRY_EVERY_NS);
            if (err)
                return err;
        }
        if (monotonic_ns() < reconnect->next_try_ns)
            return 0;
        int err = attach_again(reconnect, now, gpu, error);
        if (!err)
            return 1;
        if (!may_come_back(reconnect, err))
            return err;
        uint64_t time = monotonic_ns();
        reconnect->next_try_ns = time + TRY_EVERY_NS;
        if (time >= reconnect->until_ns && err == -EAGAIN)
            return came_back_without(request, error);
        if (time >= reconnect->until_ns)
            return error_set(error, -ECONNRESET, "feedd on %s was lost and did not come back within %d s",
                             request->socket, reconnect_ms(request) / 1000);
        if (time >= deadline)
            return 0;
    }
}
