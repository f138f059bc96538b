// Tar archives that lie, opened as a dataset.
//
// Input: a byte of flags, four lines (three fields and a pad), and one or two archives of equal length. With SUMS,
// headers get the sum that they need, so that what lies behind it is reached too.
#include <sys/stat.h>

#include "daemon/source/index_writer.h"
#include "daemon/source/source.h"
#include "daemon/source/tar.h"
#include "tests/fuzz/fuzz.h"

#define FIRST_FD 200
#define FIELDS   3u
#define BLOCK    512u
#define MOST     (64u << 10)

enum {
    SUMS = 1,
    TWO = 2,
    SKIP = 4
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

// ---- What must hold for a dataset that was taken ---------------------------------------------------------------

static void check_extents(const struct dataset_layout *layout, const struct dataset_column *column,
                          const uint8_t *index) {
    const struct index_extent *extents = (const struct index_extent *)(const void *)(index + column->offset);
    for (uint64_t i = 0; i < layout->samples; i++) {
        FUZZ_CHECK(extents[i].file < layout->file_count);
        const struct dataset_file *file = &layout->files[extents[i].file];
        FUZZ_CHECK(i >= file->first_sample && i - file->first_sample < file->samples);
        FUZZ_CHECK(extents[i].offset <= file->bytes && extents[i].bytes <= file->bytes - extents[i].offset);
    }
}

// What a loader maps.
static void check_index(const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    FUZZ_CHECK(layout->samples >= 1 && layout->column_count == layout->field_count);
    FUZZ_CHECK(dataset_stream_samples(layout, layout->streams) == layout->samples);
    struct stat status;
    FUZZ_CHECK(fstat(dataset->index_fd, &status) == 0 && (uint64_t)status.st_size == layout->index_bytes);
    const uint8_t *index = mmap(NULL, layout->index_bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    FUZZ_CHECK(index != MAP_FAILED);
    const struct dataset_index *head = (const struct dataset_index *)(const void *)index;
    FUZZ_CHECK(head->bytes == layout->index_bytes && head->samples == layout->samples);
    for (uint32_t i = 0; i < layout->column_count; i++) {
        const struct dataset_column *column = &layout->columns[i];
        bool extents = column->kind == COLUMN_EXTENTS;
        uint64_t entry = extents ? sizeof(struct index_extent) : column->bytes;
        FUZZ_CHECK(column->field == i && column->offset % 8 == 0 && column->pad <= UINT8_MAX);
        FUZZ_CHECK(column->bytes == layout->fields[i].sample_bytes);
        FUZZ_CHECK(column->offset + layout->samples * entry <= layout->index_bytes);
        if (extents)
            check_extents(layout, column, index);
    }
    FUZZ_CHECK(munmap((void *)index, layout->index_bytes) == 0);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[FIELDS] = {"jpg", "cls", "n"};
    struct fuzz_input input = {data, size};
    char values[FIELDS][64], pad[32];
    struct config_field fields[FIELDS], pads[1] = {{(char *)"jpg", pad, 1}};
    struct dataset *dataset;
    struct error error = {0};
    make_files();
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
                                    .skip_errors = flags & SKIP};
    size_t each = flags & TWO ? input.left / 2 : input.left;
    for (uint32_t i = 0; i < 2; i++)
        fill_file(&input, i, each, flags & SUMS);
    int err = source_open_dataset(&config, &dataset, &error);
    FUZZ_CHECK(err ? !dataset && *error.text : dataset != NULL);
    if (dataset)
        check_index(dataset);
    dataset_unref(dataset);
    FUZZ_CHECK(fuzz_free_descriptor() == before);
    return 0;
}
