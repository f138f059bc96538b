// Documents of tokens, about which an index of Megatron or a file of offsets lies.
//
// Input: a byte for the kind, one for the length of windows (from 64 on, with cu_seqlens), the size that the data file
// appears to have, and the index or file of offsets.
#include <sys/stat.h>

#include "base/dtype.h"
#include "daemon/source/build/index_writer.h"
#include "daemon/source/source.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/window_check.h"

#define INDEX_FD 200
#define DATA_FD  201

enum {
    WITH_OFFSETS = 1, // format tokens
    PADDED = 2,
    DTYPE_SHIFT = 2 // of offsets' data, two bits
};

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
static void check_windows(const struct dataset_layout *layout, const uint8_t *index, uint64_t pack) {
    const struct index_documents *documents =
        (const struct index_documents *)(const void *)(index + layout->columns[0].offset);
    const uint64_t *starts = (const uint64_t *)(const void *)(index + documents->starts);
    const struct dataset_file *file = &layout->files[0];
    uint64_t tokens = (file->bytes - file->data_offset) / dtype_bytes(layout->fields[0].dtype);
    uint64_t last = (layout->samples - 1) * layout->streams[0].record_bytes + file->data_offset;
    bool boundaries = layout->column_count == 3;
    FUZZ_CHECK(layout->column_count == 2u + boundaries && layout->field_count == layout->column_count + 1);
    FUZZ_CHECK(last + layout->streams[0].extents[0].bytes <= file->bytes);
    for (uint32_t i = 0; i < 2; i++)
        FUZZ_CHECK(layout->columns[i].bytes == 4 * (pack + 1) && layout->columns[i].field == i + 1);
    FUZZ_CHECK(documents->first == 0 && documents->count >= 1 && documents->count <= INT32_MAX);
    uint64_t end = documents->starts + documents->count * sizeof *starts;
    FUZZ_CHECK(end == (boundaries ? layout->columns[2].offset : layout->index_bytes));
    FUZZ_CHECK(starts[0] == 0);
    for (uint64_t i = 1; i < documents->count; i++)
        FUZZ_CHECK(starts[i - 1] <= starts[i] && starts[i] <= tokens);
    if (boundaries)
        check_boundaries(layout, index, pack);
}

static void check_documents(const struct dataset *dataset, const uint8_t *index, bool padded) {
    const struct dataset_layout *layout = dataset->layout;
    const struct index_extent *extents =
        (const struct index_extent *)(const void *)(index + layout->columns[0].offset);
    uint64_t item = dtype_bytes(layout->fields[0].dtype), total = 0;
    FUZZ_CHECK(layout->field_count == 1 && layout->column_count == 1);
    FUZZ_CHECK(layout->fields[0].ragged == !padded && (dataset->sizes[0] != NULL) == !padded);
    for (uint64_t i = 0; i < layout->samples; i++) {
        FUZZ_CHECK(extents[i].file == 0 && extents[i].bytes % item == 0);
        FUZZ_CHECK(extents[i].offset + extents[i].bytes <= layout->files[0].bytes);
        total += extents[i].bytes;
    }
    FUZZ_CHECK(padded || total == dataset->sizes[0]->bytes);
}

static void check_dataset(const struct dataset *dataset, uint64_t pack, bool padded) {
    const struct dataset_layout *layout = dataset->layout;
    struct stat status;
    FUZZ_CHECK(layout->file_count == 1 && layout->samples >= 1);
    FUZZ_CHECK(fstat(dataset->index_fd, &status) == 0 && (uint64_t)status.st_size == layout->index_bytes);
    const uint8_t *index = mmap(NULL, layout->index_bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    FUZZ_CHECK(index != MAP_FAILED);
    if (pack)
        check_windows(layout, index, pack);
    else
        check_documents(dataset, index, padded);
    FUZZ_CHECK(munmap((void *)index, layout->index_bytes) == 0);
}

// ---- The configuration of a dataset ----------------------------------------------------------------------------

struct texts {
    char index[64], data[64];
    struct config_field pad;
};

static void describe(struct fuzz_input *input, struct texts *texts, struct dataset_config *config) {
    static const char *const dtypes[] = {"u8", "u16", "i32", "i64"};
    uint8_t kind = fuzz_byte(input);
    uint8_t windows = fuzz_byte(input);
    config->pack = windows % 17;
    config->cu_seqlens = windows >= 64 && config->pack;
    snprintf(texts->index, sizeof texts->index, "%s/x.idx", folder);
    snprintf(texts->data, sizeof texts->data, "%s/x.bin", folder);
    config->format = (char *)"megatron";
    config->path = texts->index;
    if (kind & WITH_OFFSETS) {
        config->format = (char *)"tokens";
        config->path = texts->data;
        config->offsets = texts->index;
        config->dtype = (char *)dtypes[kind >> DTYPE_SHIFT & 3];
        config->header_bytes = kind >> 4;
    }
    texts->pad = (struct config_field){(char *)"tokens", (char *)"7 1", 3};
    config->pads = &texts->pad;
    config->pad_count = kind & PADDED && !config->pack;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct texts texts = {0};
    struct dataset_config config = {.name = (char *)"fuzz", .file = "feedd.conf", .line = 1};
    struct dataset *dataset;
    struct error error = {0};
    make_files();
    int before = fuzz_free_descriptor();
    describe(&input, &texts, &config);
    uint64_t apparent = min_u64(fuzz_number(&input), 1ull << 40);
    fuzz_write(INDEX_FD, input.at, input.left);
    FUZZ_CHECK(ftruncate(DATA_FD, 0) == 0 && ftruncate(DATA_FD, (off_t)apparent) == 0);
    int err = source_open_dataset(&config, &dataset, &error);
    FUZZ_CHECK(err ? !dataset && *error.text : dataset != NULL);
    if (dataset)
        check_dataset(dataset, config.pack, config.pad_count);
    dataset_unref(dataset);
    FUZZ_CHECK(fuzz_free_descriptor() == before);
    return 0;
}
