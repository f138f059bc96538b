// Kept indices whose hashes are right and whose contents are not: loaders never see them.
#include <dirent.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include "daemon/source/build/builder_index.h"
#include "tests/unit/source_fixture.h"

#define KEYS    "format = tar\npath = s*.tar\nfield.x = bytes\npad.x = 9\nfield.n = length @ x\n"
#define BLOCK   512u
#define SAMPLES 3u                          // in each of two archives
#define ARCHIVE ((SAMPLES * 2 + 2) * BLOCK) // with the two blocks that end it
#define HEAD    88u
#define BEGIN                                                                                                \
    (HEAD + 2 * sizeof(uint64_t)) // of the index in the file, after how many samples each archive has
#define EXTENT (BEGIN + 16)       // of the first sample

static uint8_t kept[4096];
static size_t kept_bytes;

// Members "0.x" and so on, of one byte each.
static void write_archive(const char *name) {
    uint8_t archive[ARCHIVE] = {0};
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint8_t *header = archive + (size_t)i * 2 * BLOCK;
        uint32_t sum = 8 * ' ';
        snprintf((char *)header, 100, "%u.x", i);
        snprintf((char *)header + 124, 12, "%011o", 1);
        snprintf((char *)header + 257, 6, "ustar");
        for (uint32_t k = 0; k < BLOCK; k++)
            sum += header[k];
        snprintf((char *)header + 148, 8, "%06o", sum);
        header[BLOCK] = (uint8_t)i;
    }
    write_file(name, archive, sizeof archive);
}

static const char *kept_path(void) {
    static char path[1024];
    struct dirent *entry;
    DIR *directory = opendir(path_in_folder("kept"));
    assert_non_null(directory);
    path[0] = '\0';
    while ((entry = readdir(directory)))
        if (entry->d_name[0] != '.')
            snprintf(path, sizeof path, "%s/kept/%s", folder, entry->d_name);
    closedir(directory);
    return path;
}

// What is said of the index. Its extents are right in any case.
static void open_with(const char *part) {
    struct dataset *dataset = open_good(KEYS);
    const struct dataset_layout *layout = dataset->layout;
    if (!strstr(dataset->index_note, part))
        fail_msg("%s, wanted %s", dataset->index_note, part);
    assert_int_equal(layout->samples, 2 * SAMPLES);
    for (uint32_t i = 0; i < 2 * SAMPLES; i++) {
        struct index_extent extent;
        off_t at = (off_t)(layout->columns[0].offset + i * sizeof extent);
        assert_int_equal(pread(dataset->index_fd, &extent, sizeof extent, at), sizeof extent);
        assert_int_equal(extent.file, i / SAMPLES);
        assert_int_equal(extent.offset, (i % SAMPLES) * 2 * BLOCK + BLOCK);
        assert_int_equal(extent.bytes, 1);
    }
    dataset_unref(dataset);
}

// Puts the number there, and makes the hashes right: that of the index is at 32, that of the counts at 48.
static void change(size_t at, uint64_t number, size_t bytes) {
    uint8_t changed[sizeof kept];
    memcpy(changed, kept, kept_bytes);
    memcpy(changed + at, &number, bytes);
    const uint64_t index = XXH3_64bits(changed + BEGIN, kept_bytes - BEGIN);
    const uint64_t counts = XXH3_64bits(changed + HEAD, BEGIN - HEAD);
    memcpy(changed + 32, &index, sizeof index);
    memcpy(changed + 48, &counts, sizeof counts);
    AUTO_FCLOSE FILE *file = fopen(kept_path(), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(changed, 1, kept_bytes, file), kept_bytes);
}

static int keep(void **state) {
    if (make_folder(state) || mkdir(path_in_folder("kept"), 0700) ||
        setenv("CACHE_DIRECTORY", path_in_folder("kept"), 1))
        return -1;
    write_archive("s0.tar");
    write_archive("s1.tar");
    open_with("made in");
    open_with("read in");
    FILE *file = fopen(kept_path(), "rb");
    if (!file)
        return -1;
    kept_bytes = fread(kept, 1, sizeof kept, file);
    fclose(file);
    return kept_bytes == EXTENT + 2 * SAMPLES * (sizeof(struct index_extent) + sizeof(uint64_t)) ? 0 : -1;
}

static void hashes_are_made_right_here(void **state) {
    (void)state;
    change(EXTENT, BLOCK, 8);
    open_with("read in");
    change(EXTENT + 2 * SAMPLES * sizeof(struct index_extent), 77, 8); // a value, which is believed
    open_with("read in");
}

static void extents_beyond_the_files_are_not_used(void **state) {
    (void)state;
    const uint64_t size = ARCHIVE;
    const uint64_t offsets[] = {size, size + 1, UINT64_MAX, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        change(EXTENT, offsets[i], 8);
        open_with("made in");
    }
    change(EXTENT + 12, size - BLOCK + 1, 4); // its size
    open_with("made in");
    change(EXTENT + 12, UINT32_MAX, 4);
    open_with("made in");
}

static void extents_of_other_files_are_not_used(void **state) {
    (void)state;
    for (uint64_t file = 1; file < 4; file++) {
        change(EXTENT + 8, file, 4);
        open_with("made in");
    }
    change(EXTENT + SAMPLES * sizeof(struct index_extent) + 8, 0,
           4); // the first sample of the second archive
    open_with("made in");
}

static void wrong_counts_are_not_used(void **state) {
    (void)state;
    const uint64_t counts[] = {0, 2, 4, 6, 7, UINT64_MAX, UINT64_MAX - 2};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        change(HEAD, counts[i], 8);
        open_with("made in");
    }
}

static int lacking; // the errno with which opening a kept index fails; 0: it succeeds

// This replaces the C library's.
int openat(int directory, const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const int mode = flags & O_CREAT ? va_arg(list, int) : 0;
    va_end(list);
    if (!lacking || !strstr(path, ".index"))
        return (int)syscall(SYS_openat, directory, path, flags, mode);
    errno = lacking;
    return -1;
}

// It is read the next time; a builder that makes no index leaves it to another one.
static void a_lack_of_descriptors_does_not_mean_a_missing_index(void **state) {
    (void)state;
    const struct source_index known = {.known_only = true};
    struct dataset *dataset = NULL;
    struct config *config;
    struct error error;
    open_with("read in");
    lacking = EMFILE;
    expect_refusal(KEYS, -EMFILE, "raise LimitNOFILE");
    lacking = ENFILE;
    expect_refusal(KEYS, -ENFILE, "/kept: the file cannot be opened");
    assert_int_equal(load_text("[dataset test]\n" KEYS, &config, &error), 0);
    assert_int_equal(source_open_indexed(&config->datasets[0], &known, &dataset, &error), -EINPROGRESS);
    config_free(config);
    lacking = 0;
    open_with("read in");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_made_right_here),
        cmocka_unit_test(extents_beyond_the_files_are_not_used),
        cmocka_unit_test(extents_of_other_files_are_not_used),
        cmocka_unit_test(wrong_counts_are_not_used),
        cmocka_unit_test(a_lack_of_descriptors_does_not_mean_a_missing_index),
    };
    return cmocka_run_group_tests(tests, keep, remove_folder);
}
