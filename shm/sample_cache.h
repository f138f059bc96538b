// Decoded images that the loaders of all feeds of one user and dataset share: decoded once, then only cut and copied.
//
// One or two files of one form:
//
//   offset 0       SAMPLE_CACHE_HEAD     data_offset
//   ┌──────────────┬─────────────────────┬──────────────────────────────┐
//   │ head         │ words u64[entries]  │ records, one after another   │
//   └──────────────┴─────────────────────┴──────────────────────────────┘
//
// The memory, a sealed memory file, says what may be used; nothing in it is older than the daemon. It has the records,
// too, unless there is a file on disk. Then the records lie there, and the words in that file say what earlier runs
// have kept: each record has a hash, and a loader that finds it right enters it into the memory.
//
// A word of the memory says where the record of an entry lies, and of how many pixels its image is:
//
//   EMPTY --publish, any loader--> place, width and height, for good
//
// Nothing is ever moved or removed, so readers pin nothing and ask nothing afterwards. A loader takes room, writes the
// record, and publishes it; one that is killed in between leaves room that nobody uses. Of two that decode the same
// sample, the second one finds the word taken, and nobody has seen its record: it gives the room back if that is the
// last that was taken, and otherwise keeps it for its own next records.
//
// Loaders can write to all of it, and any of them may have been taken over: a word is read once and checked before it
// is used as an address, and nothing that is read here leads out of the map. All of them work for one user.
#ifndef FEEDD_SHM_SAMPLE_CACHE_H
#define FEEDD_SHM_SAMPLE_CACHE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"

#define SAMPLE_CACHE_HEAD       4096u
#define SAMPLE_CACHE_MOST_BYTES (1ull << 40)

// A hash of all that decides which pixels are kept: the files, how they are decoded, the size.
struct sample_cache_key {
    uint64_t low, high;
};

struct sample_cache_plan {
    uint64_t entries;
    uint64_t data_offset;
    uint64_t memory_bytes;
    uint64_t file_bytes; // 0: the records are in memory
};

// `bytes` is the size of the whole, without the memory for words that one with a file has besides. False: that leaves
// no room for records, or is too much.
bool sample_cache_plan(struct sample_cache_plan *plan, uint64_t entries, uint64_t bytes, bool in_file);

// The least that there is a plan for.
uint64_t sample_cache_least_bytes(uint64_t entries);

// The memory, sealed, which takes none before it is written to. Does not block. The caller closes *fd.
int sample_cache_create(const struct sample_cache_plan *plan, int *fd, struct error *error);

// ---- The file on disk: by the daemon, in a thread, before loaders have it ---------------------------------------

// 1: the file's head says that it is of this key and plan; 0: it is of something else, or damaged. Negative errno: it
// cannot be read now, so this is not known.
int sample_cache_head_fits(int file_fd, const struct sample_cache_plan *plan,
                           const struct sample_cache_key *key);

// Writes the head of a file that is empty otherwise. Negative errno.
int sample_cache_write_head(int file_fd, const struct sample_cache_plan *plan,
                            const struct sample_cache_key *key);

// Notes in the memory where the records end that the file's words name, so that nothing is written over them.
int sample_cache_continue(const struct sample_cache_plan *plan, int memory_fd, int file_fd,
                          struct error *error);

// ---- In use ----------------------------------------------------------------------------------------------------

struct sample_cache_head;

// What this process has taken from the cache, and put into it.
struct sample_cache_counts {
    uint64_t found, stored, stored_bytes;
};

struct sample_cache {
    struct sample_cache_plan plan;
    uint8_t *memory, *file; // maps; `file` NULL: there is none
    struct sample_cache_head *head;
    _Atomic uint64_t *words; // of the memory
    _Atomic uint64_t *kept;  // of the file, or NULL
    uint8_t *data;
    uint64_t data_bytes;
    bool lost; // the map of the file has failed, so nothing is looked for
    bool full; // a record has found no room, so no other one is tried
    // Room in the data that this process has taken, and whose record nobody has seen.
    struct {
        uint64_t offset, bytes;
    } spare;
    struct sample_cache_counts counts;
};

// Maps a cache of so many entries; its size is that of the files. `file_fd` -1: none. -EPROTO: the files are not of
// this form.
int sample_cache_open(struct sample_cache *cache, uint64_t entries, int memory_fd, int file_fd,
                      struct error *error);
void sample_cache_close(struct sample_cache *cache);

// Bytes that are taken, head and words included, at most those of the plan. From the memory's map or a part of it.
uint64_t sample_cache_used(const struct sample_cache_plan *plan, const struct sample_cache_head *head);

struct sample_cached {
    const uint8_t *pixels; // row after row, of width * channels bytes each; NULL: there are none
    uint32_t width, height;
};

// What the cache has of an entry (< entries) of images with so many channels. Reads the record if it is in the file and
// nobody has checked it yet.
struct sample_cached sample_cache_find(const struct sample_cache *cache, uint64_t entry, uint32_t channels);

// Has the kernel begin to read what sample_cache_find will check.
void sample_cache_expect(const struct sample_cache *cache, uint64_t entry, uint32_t channels);

// Keeps an image, whose rows begin `stride` bytes apart, if there is room and nobody has kept it. Width and height are
// 1 to 65535, channels 1 or 3.
void sample_cache_store(struct sample_cache *cache, uint64_t entry, const uint8_t *pixels, uint64_t stride,
                        uint32_t width, uint32_t height, uint32_t channels);

#endif
