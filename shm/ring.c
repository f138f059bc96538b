// Making, mapping and checking a ring. ring_loader.c and ring_supervisor.c have what happens in it.
#include "shm/ring.h"

#include <fcntl.h>
#include <inttypes.h>
#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/sizes.h"
#include "shm/ring_room.h"

#define CHUNK_TARGET                                                                                         \
    (128u * 1024u)          // bytes: large enough to amortise a claim, small enough to share a batch out
#define CHUNK_SAMPLES 4096u // most samples of a chunk: limits the memory in which a loader plans its reads
#define CHUNKS_MOST   64u   // when cut by bytes; every chunk is looked at when one is done
#define FIELD_ALIGN   256u  // an alignment of arrays that suits GPUs and vector units
#define MAX_RING      (1ull << 46)
#define HUGE_PAGE     (2ull << 20)

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

// Arrays of a page or more start on a page, so that O_DIRECT can read straight into them.
static int place_fields(struct ring_plan *plan, uint64_t *sample_bytes, struct error *error) {
    uint64_t offset = 0;
    *sample_bytes = 0;
    for (uint32_t i = 0; i < plan->field_count; i++) {
        struct ring_field *field = &plan->fields[i];
        uint64_t bytes = 0;
        if (__builtin_mul_overflow(field->sample_bytes, (uint64_t)plan->batch_size, &bytes) ||
            bytes > MAX_RING)
            return error_set(error, -EOVERFLOW,
                             "a batch of %" PRIu32 " samples of %" PRIu64 " bytes is too large",
                             plan->batch_size, field->sample_bytes);
        offset = align_up(offset, bytes >= RING_PAGE ? RING_PAGE : FIELD_ALIGN);
        field->slot_offset = offset;
        offset += bytes;
        *sample_bytes += field->sample_bytes;
    }
    plan->slot_bytes = align_up(max_u64(offset, 1), RING_PAGE);
    return 0;
}

struct ring_offsets {
    uint64_t slots, chunks, skips, queue, data;
    uint32_t skip_words, queue_entries;
};

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
    at.data = align_up(at.queue + 4ull * at.queue_entries, RING_PAGE);
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
    uint64_t chunks = divide_up(sample_bytes * plan->batch_size, CHUNK_TARGET);
    chunks = max_u64(min_u64(chunks, CHUNKS_MOST), divide_up(plan->batch_size, CHUNK_SAMPLES));
    chunks = plan->on_device ? 1 : max_u64(1, min_u64(chunks, plan->batch_size));
    plan->chunk_samples = (uint32_t)divide_up(plan->batch_size, chunks);
    plan->chunks_per_slot = (uint32_t)divide_up(plan->batch_size, plan->chunk_samples);
    plan->data_offset = place_parts(plan).data;
    if (plan->slot_bytes > MAX_RING / plan->slot_count)
        return error_set(error, -EOVERFLOW, "a ring of %" PRIu32 " slots of %" PRIu64 " bytes is too large",
                         plan->slot_count, plan->slot_bytes);
    plan->total_bytes = plan->data_offset + (plan->on_device ? 0 : plan->slot_bytes * plan->slot_count);
    return 0;
}

// `code`: negative errno of an attempt to give the object its size or its pages.
static int cannot_size(const struct ring_plan *plan, int code, struct error *error) {
    struct rlimit limit = {0};
    if (code == -ENOSPC || code == -ENOMEM)
        return ring_no_room(plan->total_bytes, code, error);
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
    memcpy(header->fields, plan->fields, sizeof header->fields);
    // Pairs with the acquire in copy_header.
    atomic_store_explicit(&header->magic, RING_MAGIC, memory_order_release);
}

// A tmpfs file without a name. O_EXCL keeps everybody from linking it into a folder, where it would outlive its
// descriptors.
static int open_unnamed(const struct ring_plan *plan, int *fd, struct error *error) {
    AUTO_CLOSE int writer = open(SHM_FOLDER, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (writer < 0)
        return error_set(error, -errno, "cannot make a shared-memory object in " SHM_FOLDER ": %m");
    if (ftruncate(writer, (off_t)plan->total_bytes) < 0)
        return cannot_size(plan, -errno, error);
    *fd = writer;
    writer = -1;
    return 0;
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
static bool huge_pages_offered(void) {
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    const struct mntent *mount;
    bool offered = false;
    while (mounts && (mount = getmntent(mounts)))
        if (strcmp(mount->mnt_dir, SHM_FOLDER) == 0) { // the last one is on top
            const char *huge = hasmntopt(mount, "huge");
            offered = huge && strncmp(huge, "huge=never", 10) != 0;
        }
    if (mounts)
        endmntent(mounts);
    return offered;
}

// Huge pages make a ring ten times faster to allocate and cheaper to pin. Best effort: posix_fallocate does what
// is left. With small pages it would be slower than posix_fallocate.
static void populate_huge(int fd, uint64_t bytes) {
    if (!huge_pages_offered())
        return;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return;
    // In steps: the kernel locks the address space meanwhile, and a fork has to wait for that.
    bool populated = madvise(memory, bytes, MADV_HUGEPAGE) == 0;
    for (uint64_t at = 0; populated && at < bytes; at += HUGE_PAGE)
        populated = madvise((uint8_t *)memory + at, min_u64(HUGE_PAGE, bytes - at), MADV_POPULATE_WRITE) == 0;
    munmap(memory, bytes);
}

static int allocate(const struct ring_plan *plan, int fd, uint64_t bytes, struct error *error) {
    int err;
    if (!plan->on_device)
        populate_huge(fd, min_u64(align_up(bytes, HUGE_PAGE), plan->total_bytes));
    do {
        err = posix_fallocate(fd, 0, (off_t)bytes);
    } while (err == EINTR);
    return err ? cannot_size(plan, -err, error) : 0;
}

int ring_allocate(const struct ring_plan *plan, int fd, struct error *error) {
    return allocate(plan, fd, plan->total_bytes, error);
}

int ring_allocate_control(const struct ring_plan *plan, int fd, struct error *error) {
    int err = allocate(plan, fd, plan->data_offset, error);
    if (err)
        return err;
    void *memory = mmap(NULL, RING_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "cannot map a new ring: %m");
    fill_header(memory, plan);
    munmap(memory, RING_PAGE);
    return 0;
}

int ring_create(const struct ring_plan *plan, int *fd, int *read_fd, struct error *error) {
    AUTO_CLOSE int writer = -1;
    AUTO_CLOSE int reader = -1;
    if (ring_free_bytes() < plan->total_bytes)
        return ring_no_room(plan->total_bytes, -ENOSPC, error);
    int err = plan->on_device ? open_sealed(plan, &writer, error) : open_unnamed(plan, &writer, error);
    if (!err)
        err = open_for_reading(writer, &reader, error);
    if (err)
        return err;
    *fd = writer;
    *read_fd = reader;
    writer = reader = -1;
    return 0;
}

static int bad_ring(struct error *error, const char *what) {
    return error_set(error, -EPROTO, "the shared-memory object is not a ring that this build can use: %s",
                     what);
}

static bool part_fits(uint64_t offset, uint64_t count, uint64_t size, uint64_t limit) {
    uint64_t bytes = 0;
    return !__builtin_mul_overflow(count, size, &bytes) && offset <= limit && bytes <= limit - offset;
}

// Like part_fits, for a part that is aligned and begins at *end or later. Moves *end to the end of the part.
static bool part_follows(uint64_t *end, uint64_t offset, uint64_t count, uint64_t size, uint64_t alignment,
                         uint64_t limit) {
    if (offset < *end || offset % alignment || !part_fits(offset, count, size, limit))
        return false;
    *end = offset + count * size;
    return true;
}

static bool shape_fits(const struct ring_field *field) {
    uint64_t bytes = dtype_bytes(field->dtype);
    for (uint32_t i = 0; i < field->dimensions; i++)
        if (__builtin_mul_overflow(bytes, field->shape[i], &bytes))
            return false;
    return bytes == field->sample_bytes;
}

static int check_fields(const struct ring_header *header, struct error *error) {
    uint64_t end = 0;
    if (header->field_count < 1 || header->field_count > RING_MAX_FIELDS)
        return bad_ring(error, "field count");
    for (uint32_t i = 0; i < header->field_count; i++) {
        const struct ring_field *field = &header->fields[i];
        if (!dtype_bytes(field->dtype) || field->dimensions > RING_MAX_DIMS)
            return bad_ring(error, "field type");
        if (!shape_fits(field))
            return bad_ring(error, "field size");
        if (memchr(field->name, 0, sizeof field->name) == NULL)
            return bad_ring(error, "field name");
        if (!part_follows(&end, field->slot_offset, header->batch_size, field->sample_bytes, CACHE_LINE,
                          header->slot_bytes))
            return bad_ring(error, "field outside its slot");
    }
    return 0;
}

static int check_parts(const struct ring_header *header, uint64_t object_bytes, struct error *error) {
    uint64_t slots = header->slot_count, control = header->data_offset, end = RING_PAGE;
    uint64_t data_end = header->on_device ? MAX_RING : object_bytes; // on a device it is not in the object
    if (header->slot_bytes < 1 || header->slot_bytes % RING_PAGE)
        return bad_ring(error, "slot size");
    if (!part_follows(&end, header->slots_offset, slots, sizeof(struct ring_slot), CACHE_LINE, control) ||
        !part_follows(&end, header->chunks_offset, slots * header->chunks_per_slot, 8, CACHE_LINE, control) ||
        !part_follows(&end, header->skips_offset, slots * header->skip_words, 8, CACHE_LINE, control) ||
        !part_follows(&end, header->queue_offset, header->queue_entries, 4, CACHE_LINE, control) ||
        !part_follows(&end, header->data_offset, slots, header->slot_bytes, RING_PAGE, data_end))
        return bad_ring(error, "a part lies outside its place");
    return 0;
}

static int check_header(const struct ring_header *header, uint64_t object_bytes, struct error *error) {
    if (atomic_load_explicit(&header->magic, memory_order_relaxed) != RING_MAGIC)
        return bad_ring(error, "magic number");
    if (header->version != RING_VERSION || header->header_bytes != sizeof(struct ring_control))
        return bad_ring(error, "version");
    if (header->total_bytes != object_bytes || header->data_offset > object_bytes || header->on_device > 1 ||
        (header->on_device && header->data_offset != object_bytes))
        return bad_ring(error, "size");
    uint64_t slots = header->slot_count;
    if (slots < 1 || slots > RING_MAX_SLOTS || header->chunks_per_slot < 1 ||
        header->chunks_per_slot > RING_MAX_CHUNKS)
        return bad_ring(error, "slot count");
    if (header->batch_size < 1 || header->batch_size > CHUNK_MAX_SAMPLES || header->chunk_samples < 1 ||
        divide_up(header->batch_size, header->chunk_samples) != header->chunks_per_slot)
        return bad_ring(error, "batch size");
    if (header->queue_entries < slots || (header->queue_entries & (header->queue_entries - 1)))
        return bad_ring(error, "queue size");
    if (header->skip_words < divide_up(header->batch_size, 64))
        return bad_ring(error, "skip bitmap");
    int err = check_parts(header, object_bytes, error);
    return err ? err : check_fields(header, error);
}

// What has been checked must not change: a loader can write to the header, and its offsets say where everything lies.
// So it is read once, into a page of this process's own, and that is checked and used.
static int copy_header(struct ring *ring) {
    void *copy = mmap(NULL, RING_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return -errno;
    // Pairs with the release in fill_header: what follows was written before the magic.
    (void)atomic_load_explicit(&ring->control->header.magic, memory_order_acquire);
    memcpy(copy, &ring->control->header, sizeof ring->control->header);
    ring->header = copy;
    return mprotect(copy, RING_PAGE, PROT_READ) < 0 ? -errno : 0;
}

static int map_object(struct ring *ring, int fd, enum ring_access access, struct error *error) {
    struct stat status;
    if (fstat(fd, &status) < 0)
        return error_set(error, -errno, "cannot look at the ring's descriptor: %m");
    uint64_t object_bytes = (uint64_t)status.st_size;
    if (object_bytes < RING_PAGE)
        return bad_ring(error, "it is too small");
    int protection = access == RING_READ ? PROT_READ : PROT_READ | PROT_WRITE;
    void *memory = mmap(NULL, object_bytes, protection, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "cannot map a ring of %" PRIu64 " bytes: %m", object_bytes);
    ring->control = memory;
    ring->mapped_bytes = object_bytes;
    return 0;
}

int ring_map(struct ring *ring, int fd, enum ring_access access, struct error *error) {
    *ring = (struct ring){0};
    int err = map_object(ring, fd, access, error);
    if (err)
        return err;
    err = copy_header(ring);
    err = err ? error_set(error, err, "cannot keep the header of a ring: %s", strerror(-err))
              : check_header(ring->header, ring->mapped_bytes, error);
    if (err) {
        ring_unmap(ring);
        return err;
    }
    uint64_t control = ring->header->data_offset;
    if (ring->header->on_device)
        return 0;
    if (access == RING_CONTROL) {
        munmap((uint8_t *)ring->control + control, ring->mapped_bytes - control);
        ring->mapped_bytes = control;
    } else {
        ring->data = (uint8_t *)ring->control + control;
    }
    return 0;
}

void ring_unmap(struct ring *ring) {
    if (ring->control)
        munmap(ring->control, ring->mapped_bytes);
    if (ring->header)
        munmap((void *)ring->header, RING_PAGE);
    free(ring->dispatched);
    *ring = (struct ring){0};
}
