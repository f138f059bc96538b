// Pairs of Megatron, of which the index lies.
//
// Input: a byte for the length of windows, the size that the data file appears to have, and the index.
#include <sys/stat.h>

#include "base/dtype.h"
#include "daemon/source/index_writer.h"
#include "daemon/source/source.h"
#include "tests/fuzz/fuzz.h"

#define INDEX_FD 200
#define DATA_FD  201

static char folder[] = "/dev/shm/feedd-fuzz.XXXXXX";
static bool made;

// "x.idx" and "x.bin" in a folder, which are the memory files.
static void make_files(void) {
    static const char *const names[] = {"x.idx", "x.bin"};
    char path[64], target[32];
    if (made)
        return;
    FUZZ_CHECK(mkdtemp(folder));
    made = true;
    for (int i = 0; i < 2; i++) {
        int fd = fuzz_memory_file();
        FUZZ_CHECK(dup3(fd, INDEX_FD + i, O_CLOEXEC) >= 0);
        close(fd);
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FUZZ_CHECK(symlink(fuzz_path(INDEX_FD + i, target), path) == 0);
    }
}

static void remove_files(void) __attribute__((destructor));
static void remove_files(void) {
    char path[64];
    for (int i = 0; i < 2 && made; i++) {
        snprintf(path, sizeof path, "%s/x.%s", folder, i ? "bin" : "idx");
        unlink(path);
    }
    if (made)
        rmdir(folder);
}

// What a loader maps: it takes each window's documents from there, whatever they are.
static void check_documents(const struct dataset_layout *layout, const uint8_t *index) {
    const struct index_documents *documents =
        (const struct index_documents *)(const void *)(index + layout->columns[0].offset);
    const uint64_t *starts = (const uint64_t *)(const void *)(index + documents->starts);
    uint64_t tokens = layout->files[0].bytes / dtype_bytes(layout->fields[0].dtype);
    FUZZ_CHECK(documents->first == 0 && documents->count >= 1 && documents->count <= INT32_MAX);
    FUZZ_CHECK(documents->starts + documents->count * sizeof *starts == layout->index_bytes);
    FUZZ_CHECK(starts[0] == 0);
    for (uint64_t i = 1; i < documents->count; i++)
        FUZZ_CHECK(starts[i - 1] <= starts[i] && starts[i] <= tokens);
}

static void check_dataset(const struct dataset *dataset, uint64_t pack) {
    const struct dataset_layout *layout = dataset->layout;
    struct stat status;
    FUZZ_CHECK(layout->field_count == 3 && layout->column_count == 2 && layout->file_count == 1);
    uint64_t last = (layout->samples - 1) * layout->streams[0].record_bytes;
    FUZZ_CHECK(layout->samples >= 1 && last + layout->streams[0].extents[0].bytes <= layout->files[0].bytes);
    for (uint32_t i = 0; i < 2; i++)
        FUZZ_CHECK(layout->columns[i].bytes == 4 * (pack + 1) && layout->columns[i].field == i + 1);
    FUZZ_CHECK(fstat(dataset->index_fd, &status) == 0 && (uint64_t)status.st_size == layout->index_bytes);
    const uint8_t *index = mmap(NULL, layout->index_bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    FUZZ_CHECK(index != MAP_FAILED);
    check_documents(layout, index);
    FUZZ_CHECK(munmap((void *)index, layout->index_bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    char path[64];
    struct dataset *dataset;
    struct error error = {0};
    make_files();
    int before = fuzz_free_descriptor();
    uint64_t pack = 1 + fuzz_byte(&input) % 16;
    uint64_t apparent = min_u64(fuzz_number(&input), 1ull << 40);
    snprintf(path, sizeof path, "%s/x.idx", folder);
    fuzz_write(INDEX_FD, input.at, input.left);
    FUZZ_CHECK(ftruncate(DATA_FD, 0) == 0 && ftruncate(DATA_FD, (off_t)apparent) == 0);
    struct dataset_config config = {.name = (char *)"fuzz",
                                    .file = "feedd.conf",
                                    .line = 1,
                                    .format = (char *)"megatron",
                                    .path = path,
                                    .pack = pack};
    int err = source_open_dataset(&config, &dataset, &error);
    FUZZ_CHECK(err ? !dataset && *error.text : dataset != NULL);
    if (dataset)
        check_dataset(dataset, pack);
    dataset_unref(dataset);
    FUZZ_CHECK(fuzz_free_descriptor() == before);
    return 0;
}
