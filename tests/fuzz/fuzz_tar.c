// Tar archives that lie, opened as a dataset.
//
// Input: as lying_files.h has it. With COMPLETE, headers get the sum that they need. With KEPT, a byte and as many
// bytes of patches come before the archives: the index is kept on disk, patched, given the hashes that it needs, and
// used again.
#include <dirent.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "daemon/on_error.h"
#include "daemon/source/tar/tar.h"
#include "tests/fuzz/lying_files.h"

#define BLOCK 512u

enum {
    SKIP = 4,
    KEPT = 8
};

// As any program that writes archives does.
static void set_sums(uint8_t *bytes, size_t count) {
    for (size_t at = 0; at + BLOCK <= count; at += BLOCK) {
        uint8_t *header = bytes + at;
        uint32_t sum = 0;
        if (memcmp(header + 257, "ustar", 5) != 0)
            continue;
        memset(header + 148, ' ', 8);
        for (size_t i = 0; i < BLOCK; i++)
            sum += header[i];
        snprintf((char *)header + 148, 8, "%06o", sum);
    }
}

// ---- A kept index that lies ------------------------------------------------------------------------------------

static char folder[] = "/dev/shm/feedd-fuzz-XXXXXX";

// False: there is none.
static bool find_kept(char path[512]) {
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    bool found = false;
    FUZZ_CHECK(directory != NULL);
    while (!found && (entry = readdir(directory)))
        if ((found = entry->d_name[0] != '.'))
            snprintf(path, 512, "%s/%s", folder, entry->d_name);
    closedir(directory);
    return found;
}

static void remove_kept(void) {
    char path[512];
    while (find_kept(path))
        FUZZ_CHECK(unlink(path) == 0);
}

static void remove_folder(void) {
    remove_kept();
    rmdir(folder);
}

static void make_folder(void) {
    static bool made;
    if (!made)
        FUZZ_CHECK((made = mkdtemp(folder) != NULL) && atexit(remove_folder) == 0);
}

// As daemon/source/index/index_cache.c has it: the size of the index at 24 and its hash at 32, how many files at 40,
// the hash of their samples at 48; from 88 on those samples, and then the index. Notes may follow, which stay the same.
#define KEPT_HEAD 88u

static void spoil_kept(struct fuzz_input *patches) {
    static const uint16_t pages[] = {0};
    static uint8_t bytes[MOST];
    char path[512];
    if (!find_kept(path))
        return;
    AUTO_CLOSE int fd = open(path, O_RDWR | O_CLOEXEC);
    const ssize_t got = fd < 0 ? -1 : pread(fd, bytes, sizeof bytes, 0);
    uint64_t index_bytes;
    memcpy(&index_bytes, bytes + 24, sizeof index_bytes);
    const uint64_t files = bytes[40];
    const size_t count = KEPT_HEAD + 8 * files + index_bytes;
    FUZZ_CHECK(got > 0 && count <= (size_t)got);
    fuzz_patch(patches, bytes, count, pages, 1, UINT32_MAX);
    const size_t index_at = KEPT_HEAD + 8 * min_u64(bytes[40], (count - KEPT_HEAD) / 8);
    const uint64_t index = XXH3_64bits(bytes + index_at, count - index_at);
    const uint64_t samples = XXH3_64bits(bytes + KEPT_HEAD, index_at - KEPT_HEAD);
    memcpy(bytes + 32, &index, sizeof index);
    memcpy(bytes + 48, &samples, sizeof samples);
    FUZZ_CHECK(pwrite(fd, bytes, count, 0) == (ssize_t)count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[FIELDS] = {"jpg", "cls", "n"};
    struct fuzz_input patches = {0};
    struct lying lying;
    make_folder();
    lying_begin(&lying, "tar", names, data, size);
    const bool keeps = lying.flags & KEPT;
    lying.config.index_folder = keeps ? folder : NULL;
    lying.config.on_error = lying.flags & SKIP ? ON_ERROR_SKIP : ON_ERROR_FAIL;
    if (keeps)
        patches.left = fuzz_bytes(&lying.input, &patches.at, fuzz_byte(&lying.input));
    int before = fuzz_free_descriptor();
    lying_fill(&lying, set_sums);
    if (lying_open(&lying) && keeps) {
        spoil_kept(&patches);
        FUZZ_CHECK(lying_open(&lying));
    }
    remove_kept();
    FUZZ_CHECK(fuzz_free_descriptor() == before);
    return 0;
}
