// One or two files that lie, opened as a dataset.
//
// Input: a byte of flags, four lines (three fields and a pad), and the files, of equal length. With COMPLETE, each gets
// what it needs so that what lies further on is reached.
#ifndef FEEDD_TESTS_FUZZ_LYING_FILES_H
#define FEEDD_TESTS_FUZZ_LYING_FILES_H

#include "daemon/on_error.h"
#include "daemon/source/source.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/index_check.h"
#include "tests/fuzz/window_check.h"

#define FIRST_FD    200
#define FILES       2
#define FIELDS      3u
#define MOST        (64u << 10)
#define FIELD_NAMES ((const char *const[FIELDS]){"x", "y", "z"})

enum {
    COMPLETE = 1,
    TWO = 2,
    BOUNDARIES = 4,
    PACK_SHIFT = 3 // with formats of columns, what is left of the flags is `pack`
};

typedef void complete_t(uint8_t *bytes, size_t count);

// A dataset of them, and what is left of the input.
struct lying {
    struct fuzz_input input;
    uint8_t flags;
    char values[FIELDS][64], pad[32];
    struct config_field fields[FIELDS], pads[1];
    struct dataset_config config; // points into the others
};

static inline void make_files(void) {
    static bool made;
    for (int i = 0; i < FILES && !made; i++) {
        int fd = fuzz_memory_file();
        FUZZ_CHECK(dup3(fd, FIRST_FD + i, O_CLOEXEC) >= 0);
        close(fd);
    }
    made = true;
}

static inline const char *path_of_files(bool two) {
    return two ? "/proc/self/fd/20[01]" : "/proc/self/fd/200";
}

// Makes the files and reads the configuration. The first field may have the pad, the third may be absent.
static inline void lying_begin(struct lying *lying, const char *format, const char *const names[FIELDS],
                               const uint8_t *data, size_t size) {
    *lying = (struct lying){.input = {data, size}, .pads = {{(char *)names[0], lying->pad, 1}}};
    make_files();
    lying->flags = fuzz_byte(&lying->input);
    for (uint32_t i = 0; i < FIELDS; i++) {
        char *value = fuzz_line(&lying->input, lying->values[i], sizeof lying->values[i]);
        lying->fields[i] = (struct config_field){(char *)names[i], value, 1};
    }
    fuzz_line(&lying->input, lying->pad, sizeof lying->pad);
    lying->config = (struct dataset_config){.name = (char *)"fuzz",
                                            .file = "feedd.conf",
                                            .line = 1,
                                            .format = (char *)format,
                                            .path = (char *)path_of_files(lying->flags & TWO),
                                            .fields = lying->fields,
                                            .field_count = FIELDS - !*lying->values[2],
                                            .pads = lying->pads,
                                            .pad_count = *lying->pad != '\0'};
}

// `complete` gives a file what it needs.
static inline void lying_fill(struct lying *lying, complete_t *complete) {
    static uint8_t copy[MOST];
    const size_t each = lying->flags & TWO ? lying->input.left / 2 : lying->input.left;
    for (int i = 0; i < FILES; i++) {
        const uint8_t *bytes;
        size_t count = fuzz_bytes(&lying->input, &bytes, min_u64(each, MOST));
        if (count)
            memcpy(copy, bytes, count);
        if (lying->flags & COMPLETE)
            complete(copy, count);
        fuzz_write(FIRST_FD + i, copy, count);
    }
}

// False: the daemon refuses it.
static inline bool lying_open(const struct lying *lying) {
    struct dataset *dataset;
    struct error error = {0};
    int err = source_open_dataset(&lying->config, &dataset, &error);
    FUZZ_CHECK(err ? !dataset && *error.text : dataset != NULL);
    if (dataset && lying->config.pack)
        check_windows_across(dataset, lying->config.pack, lying->config.cu_seqlens);
    else if (dataset)
        check_index(dataset);
    dataset_unref(dataset);
    return !err;
}

// Of the first field alone.
static inline void lying_pack(struct lying *lying) {
    lying->config.pack = lying->flags >> PACK_SHIFT;
    lying->config.cu_seqlens = lying->config.pack && lying->flags & BOUNDARIES;
    if (lying->config.pack)
        lying->config.field_count = 1;
}

// All of it, for formats with columns.
static inline int open_columns(const char *format, complete_t *complete, const uint8_t *data, size_t size) {
    struct lying lying;
    lying_begin(&lying, format, FIELD_NAMES, data, size);
    lying.config.block_memory = 16 * MIB;
    lying.config.on_error = size % 2 ? ON_ERROR_SKIP : ON_ERROR_FAIL; // rows with nulls are listed
    lying_pack(&lying);
    int before = fuzz_free_descriptor();
    lying_fill(&lying, complete);
    lying_open(&lying);
    FUZZ_CHECK(fuzz_free_descriptor() == before);
    return 0;
}

#endif
