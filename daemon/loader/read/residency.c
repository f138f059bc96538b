#include "daemon/loader/read/residency.h"

#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/sizes.h"
#include "base/time.h"

#define PLACES 64u
#define WINDOW (64u << 10) // looked at around each place, where the method counts pages

#ifndef SYS_cachestat
#define SYS_cachestat 451 // the same number on every architecture
#endif

// As in <linux/mman.h> of Linux 6.5.
struct cachestat_range {
    uint64_t offset, bytes;
};
struct cachestat_pages {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

struct place {
    uint32_t file;
    uint64_t offset;
};

static uint64_t next_random(uint64_t *state) {
    uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15); // splitmix64
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

// 0..bound-1; the bias of a 128-bit product is far below what 64 places can show.
static uint64_t random_below(uint64_t *state, uint64_t bound) {
    return (uint64_t)((unsigned __int128)next_random(state) * bound >> 64);
}

// Every file is equally likely: how often a byte is read does not follow from the size of its file.
static struct place random_place_of_mix(const struct dataset_layout *layout, uint64_t *state) {
    uint32_t index = (uint32_t)random_below(state, layout->file_count);
    return (struct place){index, random_below(state, max_u64(layout->files[index].bytes, 1))};
}

// Every byte of every stream is equally likely.
static struct place random_place(const struct dataset_layout *layout, uint64_t *state) {
    uint64_t record_bytes = 0;
    if (layout->part_count)
        return random_place_of_mix(layout, state);
    for (uint32_t i = 0; i < layout->stream_count; i++)
        record_bytes += layout->streams[i].record_bytes;
    uint64_t within = random_below(state, max_u64(record_bytes, 1));
    uint64_t sample = random_below(state, dataset_stored_samples(layout));
    const struct dataset_stream *stream = layout->streams;
    while (within >= stream->record_bytes && stream < layout->streams + layout->stream_count - 1)
        within -= (stream++)->record_bytes;
    uint32_t index = dataset_find_file(layout, stream, sample, stream->first_file);
    const struct dataset_file *file = &layout->files[index];
    uint64_t offset = file->data_offset + (sample - file->first_sample) * stream->record_bytes + within;
    return (struct place){index, min_u64(offset, max_u64(file->bytes, 1) - 1)};
}

// The fraction of the pages around a place that are in the cache, or negative errno.
static double ask_cachestat(const struct dataset_layout *layout, int fd, const struct place *place) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t start = place->offset / WINDOW * WINDOW;
    uint64_t end = min_u64(start + WINDOW, layout->files[place->file].bytes);
    struct cachestat_range range = {start, end - start};
    struct cachestat_pages pages;
    if (syscall(SYS_cachestat, fd, &range, &pages, 0) < 0)
        return -errno;
    return (double)min_u64(pages.cached, divide_up(end - start, page)) / (double)divide_up(end - start, page);
}

static double ask_nowait(int fd, const struct place *place) {
    uint8_t byte;
    struct iovec piece = {&byte, 1};
    ssize_t got = preadv2(fd, &piece, 1, (off_t)place->offset, RWF_NOWAIT);
    if (got >= 0)
        return got > 0;
    // EINVAL is O_DIRECT's answer to one byte.
    return errno == EAGAIN || errno == EINVAL || errno == EINTR ? 0 : -errno;
}

double residency_sample(const struct dataset_layout *layout, int first_fd, struct residency_probe *probe) {
    double sum = 0;
    for (uint32_t i = 0; i < PLACES && probe->method != RESIDENCY_NONE; i++) {
        struct place place = random_place(layout, &probe->random);
        int fd = first_fd + (int)place.file;
        double share = probe->method == RESIDENCY_CACHESTAT ? ask_cachestat(layout, fd, &place) : -1;
        if (share < 0) {
            // EPERM for a file that we may not write, ENOSYS on older kernels.
            probe->method = RESIDENCY_NOWAIT;
            share = ask_nowait(fd, &place);
        }
        if (share < 0) {
            probe->method = RESIDENCY_NONE;
            return 0;
        }
        sum += share;
    }
    return sum / PLACES;
}

#define GO_MAPPED         0.98
#define LEAVE_MAPPED      0.90
#define FAULTS_PER_SECOND 50u // each keeps a loader waiting for 0.1 to 10 ms
#define FIRST_BAR         (10 * NS_PER_S)
#define LONGEST_BAR       (300 * NS_PER_S)

void residency_policy_init(struct residency_policy *policy, uint64_t major_faults, uint64_t now_ns) {
    *policy = (struct residency_policy){
        .mode = IO_URING, .major_faults = major_faults, .updated_ns = now_ns, .bar_ns = FIRST_BAR};
}

enum io_mode residency_policy_update(struct residency_policy *policy, double fraction, uint64_t major_faults,
                                     uint64_t now_ns) {
    uint64_t faults = major_faults - policy->major_faults;
    uint64_t elapsed = max_u64(now_ns - policy->updated_ns, NS_PER_S / 10);
    bool burst = faults > FAULTS_PER_SECOND && faults > FAULTS_PER_SECOND * elapsed / NS_PER_S;
    policy->major_faults = major_faults;
    policy->updated_ns = now_ns;
    if (policy->mode == IO_URING) {
        if (fraction >= GO_MAPPED && now_ns >= policy->barred_until_ns)
            policy->mode = IO_MAPPED;
        return policy->mode;
    }
    if (burst) {
        // The probed places said otherwise, so they are not trusted for a while, longer each time.
        policy->barred_until_ns = now_ns + policy->bar_ns;
        policy->bar_ns = min_u64(policy->bar_ns * 2, LONGEST_BAR);
    }
    if (burst || fraction < LEAVE_MAPPED)
        policy->mode = IO_URING;
    return policy->mode;
}
