#include "daemon/source/folder/folder_stems.h"

#include <errno.h>
#include <xxhash.h>

#include "base/path_text.h"
#include "base/sizes.h"

#define NO_STEM UINT32_MAX
// Per stem: a path that has little in common with the others costs at most this many paths their saving.
#define MEMBERS_MOST 1024u
#define SETS         16384u
#define WAYS         4u // of each set

// Paths in one directory and with one extension, for as long as a slot remembers them.
struct stem {
    uint64_t first; // in `paths`: a member
    uint32_t length, prefix, suffix, shortest;
    uint32_t members;
    uint32_t number; // in the text; 0: none yet
};

// If two directories have the same hash, they only take more room in the index.
struct slot {
    uint64_t hash;
    uint32_t stem; // plus 1; 0: empty
};

struct work {
    const char *paths;
    struct index_rows *rows;
    size_t row_bytes;
    const uint32_t *entries;
    uint32_t entry_count;
    struct folder_text *text;
    struct slot *slots; // SETS of WAYS
    struct stem *stems;
    uint32_t stem_count, stem_room;
    uint32_t *stem_of; // of each row
    struct folder_text table;
    uint32_t number; // the last one given
};

static void release(struct work *work) {
    free(work->slots);
    free(work->stems);
    free(work->stem_of);
    folder_text_release(&work->table);
}

static struct index_extent *entry_of(const struct work *work, uint64_t row, uint32_t i) {
    return (struct index_extent *)(void *)(work->rows->rows + row * work->row_bytes + work->entries[i]);
}

// ---- What paths share --------------------------------------------------------------------------------------

static uint64_t hash_of(const char *path, size_t length) {
    const char *slash = memrchr(path, '/', length);
    const size_t folder = slash ? (size_t)(slash - path) : 0;
    const char *dot = memrchr(path + folder, '.', length - folder);
    const size_t extension = dot ? (size_t)(path + length - dot) : 0;
    return XXH3_64bits_withSeed(path + length - extension, extension, XXH3_64bits(path, folder));
}

static struct slot *find_slot(const struct work *work, uint64_t hash) {
    struct slot *set = &work->slots[hash % SETS * WAYS], *empty = NULL;
    for (uint32_t i = 0; i < WAYS; i++) {
        if (set[i].stem && set[i].hash == hash)
            return &set[i];
        if (!set[i].stem)
            empty = &set[i];
    }
    return empty ? empty : &set[hash >> 62];
}

static int new_stem(struct work *work, uint64_t first, size_t length) {
    if (work->stem_count == work->stem_room) {
        const uint32_t room = work->stem_room ? work->stem_room * 2 : 1024;
        struct stem *grown = reallocarray(work->stems, room, sizeof *grown);
        if (!grown)
            return -ENOMEM;
        work->stems = grown;
        work->stem_room = room;
    }
    const uint32_t bytes = (uint32_t)length;
    work->stems[work->stem_count++] =
        (struct stem){.first = first, .length = bytes, .prefix = bytes, .suffix = bytes, .shortest = bytes};
    return 0;
}

static void add_member(struct stem *stem, const char *paths, const char *path, size_t length) {
    const char *first = paths + stem->first, *first_end = first + stem->length, *end = path + length;
    uint32_t prefix = 0, suffix = 0;
    stem->shortest = (uint32_t)min_u64(stem->shortest, length);
    while (prefix < min_u64(stem->prefix, length) && path[prefix] == first[prefix])
        prefix++;
    while (suffix < min_u64(stem->suffix, length) &&
           end[-1 - (ptrdiff_t)suffix] == first_end[-1 - (ptrdiff_t)suffix])
        suffix++;
    stem->prefix = prefix;
    stem->suffix = suffix;
    stem->members++;
}

static int find_stem(struct work *work, uint64_t row) {
    const uint64_t at = entry_of(work, row, 0)->offset;
    const char *path = work->paths + at;
    const size_t length = strlen(path);
    const uint64_t hash = hash_of(path, length);
    struct slot *slot = find_slot(work, hash);
    const bool known =
        work->stems && slot->stem && slot->hash == hash && work->stems[slot->stem - 1].members < MEMBERS_MOST;
    work->stem_of[row] = NO_STEM;
    if (!length || (!known && work->stem_count == PATH_STEMS_MOST))
        return 0;
    if (!known) {
        int err = new_stem(work, at, length);
        if (err)
            return err;
        *slot = (struct slot){hash, work->stem_count};
    }
    work->stem_of[row] = slot->stem - 1;
    add_member(&work->stems[slot->stem - 1], work->paths, path, length);
    return 0;
}

// ---- The text ----------------------------------------------------------------------------------------------

// Whether the stem takes less room than it saves its members.
static bool is_worth_it(const struct stem *stem) {
    const uint64_t shared = (uint64_t)stem->prefix + stem->suffix;
    return stem->members * shared > sizeof(uint64_t) + shared + 2;
}

static int put_stem(struct work *work, struct stem *stem) {
    const char *first = work->paths + stem->first;
    uint64_t at, ending;
    int err = folder_text_add_string(work->text, first, stem->prefix, &at);
    if (!err)
        err = folder_text_add_string(work->text, first + stem->length - stem->suffix, stem->suffix, &ending);
    if (!err)
        err = folder_text_add(&work->table, &at, sizeof at, &ending);
    stem->number = ++work->number;
    return err;
}

static int put_path(struct work *work, uint64_t row) {
    const char *path = work->paths + entry_of(work, row, 0)->offset;
    struct stem *stem = work->stem_of[row] == NO_STEM ? NULL : &work->stems[work->stem_of[row]];
    size_t length = strlen(path);
    uint64_t at = 0, number = 0;
    int err = 0;
    if (stem && !stem->number) {
        stem->suffix = (uint32_t)min_u64(stem->suffix, stem->shortest - stem->prefix);
        if (!is_worth_it(stem))
            stem = NULL;
        else
            err = put_stem(work, stem);
    }
    if (stem) {
        path += stem->prefix;
        length -= stem->prefix + stem->suffix;
        number = stem->number;
    }
    if (!err)
        err = folder_text_add_string(work->text, path, length, &at);
    for (uint32_t i = 0; i < work->entry_count; i++)
        entry_of(work, row, i)->offset = number << PATH_REST_BITS | at;
    return err;
}

static int put_table(struct folder_text *text, const struct folder_text *table) {
    const uint64_t count = table->bytes / sizeof count;
    static const char zeros[sizeof count];
    uint64_t at;
    int err = folder_text_add(text, zeros, align_up(text->bytes, sizeof count) - text->bytes, &at);
    if (!err)
        err = folder_text_add(text, table->text, table->bytes, &at);
    return err ? err : folder_text_add(text, &count, sizeof count, &at);
}

int folder_stems_none(struct folder_text *text) {
    return put_table(text, &(struct folder_text){0});
}

int folder_stems_put(const struct folder_text *paths, struct index_rows *rows, size_t row_bytes,
                     const uint32_t *entries, uint32_t entry_count, struct folder_text *text) {
    struct work work CLEANUP(release) = {.paths = paths->text,
                                         .rows = rows,
                                         .row_bytes = row_bytes,
                                         .entries = entries,
                                         .entry_count = entry_count,
                                         .text = text};
    work.slots = calloc(SETS * WAYS, sizeof *work.slots);
    work.stem_of = calloc(max_u64(rows->count, 1), sizeof *work.stem_of);
    int err = work.slots && work.stem_of ? 0 : -ENOMEM;
    for (uint64_t row = 0; row < rows->count && !err; row++)
        err = find_stem(&work, row);
    for (uint64_t row = 0; row < rows->count && !err; row++)
        err = put_path(&work, row);
    if (!err && text->bytes >> PATH_REST_BITS)
        err = -ENOMEM;
    return err ? err : put_table(text, &work.table);
}
