#include "shm/sample_cache.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL // so that libfeed's users need not link libxxhash
#include <xxhash.h>

#include "base/read_at.h"
#include "base/scope.h"
#include "base/sizes.h"

#define PAGE  4096u
#define MAGIC UINT64_C(0x3148434444454546) // "FEEDDCH1"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

struct sample_cache_head {
    // Of the file: what it is. Of the memory: zeros.
    uint64_t magic;
    struct sample_cache_key key;
    uint64_t entries, bytes;
    uint64_t reserved[3];
    // Of the memory: bytes of the data that are taken, written by loaders. Of the file: 0.
    _Atomic uint64_t used;
};

// A record: this, and then the pixels.
struct record {
    uint64_t hash; // of pixels, entry and sides, if it is in a file
    uint64_t reserved[7];
};

// A word: bits 0..31 place in the data, in units; 32..47 width, 48..63 height. 0: EMPTY
#define UNIT 256u

_Static_assert(sizeof(struct sample_cache_head) <= SAMPLE_CACHE_HEAD, "the head has room");
_Static_assert(sizeof(struct record) == CACHE_LINE, "pixels begin with a cache line");
_Static_assert(SAMPLE_CACHE_MOST_BYTES / UNIT <= 1ull << 32, "a place has room");

static uint64_t record_bytes(uint32_t width, uint32_t height, uint32_t channels) {
    return align_up(sizeof(struct record) + (uint64_t)width * height * channels, UNIT);
}

// ---- The files -------------------------------------------------------------------------------------------------

static uint64_t data_offset_of(uint64_t entries) {
    return align_up(SAMPLE_CACHE_HEAD + entries * sizeof(uint64_t), PAGE);
}

uint64_t sample_cache_least_bytes(uint64_t entries) {
    return data_offset_of(entries) + PAGE;
}

bool sample_cache_plan(struct sample_cache_plan *plan, uint64_t entries, uint64_t bytes, bool in_file) {
    *plan = (struct sample_cache_plan){0};
    bytes = bytes / PAGE * PAGE;
    if (!entries || entries > SAMPLE_CACHE_MOST_BYTES / sizeof(uint64_t) || bytes > SAMPLE_CACHE_MOST_BYTES ||
        bytes < sample_cache_least_bytes(entries))
        return false;
    plan->entries = entries;
    plan->data_offset = data_offset_of(entries);
    plan->memory_bytes = in_file ? plan->data_offset : bytes;
    plan->file_bytes = in_file ? bytes : 0;
    return true;
}

int sample_cache_create(const struct sample_cache_plan *plan, int *fd, struct error *error) {
    AUTO_CLOSE int file = memfd_create("feedd-samples", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (file < 0 && errno == EINVAL) // before Linux 6.3
        file = memfd_create("feedd-samples", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    // The mode keeps other users from opening it through /proc.
    if (file < 0 || fchmod(file, 0600) < 0)
        return error_set(error, -errno, "cannot make a memory file for decoded images: %m");
    if (ftruncate(file, (off_t)plan->memory_bytes) < 0)
        return error_set(error, -errno,
                         "cannot make a memory file of %" PRIu64 " bytes for decoded images: %m",
                         plan->memory_bytes);
    if (fcntl(file, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return error_set(error, -errno, "cannot seal a memory file for decoded images: %m");
    *fd = file;
    file = -1;
    return 0;
}

int sample_cache_head_fits(int file_fd, const struct sample_cache_plan *plan,
                           const struct sample_cache_key *key) {
    struct sample_cache_head found = {0};
    const ssize_t got = read_at(file_fd, &found, sizeof found, 0);
    if (error_is_lack((int)got) || got == -EAGAIN)
        return (int)got;
    return got == sizeof found && found.magic == MAGIC && found.key.low == key->low &&
           found.key.high == key->high && found.entries == plan->entries && found.bytes == plan->file_bytes;
}

int sample_cache_write_head(int file_fd, const struct sample_cache_plan *plan,
                            const struct sample_cache_key *key) {
    const struct sample_cache_head head = {
        .magic = MAGIC, .key = *key, .entries = plan->entries, .bytes = plan->file_bytes};
    ssize_t wrote = pwrite(file_fd, &head, sizeof head, 0);
    if (wrote != sizeof head)
        return wrote < 0 ? -errno : -EIO;
    return 0;
}

// ---- Maps ------------------------------------------------------------------------------------------------------

static int map(int fd, uint64_t bytes, uint8_t **memory, struct error *error) {
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return error_set(error, -errno, "cannot map %" PRIu64 " bytes of decoded images: %m", bytes);
    *memory = mapped;
    return 0;
}

static int find_bytes(int fd, uint64_t *bytes, struct error *error) {
    struct stat status;
    if (fstat(fd, &status) < 0)
        return error_set(error, -errno, "cannot look at a cache of decoded images: %m");
    if (!S_ISREG(status.st_mode) || status.st_size < 0)
        return error_set(error, -EPROTO, "the cache of decoded images is not a regular file");
    *bytes = (uint64_t)status.st_size;
    return 0;
}

static int map_all(struct sample_cache *cache, uint64_t entries, int memory_fd, int file_fd,
                   struct error *error) {
    uint64_t memory_bytes = 0, file_bytes = 0;
    int err = find_bytes(memory_fd, &memory_bytes, error);
    if (!err && file_fd >= 0)
        err = find_bytes(file_fd, &file_bytes, error);
    if (err)
        return err;
    if (!sample_cache_plan(&cache->plan, entries, file_fd >= 0 ? file_bytes : memory_bytes, file_fd >= 0) ||
        cache->plan.memory_bytes != memory_bytes || cache->plan.file_bytes != file_bytes)
        return error_set(error, -EPROTO,
                         "found a cache of %" PRIu64 " and %" PRIu64 " bytes, wanted one of %" PRIu64
                         " entries",
                         memory_bytes, file_bytes, entries);
    err = map(memory_fd, memory_bytes, &cache->memory, error);
    return err || file_fd < 0 ? err : map(file_fd, file_bytes, &cache->file, error);
}

static _Atomic uint64_t *words_of(uint8_t *memory) {
    return (_Atomic uint64_t *)(void *)(memory + SAMPLE_CACHE_HEAD);
}

int sample_cache_open(struct sample_cache *cache, uint64_t entries, int memory_fd, int file_fd,
                      struct error *error) {
    *cache = (struct sample_cache){0};
    int err = map_all(cache, entries, memory_fd, file_fd, error);
    if (err) {
        sample_cache_close(cache);
        return err;
    }
    const struct sample_cache_plan *plan = &cache->plan;
    cache->head = (struct sample_cache_head *)(void *)cache->memory;
    cache->words = words_of(cache->memory);
    cache->kept = cache->file ? words_of(cache->file) : NULL;
    cache->data = (cache->file ? cache->file : cache->memory) + plan->data_offset;
    cache->data_bytes = (cache->file ? plan->file_bytes : plan->memory_bytes) - plan->data_offset;
    return 0;
}

// Room that was taken last: `used` ends where it does, and only the process that holds it may lower `used` from there.
// Release: pairs with the acquire in take_room.
static bool give_back(const struct sample_cache *cache, uint64_t offset, uint64_t bytes) {
    uint64_t end = offset + bytes;
    return atomic_compare_exchange_strong_explicit(&cache->head->used, &end, offset, memory_order_release,
                                                   memory_order_relaxed);
}

void sample_cache_close(struct sample_cache *cache) {
    if (cache->spare.bytes)
        give_back(cache, cache->spare.offset, cache->spare.bytes);
    if (cache->memory)
        munmap(cache->memory, cache->plan.memory_bytes);
    if (cache->file)
        munmap(cache->file, cache->plan.file_bytes);
    *cache = (struct sample_cache){0};
}

uint64_t sample_cache_used(const struct sample_cache_plan *plan, const struct sample_cache_head *head) {
    const uint64_t bytes = plan->file_bytes ? plan->file_bytes : plan->memory_bytes;
    return plan->data_offset +
           min_u64(atomic_load_explicit(&head->used, memory_order_relaxed), bytes - plan->data_offset);
}

// ---- Words -----------------------------------------------------------------------------------------------------

struct place {
    uint64_t offset, bytes; // of the record in the data
    uint32_t width, height;
};

// False: the word is EMPTY, or leads out of the data. Whoever wrote that is not to be believed.
static bool place_of(const struct sample_cache *cache, uint64_t word, uint32_t channels,
                     struct place *place) {
    place->offset = (word & UINT32_MAX) * UNIT;
    place->width = (uint32_t)(word >> 32 & 0xffff);
    place->height = (uint32_t)(word >> 48);
    place->bytes = record_bytes(place->width, place->height, channels);
    return place->width && place->height && place->bytes <= cache->data_bytes &&
           place->offset <= cache->data_bytes - place->bytes;
}

static struct sample_cached cached_at(const struct sample_cache *cache, const struct place *place) {
    return (struct sample_cached){cache->data + place->offset + sizeof(struct record), place->width,
                                  place->height};
}

// As of three channels: a record of one ends sooner.
static uint64_t end_of(const struct sample_cache_plan *plan, uint64_t word) {
    const struct sample_cache bounds = {.data_bytes = plan->file_bytes - plan->data_offset};
    struct place place;
    if (!place_of(&bounds, word, 1, &place))
        return 0;
    return min_u64(place.offset + record_bytes(place.width, place.height, 3),
                   bounds.data_bytes / UNIT * UNIT);
}

// Not through a map, so that storage that fails is an error.
static int find_end(const struct sample_cache_plan *plan, int file_fd, uint64_t *end, struct error *error) {
    uint64_t words[1024];
    *end = 0;
    for (uint64_t entry = 0; entry < plan->entries;) {
        const uint64_t count = min_u64(plan->entries - entry, COUNT_OF(words));
        const ssize_t bytes = (ssize_t)(count * sizeof *words);
        const ssize_t got =
            pread(file_fd, words, (size_t)bytes, (off_t)(SAMPLE_CACHE_HEAD + entry * sizeof *words));
        if (got != bytes)
            return error_set(error, got < 0 ? -errno : -EIO, "cannot read which decoded images are kept: %s",
                             got < 0 ? strerror(errno) : "the file is too short");
        for (uint64_t i = 0; i < count; i++)
            *end = max_u64(*end, end_of(plan, words[i]));
        entry += count;
    }
    return 0;
}

int sample_cache_continue(const struct sample_cache_plan *plan, int memory_fd, int file_fd,
                          struct error *error) {
    uint64_t end;
    int err = find_end(plan, file_fd, &end, error);
    if (err)
        return err;
    if (pwrite(memory_fd, &end, sizeof end, offsetof(struct sample_cache_head, used)) != sizeof end)
        return error_set(error, -EIO, "cannot write to the memory of a cache");
    return 0;
}

// ---- Finding ---------------------------------------------------------------------------------------------------

static uint64_t hash_of(uint64_t entry, const struct place *place, const uint8_t *pixels, uint32_t channels) {
    const uint64_t seed =
        (entry * 4 + channels) ^ (uint64_t)place->width << 48 ^ (uint64_t)place->height << 32;
    return XXH3_64bits_withSeed(pixels, (uint64_t)place->width * place->height * channels, seed);
}

// Whether an entry of the file, which the memory does not have yet, may be there.
static bool was_kept(const struct sample_cache *cache, uint64_t entry, uint32_t channels, uint64_t *word,
                     struct place *place) {
    if (!cache->kept)
        return false;
    *word = atomic_load_explicit(&cache->kept[entry], memory_order_acquire);
    return place_of(cache, *word, channels, place);
}

static struct sample_cached check_kept(const struct sample_cache *cache, uint64_t entry, uint32_t channels) {
    struct place place;
    uint64_t word, empty = 0;
    if (!was_kept(cache, entry, channels, &word, &place))
        return (struct sample_cached){0};
    const struct sample_cached cached = cached_at(cache, &place);
    const struct record *record = (const struct record *)(const void *)(cache->data + place.offset);
    if (record->hash != hash_of(entry, &place, cached.pixels, channels))
        return (struct sample_cached){0};
    // Whichever record is entered first is used from then on; this one is right in any case.
    atomic_compare_exchange_strong_explicit(&cache->words[entry], &empty, word, memory_order_release,
                                            memory_order_relaxed);
    return cached;
}

struct sample_cached sample_cache_find(const struct sample_cache *cache, uint64_t entry, uint32_t channels) {
    struct place place;
    // Pairs with the release in sample_cache_store: the record that the word leads to has been written.
    const uint64_t word = atomic_load_explicit(&cache->words[entry], memory_order_acquire);
    if (place_of(cache, word, channels, &place))
        return cached_at(cache, &place);
    return check_kept(cache, entry, channels);
}

void sample_cache_expect(const struct sample_cache *cache, uint64_t entry, uint32_t channels) {
    struct place place;
    uint64_t word;
    if (atomic_load_explicit(&cache->words[entry], memory_order_relaxed) ||
        !was_kept(cache, entry, channels, &word, &place))
        return;
    const uint64_t first = place.offset / PAGE * PAGE; // the data begins with a page
    madvise(cache->data + first, place.offset + place.bytes - first, MADV_WILLNEED);
}

// ---- Storing ---------------------------------------------------------------------------------------------------

// Room for a record. Acquire: pairs with the release in give_back. What was written to the room before is never seen.
static bool take_room(struct sample_cache *cache, struct place *place) {
    if (place->bytes <= cache->spare.bytes) {
        place->offset = cache->spare.offset;
        cache->spare.offset += place->bytes;
        cache->spare.bytes -= place->bytes;
        return true;
    }
    uint64_t used = atomic_load_explicit(&cache->head->used, memory_order_relaxed);
    do {
        if (used > cache->data_bytes || place->bytes > cache->data_bytes - used || used % UNIT)
            return false;
        place->offset = used;
    } while (!atomic_compare_exchange_weak_explicit(&cache->head->used, &used, used + place->bytes,
                                                    memory_order_acquire, memory_order_relaxed));
    return true;
}

// The room of a record that has not been published. With another in hand, the smaller one is lost.
static void spare_room(struct sample_cache *cache, const struct place *place) {
    uint64_t bytes = place->bytes;
    if (place->offset + bytes == cache->spare.offset) { // take_room has it from there
        bytes += cache->spare.bytes;
        cache->spare.bytes = 0;
    }
    if (give_back(cache, place->offset, bytes) || bytes <= cache->spare.bytes)
        return;
    cache->spare.offset = place->offset;
    cache->spare.bytes = bytes;
}

void sample_cache_store(struct sample_cache *cache, uint64_t entry, const uint8_t *pixels, uint64_t stride,
                        uint32_t width, uint32_t height, uint32_t channels) {
    struct place place = {.bytes = record_bytes(width, height, channels), .width = width, .height = height};
    const uint64_t row = (uint64_t)width * channels;
    // Another loader may just have kept it. Otherwise, what was there is not to be believed.
    uint64_t found = atomic_load_explicit(&cache->words[entry], memory_order_acquire);
    struct place other;
    if (cache->full || place_of(cache, found, channels, &other))
        return;
    cache->full = !take_room(cache, &place);
    if (cache->full)
        return;
    struct record *record = (struct record *)(void *)(cache->data + place.offset);
    uint8_t *to = cache->data + place.offset + sizeof *record;
    for (uint32_t y = 0; y < height; y++)
        memcpy(to + y * row, pixels + y * stride, row);
    if (cache->kept)
        record->hash = hash_of(entry, &place, to, channels);
    const uint64_t word = place.offset / UNIT | (uint64_t)width << 32 | (uint64_t)height << 48;
    // Release: pairs with the acquire in sample_cache_find.
    if (!atomic_compare_exchange_strong_explicit(&cache->words[entry], &found, word, memory_order_release,
                                                 memory_order_relaxed)) {
        spare_room(cache, &place);
        return;
    }
    cache->counts.stored++;
    cache->counts.stored_bytes += place.bytes;
    // For runs to come, which check the record. Pairs with the acquire in was_kept.
    if (cache->kept)
        atomic_store_explicit(&cache->kept[entry], word, memory_order_release);
}
