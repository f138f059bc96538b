#include "shm/ring_make.h"

#include <fcntl.h>
#include <inttypes.h>
#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sizes.h"
#include "shm/ring_limits.h"
#include "shm/ring_room.h"

#define CHUNK_TARGET                                                                                         \
    (128u * 1024u)          // bytes: large enough to amortise a claim, small enough to share a batch out
#define CHUNK_SAMPLES 4096u // most samples of a chunk: limits the memory in which a loader plans its reads
#define CHUNKS_MOST   64u   // when cut by bytes; every chunk is looked at when one is done
#define FIELD_ALIGN   256u  // an alignment of arrays that suits GPUs and vector units
#define HUGE_PAGE     (2ull << 20)
#define QUICK_BYTES   (64u << 10) // takes some 20 us

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

// Arrays of a page or more start on a page, so that O_DIRECT can read straight into them.
static int place_fields(struct ring_plan *plan, uint64_t *sample_bytes, struct error *error) {
    uint64_t offset = 0;
    *sample_bytes = plan->ragged_mean;
    plan->ragged_count = 0;
    for (uint32_t i = 0; i < plan->field_count; i++) {
        struct ring_field *field = &plan->fields[i];
        uint64_t bytes = 0;
        if (__builtin_mul_overflow(field->sample_bytes, (uint64_t)plan->batch_size, &bytes) ||
            bytes > MAX_RING)
            return error_set(error, -EOVERFLOW,
                             "a batch of %" PRIu32 " samples of %" PRIu64 " bytes is too large",
                             plan->batch_size, field->sample_bytes);
        if (field->ragged) {
            bytes = sizeof(int64_t) * (plan->batch_size + 1ull);
            field->ragged = ++plan->ragged_count;
        }
        offset = align_up(offset, bytes >= RING_PAGE ? RING_PAGE : FIELD_ALIGN);
        field->slot_offset = offset;
        offset += bytes;
        *sample_bytes += field->sample_bytes;
    }
    plan->values_offset = align_up(offset, plan->ragged_count ? RING_PAGE : 1);
    if (plan->ragged_most > MAX_RING)
        return error_set(error, -EOVERFLOW,
                         "a batch of %" PRIu32 " samples has up to %" PRIu64 " bytes, which is too large",
                         plan->batch_size, plan->ragged_most);
    if (plan->ragged_count)
        offset = plan->values_offset + plan->ragged_most + plan->ragged_count * RING_VALUES_ALIGN;
    plan->slot_bytes = align_up(max_u64(offset, 1), RING_PAGE);
    plan->slot_allocated_bytes = plan->slot_bytes;
    if (plan->ragged_usual < plan->ragged_most)
        plan->slot_allocated_bytes -= (plan->ragged_most - plan->ragged_usual) / RING_PAGE * RING_PAGE;
    return 0;
}

struct ring_offsets {
    uint64_t slots, chunks, skips, queue, places, attempts, data;
    uint32_t skip_words, queue_entries;
};

// Otherwise loaders replace samples by themselves. A pool has copies of what is complete.
static bool has_attempts(const struct ring_plan *plan) {
    return plan->replaces && plan->ragged_count && !plan->on_device;
}

static struct ring_offsets place_parts(const struct ring_plan *plan) {
    struct ring_offsets at;
    at.skip_words = (uint32_t)divide_up(plan->batch_size, 64);
    // Twice the slots: one entry per batch, and room for entries that are spent but not passed yet. See
    // make_queue_room.
    at.queue_entries = (uint32_t)power_of_two_up(2ull * plan->slot_count);
    at.slots = RING_PAGE;
    at.chunks = align_up(at.slots + plan->slot_count * sizeof(struct ring_slot), CACHE_LINE);
    at.skips = align_up(at.chunks + 8ull * plan->slot_count * plan->chunks_per_slot, CACHE_LINE);
    at.queue = align_up(at.skips + 8ull * plan->slot_count * at.skip_words, CACHE_LINE);
    at.places = align_up(at.queue + 4ull * at.queue_entries, CACHE_LINE);
    at.attempts = align_up(
        at.places + 8ull * plan->slot_count * (plan->chunks_per_slot + 2) * plan->ragged_count, CACHE_LINE);
    uint64_t attempts = has_attempts(plan) ? (uint64_t)plan->slot_count * plan->batch_size : 0;
    at.data = align_up(at.attempts + attempts, RING_PAGE);
    return at;
}

int ring_plan(struct ring_plan *plan, struct error *error) {
    if (plan->slot_count < 1 || plan->slot_count > RING_MAX_SLOTS)
        return error_set(error, -EOVERFLOW, "a ring has 1 to %u slots, not %" PRIu32, RING_MAX_SLOTS,
                         plan->slot_count);
    if (plan->batch_size < 1 || plan->batch_size > CHUNK_MAX_SAMPLES)
        return error_set(error, -EOVERFLOW, "a batch has 1 to %u samples, not %" PRIu32, CHUNK_MAX_SAMPLES,
                         plan->batch_size);
    if (plan->field_count < 1 || plan->field_count > RING_MAX_FIELDS)
        return error_set(error, -EOVERFLOW, "a sample has 1 to %u fields, not %" PRIu32, RING_MAX_FIELDS,
                         plan->field_count);
    uint64_t sample_bytes;
    int err = place_fields(plan, &sample_bytes, error);
    if (err)
        return err;
    uint64_t chunks;
    if (__builtin_add_overflow(sample_bytes, plan->work_mean, &sample_bytes) ||
        __builtin_mul_overflow(sample_bytes, (uint64_t)plan->batch_size, &chunks))
        chunks = UINT64_MAX;
    chunks = divide_up(chunks, CHUNK_TARGET);
    chunks = max_u64(min_u64(chunks, CHUNKS_MOST), divide_up(plan->batch_size, CHUNK_SAMPLES));
    chunks = plan->on_device ? 1 : max_u64(1, min_u64(chunks, plan->batch_size));
    plan->chunk_samples = (uint32_t)divide_up(plan->batch_size, chunks);
    plan->chunks_per_slot = (uint32_t)divide_up(plan->batch_size, plan->chunk_samples);
    plan->data_offset = place_parts(plan).data;
    if (plan->slot_bytes > MAX_RING / plan->slot_count)
        return error_set(error, -EOVERFLOW, "a ring of %" PRIu32 " slots of %" PRIu64 " bytes is too large",
                         plan->slot_count, plan->slot_bytes);
    plan->total_bytes = plan->allocated_bytes = plan->data_offset;
    if (!plan->on_device) {
        plan->total_bytes += plan->slot_bytes * plan->slot_count;
        plan->allocated_bytes += plan->slot_allocated_bytes * plan->slot_count;
    }
    return 0;
}

// `code`: negative errno of an attempt to give the object its size or its pages.
static int cannot_size(const struct ring_plan *plan, int code, struct error *error) {
    struct rlimit limit = {0};
    if (code == -ENOSPC || code == -ENOMEM)
        return ring_no_room(plan->allocated_bytes, code, error);
    if (code != -EFBIG || getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return error_set(error, code, "cannot allocate a ring of %" PRIu64 " bytes: %s", plan->total_bytes,
                         strerror(-code));
    return error_set(
        error, code,
        "a ring of %" PRIu64 " bytes is larger than a file of the daemon may be, which is %" PRIu64
        " bytes (RLIMIT_FSIZE); ask for a smaller ring or batch, or raise the limit (ulimit -f, or"
        " LimitFSIZE= in the systemd unit)",
        plan->total_bytes, (uint64_t)limit.rlim_cur);
}

static void fill_header(struct ring_header *header, const struct ring_plan *plan) {
    struct ring_offsets at = place_parts(plan);
    header->version = RING_VERSION;
    header->header_bytes = sizeof(struct ring_control);
    header->total_bytes = plan->total_bytes;
    header->slot_count = plan->slot_count;
    header->chunks_per_slot = plan->chunks_per_slot;
    header->chunk_samples = plan->chunk_samples;
    header->batch_size = plan->batch_size;
    header->field_count = plan->field_count;
    header->queue_entries = at.queue_entries;
    header->slots_offset = at.slots;
    header->chunks_offset = at.chunks;
    header->skips_offset = at.skips;
    header->skip_words = at.skip_words;
    header->queue_offset = at.queue;
    header->data_offset = at.data;
    header->slot_bytes = plan->slot_bytes;
    header->on_device = plan->on_device;
    header->order_version = plan->order_version;
    header->samples = plan->samples;
    header->seed = plan->seed;
    header->fingerprint = plan->fingerprint;
    header->world_size = plan->world_size;
    header->ragged_count = plan->ragged_count;
    header->values_offset = plan->values_offset;
    header->places_offset = at.places;
    header->attempts_offset = has_attempts(plan) ? at.attempts : 0;
    header->slot_allocated_bytes = plan->slot_allocated_bytes;
    memcpy(header->fields, plan->fields, sizeof header->fields);
    // Pairs with the acquire in copy_header.
    atomic_store_explicit(&header->magic, RING_MAGIC, memory_order_release);
}

// A tmpfs file without a name. O_EXCL keeps everybody from linking it into a folder, where it would outlive its
// descriptors.
static int open_unnamed(int *fd, struct error *error) {
    *fd = open(SHM_FOLDER, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    return *fd < 0 ? error_set(error, -errno, "cannot make a shared-memory object in " SHM_FOLDER ": %m") : 0;
}

// For a pool: a transfer process gets descriptors of such rings for as long as it lives, and by none of them can one be
// resized. README.md says why a feed's ring is not made so.
static int open_sealed(const struct ring_plan *plan, int *fd, struct error *error) {
    AUTO_CLOSE int writer =
        memfd_create("feedd-pool-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (writer < 0 && errno == EINVAL) // before Linux 6.3
        writer = memfd_create("feedd-pool-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (writer < 0 || fchmod(writer, 0600) < 0)
        return error_set(error, -errno, "cannot make the ring of a pool: %m");
    if (ftruncate(writer, (off_t)plan->total_bytes) < 0)
        return cannot_size(plan, -errno, error);
    if (fcntl(writer, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return error_set(error, -errno, "cannot seal the ring of a pool: %m");
    *fd = writer;
    writer = -1;
    return 0;
}

// The mode (0600, the daemon's user) keeps others from opening it for writing through /proc.
static int open_for_reading(int fd, int *read_fd, struct error *error) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *read_fd = open(path, O_RDONLY | O_CLOEXEC);
    return *read_fd < 0
               ? error_set(error, -errno, "cannot open a shared-memory object read-only through /proc: %m")
               : 0;
}

// Whether /dev/shm is mounted with huge = advise, within_size or always.
static bool look_for_huge_pages(void) {
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    const struct mntent *mount;
    struct mntent space;
    char text[4096];
    bool offered = false;
    while (mounts && (mount = getmntent_r(mounts, &space, text, sizeof text)))
        if (strcmp(mount->mnt_dir, SHM_FOLDER) == 0) { // the last one is on top
            const char *huge = hasmntopt(mount, "huge");
            offered = huge && strncmp(huge, "huge=never", 10) != 0;
        }
    if (mounts)
        endmntent(mounts);
    return offered;
}

// A mount seldom changes, and looking would delay the first batch. So only the last slots are allocated according to
// what is found now, and everything else according to what was found for the previous ring.
static bool huge_pages_offered(bool look) {
    static _Atomic int known; // 0: nothing is
    if (look || !atomic_load_explicit(&known, memory_order_relaxed))
        atomic_store_explicit(&known, look_for_huge_pages() ? 2 : 1, memory_order_relaxed);
    return atomic_load_explicit(&known, memory_order_relaxed) == 2;
}

// Huge pages make a ring ten times faster to allocate and cheaper to pin. Best effort: posix_fallocate does what
// is left. With small pages it would be slower than posix_fallocate.
static void populate_huge(uint64_t total, int fd, uint64_t from, uint64_t to) {
    if (!huge_pages_offered(to == total))
        return;
    uint8_t *memory = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return;
    from -= from % HUGE_PAGE;
    to = min_u64(align_up(to, HUGE_PAGE), total);
    // In steps: the kernel locks the address space meanwhile, and a fork has to wait for that.
    bool populated = madvise(memory + from, to - from, MADV_HUGEPAGE) == 0;
    for (uint64_t at = from; populated && at < to; at += HUGE_PAGE)
        populated = madvise(memory + at, min_u64(HUGE_PAGE, to - at), MADV_POPULATE_WRITE) == 0;
    munmap(memory, total);
}

static int fallocate_all(int fd, uint64_t offset, uint64_t bytes) {
    int err;
    do {
        err = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    } while (err == EINTR);
    return -err;
}

static int allocate(const struct ring_plan *plan, int fd, uint64_t from, uint64_t to) {
    if (!plan->on_device)
        populate_huge(plan->total_bytes, fd, from, to);
    return fallocate_all(fd, from, to - from);
}

int ring_allocate(const struct ring_plan *plan, int fd, uint32_t first, uint32_t count, struct error *error) {
    const uint64_t begin = plan->data_offset + first * plan->slot_bytes;
    int err = 0;
    if (plan->slot_allocated_bytes == plan->slot_bytes)
        err = allocate(plan, fd, begin, begin + count * plan->slot_bytes);
    else
        for (uint32_t slot = 0; slot < count && !err; slot++)
            err = fallocate_all(fd, begin + slot * plan->slot_bytes, plan->slot_allocated_bytes);
    return err ? cannot_size(plan, err, error) : 0;
}

int ring_grow(int fd, uint64_t offset, uint64_t bytes, struct error *error) {
    int err = ring_free_bytes() < bytes ? -ENOSPC : fallocate_all(fd, offset, bytes);
    if (err == -ENOSPC || err == -ENOMEM)
        return ring_no_room(bytes, err, error);
    return err ? error_set(error, err, "cannot allocate %" PRIu64 " more bytes of a ring: %s", bytes,
                           strerror(-err))
               : 0;
}

bool ring_control_is_quick(const struct ring_plan *plan) {
    return plan->data_offset <= QUICK_BYTES && !huge_pages_offered(false);
}

int ring_allocate_control(const struct ring_plan *plan, int fd, struct error *error) {
    int err = allocate(plan, fd, 0, plan->data_offset);
    return err ? cannot_size(plan, err, error) : ring_write_header(plan, fd, error);
}

int ring_write_header(const struct ring_plan *plan, int fd, struct error *error) {
    void *memory = mmap(NULL, RING_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "cannot map a new ring: %m");
    fill_header(memory, plan);
    munmap(memory, RING_PAGE);
    return 0;
}

int ring_find_room(const struct ring_plan *plan, struct error *error) {
    return ring_free_bytes() < plan->allocated_bytes ? ring_no_room(plan->allocated_bytes, -ENOSPC, error)
                                                     : 0;
}

int ring_create(const struct ring_plan *plan, int *fd, int *read_fd, struct error *error) {
    AUTO_CLOSE int writer = -1;
    AUTO_CLOSE int reader = -1;
    int err = plan->on_device ? open_sealed(plan, &writer, error) : open_unnamed(&writer, error);
    if (!err && !plan->on_device && ftruncate(writer, (off_t)plan->total_bytes) < 0)
        err = cannot_size(plan, -errno, error);
    if (!err)
        err = open_for_reading(writer, &reader, error);
    if (err)
        return err;
    *fd = writer;
    *read_fd = reader;
    writer = reader = -1;
    return 0;
}

// ---- In advance --------------------------------------------------------------------------------------------

int ring_prepare(uint64_t bytes, int *fd, int *read_fd, struct error *error) {
    AUTO_CLOSE int writer = -1;
    AUTO_CLOSE int reader = -1;
    int err = open_unnamed(&writer, error);
    if (!err)
        err = open_for_reading(writer, &reader, error);
    if (err)
        return err;
    err = ftruncate(writer, (off_t)bytes) < 0 ? -errno : 0;
    if (!err) {
        populate_huge(bytes, writer, 0, bytes);
        err = fallocate_all(writer, 0, bytes);
    }
    if (err)
        return error_set(error, err, "cannot allocate %" PRIu64 " bytes for the next ring: %s", bytes,
                         strerror(-err));
    *fd = writer;
    *read_fd = reader;
    writer = reader = -1;
    return 0;
}

// Of ragged slots only a part is allocated, so what is prepared may not extend beyond that of the first one.
static uint64_t prepared_most(const struct ring_plan *plan) {
    const bool sparse = plan->slot_allocated_bytes < plan->slot_bytes;
    return sparse ? plan->data_offset + plan->slot_allocated_bytes : plan->total_bytes;
}

int ring_adopt(const struct ring_plan *plan, int fd, uint64_t *prepared, struct error *error) {
    const uint64_t most = prepared_most(plan);
    if (*prepared > most && ftruncate(fd, (off_t)most) < 0)
        return cannot_size(plan, -errno, error);
    *prepared = min_u64(*prepared, most);
    return ftruncate(fd, (off_t)plan->total_bytes) < 0 ? cannot_size(plan, -errno, error) : 0;
}

uint32_t ring_prepared_slots(const struct ring_plan *plan, uint64_t prepared) {
    if (plan->ragged_count || prepared < plan->data_offset)
        return 0;
    return (uint32_t)min_u64((prepared - plan->data_offset) / plan->slot_bytes, plan->slot_count);
}
