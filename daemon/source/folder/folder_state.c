#include "daemon/source/folder/folder_state.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/dataset/folder_file.h"

#define FILES_LOOKED_AT 1024u
#define TICK_NS         (20 * NS_PER_MS) // longer than the clock of file systems takes to advance

// The notes: this, and then, for each directory, struct noted with its path, filled up to a multiple of 8.
struct notes {
    uint64_t files;   // a hash of the state of some
    uint64_t written; // of the dataset
    uint64_t folder_count;
};

struct stamps {
    uint64_t inode;
    int64_t changed_s, changed_ns, written_s, written_ns;
};

struct noted {
    struct stamps stamps;
    uint32_t root;
    uint32_t length; // of the path
};

static struct stamps stamps_of(const struct stat *status) {
    return (struct stamps){(uint64_t)status->st_ino, status->st_ctim.tv_sec, status->st_ctim.tv_nsec,
                           status->st_mtim.tv_sec, status->st_mtim.tv_nsec};
}

// 0 stands for a file that cannot be looked at.
static uint64_t hash_some(const struct folder_files *files, const struct folder_roots *roots,
                          uint64_t samples) {
    uint64_t count = min_u64(samples, FILES_LOOKED_AT), hash = 1;
    struct stat status;
    char path[PATH_MAX];
    for (uint64_t i = 0; i < count; i++) {
        const struct index_extent *extent = &files->extents[i * samples / count];
        if (extent->file >= roots->count || !path_text_get(&files->text, extent->offset, path) ||
            fstatat(roots->roots[extent->file].fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
            return 0;
        const uint64_t state[] = {(uint64_t)status.st_size, (uint64_t)status.st_mtim.tv_sec,
                                  (uint64_t)status.st_mtim.tv_nsec};
        hash = XXH3_64bits_withSeed(state, sizeof state, hash);
    }
    return hash;
}

static uint64_t hash_files(const struct dataset *dataset, const struct folder_roots *roots,
                           uint64_t samples) {
    const struct dataset_layout *layout = dataset->layout;
    const uint8_t *index = mmap(NULL, layout->index_bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    if (index == MAP_FAILED)
        return 0;
    const struct folder_files files = folder_files_of(layout, index);
    const uint64_t hash = files.extents ? hash_some(&files, roots, samples) : 1; // no field reads files
    munmap((void *)index, layout->index_bytes);
    return hash;
}

static bool paths_fit(const struct path_text *text, const struct index_extent *extents, uint64_t samples,
                      uint32_t root_count) {
    const uint64_t stems = path_text_stems(text);
    for (uint64_t i = 0; i < samples; i++)
        if (extents[i].file >= root_count || !path_text_has(text, stems, extents[i].offset))
            return false;
    return true;
}

static bool text_fits(const struct path_text *text, const struct index_extent *extents, uint64_t samples) {
    for (uint64_t i = 0; i < samples; i++)
        if (extents[i].offset >= text->bytes || extents[i].bytes > text->bytes - extents[i].offset)
            return false;
    return true;
}

bool folder_index_fits(const struct dataset *dataset, uint64_t samples, uint32_t root_count) {
    const struct dataset_layout *layout = dataset->layout;
    const uint8_t *index = mmap(NULL, layout->index_bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    if (index == MAP_FAILED)
        return false;
    const struct path_text text = {index + layout->text_offset, layout->text_bytes};
    bool fits = true, checked = false;
    for (uint32_t i = 0; i < layout->column_count && fits; i++) {
        const struct index_extent *extents = (const void *)(index + layout->columns[i].offset);
        if (layout->columns[i].kind == COLUMN_EXTENTS) {
            fits = (checked || path_text_check(&text)) && paths_fit(&text, extents, samples, root_count);
            checked = true;
        } else if (layout->columns[i].kind == COLUMN_TEXT) {
            fits = text_fits(&text, extents, samples);
        }
    }
    munmap((void *)index, layout->index_bytes);
    return fits;
}

static size_t noted_bytes(size_t length) {
    return align_up(sizeof(struct noted) + length + 1, 8);
}

int folder_state_note(struct index_cache *cache, const struct dataset *dataset, uint64_t samples,
                      const struct folder_roots *roots, const struct folder_tree *tree) {
    size_t bytes = sizeof(struct notes);
    for (uint64_t i = 0; i < tree->folder_count; i++)
        bytes += noted_bytes(strlen(tree->folders[i]->real));
    uint8_t *at = calloc(1, bytes);
    if (!at)
        return -ENOMEM;
    free(cache->notes);
    cache->notes = at;
    cache->notes_bytes = bytes;
    *(struct notes *)(void *)at = (struct notes){.files = hash_files(dataset, roots, samples),
                                                 .written = dataset->files_written,
                                                 .folder_count = tree->folder_count};
    at += sizeof(struct notes);
    for (uint64_t i = 0; i < tree->folder_count; i++) {
        const struct tree_folder *folder = tree->folders[i];
        size_t length = strlen(folder->real);
        *(struct noted *)(void *)at =
            (struct noted){stamps_of(&folder->status), folder->root, (uint32_t)length};
        memcpy(at + sizeof(struct noted), folder->real, length);
        at += noted_bytes(length);
    }
    return 0;
}

static bool is_the_same(const struct folder_roots *roots, const struct noted *noted, const char *path) {
    struct stat status;
    if (noted->root >= roots->count ||
        fstatat(roots->roots[noted->root].fd, path, &status, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
        return false;
    const struct stamps now = stamps_of(&status);
    return memcmp(&now, &noted->stamps, sizeof now) == 0;
}

bool folder_state_holds(const struct index_cache *cache, struct dataset *dataset, uint64_t samples,
                        const struct folder_roots *roots) {
    const uint8_t *at = cache->notes, *end = at + cache->notes_bytes;
    struct notes notes;
    struct noted noted;
    if (cache->notes_bytes < sizeof notes)
        return false;
    memcpy(&notes, at, sizeof notes);
    at += sizeof notes;
    for (uint64_t i = 0; i < notes.folder_count; i++) {
        if ((size_t)(end - at) < sizeof noted)
            return false;
        memcpy(&noted, at, sizeof noted);
        if ((size_t)(end - at) < noted_bytes(noted.length) ||
            memchr(at + sizeof noted, '\0', noted.length + 1ull) != at + sizeof noted + noted.length ||
            !is_the_same(roots, &noted, (const char *)at + sizeof noted))
            return false;
        at += noted_bytes(noted.length);
    }
    dataset->files_written = notes.written;
    return notes.files && notes.files == hash_files(dataset, roots, samples);
}

bool folder_state_is_fresh(const struct folder_tree *tree, const struct timespec *start) {
    for (uint64_t i = 0; i < tree->folder_count; i++) {
        const struct timespec *changed = &tree->folders[i]->status.st_ctim;
        int64_t ns =
            (changed->tv_sec - start->tv_sec) * (int64_t)NS_PER_S + changed->tv_nsec - start->tv_nsec;
        if (ns > -(int64_t)TICK_NS)
            return true;
    }
    return false;
}
