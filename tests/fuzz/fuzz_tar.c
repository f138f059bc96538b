// Tar archives that lie, opened as a dataset.
//
// Input: a byte of flags, four lines (three fields and a pad), and one or two archives of equal length. With SUMS,
// headers get the sum that they need, so that what lies behind it is reached too. With KEPT, a byte and as many bytes
// of patches come before the archives: the index is kept on disk, patched, given the hashes that it needs, and used
// again.
#include <dirent.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "daemon/on_error.h"
#include "daemon/source/source.h"
#include "daemon/source/tar/tar.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/index_check.h"

#define FIRST_FD 200
#define FIELDS   3u
#define BLOCK    512u
#define MOST     (64u << 10)

enum {
    SUMS = 1,
    TWO = 2,
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

static void fill_file(struct fuzz_input *input, uint32_t file, size_t count, bool sums) {
    static uint8_t copy[MOST];
    const uint8_t *bytes;
    count = fuzz_bytes(input, &bytes, min_u64(count, MOST));
    if (count)
        memcpy(copy, bytes, count);
    if (sums)
        set_sums(copy, count);
    fuzz_write(FIRST_FD + (int)file, copy, count);
}

static void make_files(void) {
    static bool made;
    for (int i = 0; i < 2 && !made; i++) {
        int fd = fuzz_memory_file();
        FUZZ_CHECK(dup3(fd, FIRST_FD + i, O_CLOEXEC) >= 0);
        close(fd);
    }
    made = true;
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
// the hash of their samples at 48; from 88 on those samples, and then the index. Archives have no notes behind it.
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
    FUZZ_CHECK(got > 0 && KEPT_HEAD + 8 * files + index_bytes == (uint64_t)got);
    const size_t count = (size_t)got;
    fuzz_patch(patches, bytes, count, pages, 1, UINT32_MAX);
    const size_t index_at = KEPT_HEAD + 8 * min_u64(bytes[40], (count - KEPT_HEAD) / 8);
    const uint64_t index = XXH3_64bits(bytes + index_at, count - index_at);
    const uint64_t samples = XXH3_64bits(bytes + KEPT_HEAD, index_at - KEPT_HEAD);
    memcpy(bytes + 32, &index, sizeof index);
    memcpy(bytes + 48, &samples, sizeof samples);
    FUZZ_CHECK(pwrite(fd, bytes, count, 0) == got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[FIELDS] = {"jpg", "cls", "n"};
    struct fuzz_input input = {data, size};
    char values[FIELDS][64], pad[32];
    struct config_field fields[FIELDS], pads[1] = {{(char *)"jpg", pad, 1}};
    struct dataset *dataset;
    struct error error = {0};
    make_files();
    make_folder();
    int before = fuzz_free_descriptor();
    uint8_t flags = fuzz_byte(&input);
    for (uint32_t i = 0; i < FIELDS; i++)
        fields[i] =
            (struct config_field){(char *)names[i], fuzz_line(&input, values[i], sizeof values[i]), 1};
    fuzz_line(&input, pad, sizeof pad);
    struct dataset_config config = {.name = (char *)"fuzz",
                                    .file = "feedd.conf",
                                    .line = 1,
                                    .format = (char *)"tar",
                                    .path =
                                        (char *)(flags & TWO ? "/proc/self/fd/20[01]" : "/proc/self/fd/200"),
                                    .fields = fields,
                                    .field_count = FIELDS - !*values[2],
                                    .pads = pads,
                                    .pad_count = *pad != '\0',
                                    .index_folder = flags & KEPT ? folder : NULL,
                                    .on_error = flags & SKIP ? ON_ERROR_SKIP : ON_ERROR_FAIL};
    struct fuzz_input patches = {0};
    if (flags & KEPT)
        patches.left = fuzz_bytes(&input, &patches.at, fuzz_byte(&input));
    size_t each = flags & TWO ? input.left / 2 : input.left;
    for (uint32_t i = 0; i < 2; i++)
        fill_file(&input, i, each, flags & SUMS);
    int err = source_open_dataset(&config, &dataset, &error);
    FUZZ_CHECK(err ? !dataset && *error.text : dataset != NULL);
    if (dataset)
        check_index(dataset);
    dataset_unref(dataset);
    if (!err && flags & KEPT) {
        spoil_kept(&patches);
        FUZZ_CHECK(source_open_dataset(&config, &dataset, &error) == 0);
        check_index(dataset);
        dataset_unref(dataset);
    }
    remove_kept();
    FUZZ_CHECK(fuzz_free_descriptor() == before);
    return 0;
}
