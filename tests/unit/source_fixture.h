// For tests of configuration and formats: a folder of small files, and datasets opened from the text of a
// section.
#ifndef FEEDD_TESTS_UNIT_SOURCE_FIXTURE_H
#define FEEDD_TESTS_UNIT_SOURCE_FIXTURE_H

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/error.h"
#include "daemon/config/config.h"
#include "daemon/source/source.h"

static char folder[256];

static inline int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/feedd-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static inline int remove_folder(void **state) {
    (void)state;
    return nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static inline const char *path_in_folder(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline void write_file(const char *name, const void *data, size_t bytes) {
    AUTO_FCLOSE FILE *file = fopen(path_in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
}

// `bytes` bytes that differ from their neighbours and from those of another seed.
static inline void write_pattern(const char *name, size_t bytes, uint32_t seed) {
    AUTO_FREE uint8_t *data = malloc(bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)((i * 2654435761u + seed * 40503u) >> 13);
    write_file(name, data, bytes);
}

static inline int load_text(const char *text, struct config **config, struct error *error) {
    write_file("feedd.conf", text, strlen(text));
    *error = (struct error){0};
    return config_load(path_in_folder("feedd.conf"), config, error);
}

// Opens "[dataset test]" with these keys.
static inline int open_keys(const char *keys, struct dataset **dataset, struct error *error) {
    char text[4096];
    struct config *config;
    snprintf(text, sizeof text, "[dataset test]\n%s\n", keys);
    int err = load_text(text, &config, error);
    if (err)
        fail_msg("the configuration itself is refused: %s", error->text);
    err = source_open_dataset(&config->datasets[0], dataset, error);
    config_free(config);
    return err;
}

static inline struct dataset *open_good(const char *keys) {
    struct dataset *dataset = NULL;
    struct error error;
    if (open_keys(keys, &dataset, &error))
        fail_msg("%s", error.text);
    return dataset;
}

static inline uint32_t count_descriptors(void) {
    uint32_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

// The sentence names the section and holds `part`, and nothing stays open.
static inline void expect_refusal(const char *keys, int code, const char *part) {
    struct dataset *dataset;
    struct error error;
    uint32_t before = count_descriptors();
    int err = open_keys(keys, &dataset, &error);
    if (err != code || !strstr(error.text, part) || !strstr(error.text, "[dataset test] "))
        fail_msg("%s\n  gave    %d, %s\n  wanted  %d, ...%s...", keys, err, error.text, code, part);
    assert_null(dataset);
    assert_int_equal(count_descriptors(), before);
}

// Reads sample number `sample` of a field through the layout, as a loader would.
static inline void read_sample(const struct dataset *dataset, uint32_t field, uint64_t sample, void *data) {
    const struct dataset_layout *layout = dataset->layout;
    for (uint32_t i = 0; i < layout->stream_count; i++) {
        const struct dataset_stream *stream = &layout->streams[i];
        for (uint32_t j = 0; j < stream->extent_count; j++) {
            const struct dataset_extent *extent = &stream->extents[j];
            if (extent->field != field)
                continue;
            uint32_t index = dataset_find_file(layout, stream, sample, 0);
            const struct dataset_file *file = &layout->files[index];
            uint64_t at =
                file->data_offset + (sample - file->first_sample) * stream->record_bytes + extent->offset;
            assert_int_equal(pread(dataset->fds[index], data, extent->bytes, (off_t)at), extent->bytes);
            return;
        }
    }
    fail_msg("no stream has field %u", field);
}

#endif
