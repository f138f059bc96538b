// Files of columns that lie, opened as a dataset.
//
// Input: a byte of flags, four lines (three fields and a pad), and one or two files of equal length. With COMPLETE,
// each gets the end that it needs.
#ifndef FEEDD_TESTS_FUZZ_COLUMN_FILES_H
#define FEEDD_TESTS_FUZZ_COLUMN_FILES_H

#include "daemon/source/source.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/index_check.h"

#define FIRST_FD 200
#define FIELDS   3u
#define MOST     (64u << 10)

enum {
    COMPLETE = 1,
    TWO = 2
};

typedef void complete_t(uint8_t *bytes, size_t count);

static inline void fill_file(struct fuzz_input *input, uint32_t file, size_t count, complete_t *complete) {
    static uint8_t copy[MOST];
    const uint8_t *bytes;
    count = fuzz_bytes(input, &bytes, min_u64(count, MOST));
    if (count)
        memcpy(copy, bytes, count);
    if (complete)
        complete(copy, count);
    fuzz_write(FIRST_FD + (int)file, copy, count);
}

static inline void make_files(void) {
    static bool made;
    for (int i = 0; i < 2 && !made; i++) {
        int fd = fuzz_memory_file();
        FUZZ_CHECK(dup3(fd, FIRST_FD + i, O_CLOEXEC) >= 0);
        close(fd);
    }
    made = true;
}

// `complete` gives a file the end that it needs.
static inline int open_columns(const char *format, complete_t *complete, const uint8_t *data, size_t size) {
    static const char *const names[FIELDS] = {"x", "y", "z"};
    struct fuzz_input input = {data, size};
    char values[FIELDS][64], pad[32];
    struct config_field fields[FIELDS], pads[1] = {{(char *)"x", pad, 1}};
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
                                    .format = (char *)format,
                                    .path =
                                        (char *)(flags & TWO ? "/proc/self/fd/20[01]" : "/proc/self/fd/200"),
                                    .fields = fields,
                                    .field_count = FIELDS - !*values[2],
                                    .pads = pads,
                                    .pad_count = *pad != '\0',
                                    .block_memory = 16 * MIB};
    size_t each = flags & TWO ? input.left / 2 : input.left;
    for (uint32_t i = 0; i < 2; i++)
        fill_file(&input, i, each, flags & COMPLETE ? complete : NULL);
    int err = source_open_dataset(&config, &dataset, &error);
    FUZZ_CHECK(err ? !dataset && *error.text : dataset != NULL);
    if (dataset)
        check_index(dataset);
    dataset_unref(dataset);
    FUZZ_CHECK(fuzz_free_descriptor() == before);
    return 0;
}

#endif
