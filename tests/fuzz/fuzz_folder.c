// Files in a folder, by names of all kinds, or listed by a CSV file that lies, opened as a dataset.
//
// Input: a byte of flags, five lines (three fields, a pad, and the column of files), and the CSV file; without
// WITH_CSV, names of files, a line each, which are put into the folder. With KEPT, a kept
// index instead, not as feedd wrote it: the number of samples, their extents, and the text.
#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/dataset/folder_file.h"
#include "daemon/on_error.h"
#include "daemon/source/build/index_writer.h"
#include "daemon/source/folder/folder_state.h"
#include "daemon/source/source.h"
#include "tests/fuzz/fuzz.h"

#define CSV_FD 200
#define FIELDS 3u
#define MOST   (64u << 10)
#define NAMES  8u

enum {
    WITH_CSV = 1,
    WITH_EXTENSIONS = 2,
    SKIP = 4,
    KEPT = 8
};

static char root[64]; // with a/1, b/2, the link b/3 to a/1, and the link c out of it

static void put(const char *name, const char *content) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
        FUZZ_CHECK(write(fd, content, strlen(content)) >= 0);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static void remove_tree(void) {
    nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_tree(void) {
    char path[128];
    if (*root)
        return;
    snprintf(root, sizeof root, "%s",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm/fuzz-XXXXXX" : "/tmp/fuzz-XXXXXX");
    FUZZ_CHECK(mkdtemp(root));
    atexit(remove_tree);
    for (const char *name = "abn"; *name; name++) {
        snprintf(path, sizeof path, "%s/%c", root, *name);
        FUZZ_CHECK(mkdir(path, 0755) == 0);
    }
    put("a/1", "one");
    put("b/2", "");
    snprintf(path, sizeof path, "%s/b/3", root);
    FUZZ_CHECK(symlink("../a/1", path) == 0);
    int fd = fuzz_memory_file();
    FUZZ_CHECK(dup3(fd, CSV_FD, O_CLOEXEC) >= 0);
    close(fd);
}

// The link out of the folder is refused wherever the folder is looked through, so it is there for CSV files only.
static void set_link(bool there) {
    char path[128];
    snprintf(path, sizeof path, "%s/c", root);
    if (there ? symlink("/etc", path) != 0 : unlink(path) != 0)
        FUZZ_CHECK(errno == EEXIST || errno == ENOENT);
}

static void put_names(struct fuzz_input *input) {
    char name[300], path[320];
    for (uint32_t i = 0; i < NAMES && input->left; i++) {
        fuzz_line(input, name, sizeof name);
        if (!*name || strchr(name, '/') || strlen(name) > NAME_MAX)
            continue;
        snprintf(path, sizeof path, "n/%s", name);
        put(path, name);
    }
}

static void remove_names(void) {
    char path[128];
    snprintf(path, sizeof path, "%s/n", root);
    DIR *folder = opendir(path);
    FUZZ_CHECK(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
}

// ---- What must hold for a dataset that was taken ---------------------------------------------------------------

static void check_file(const struct dataset *dataset, const struct index_extent *extent,
                       const struct path_text *text) {
    char path[PATH_MAX];
    FUZZ_CHECK(path_text_has(text, path_text_stems(text), extent->offset));
    FUZZ_CHECK(extent->file < dataset->layout->file_count && path_text_get(text, extent->offset, path));
    AUTO_CLOSE int fd = folder_file_open(dataset->fds[extent->file], path);
    FUZZ_CHECK(fd >= 0 && folder_file_check(fd, extent->bytes) == 0);
}

static void check_column(const struct dataset *dataset, const struct dataset_column *column,
                         const uint8_t *index) {
    const struct dataset_layout *layout = dataset->layout;
    bool extents = column->kind == COLUMN_EXTENTS || column->kind == COLUMN_TEXT;
    uint64_t entry = extents ? sizeof(struct index_extent) : column->bytes;
    FUZZ_CHECK(column->offset % 8 == 0);
    FUZZ_CHECK(column->offset + layout->samples * entry <= layout->text_offset);
    const struct index_extent *extent = (const struct index_extent *)(const void *)(index + column->offset);
    const struct path_text text = {index + layout->text_offset, layout->text_bytes};
    for (uint64_t i = 0; extents && i < layout->samples; i++, extent++) {
        if (dataset_is_incomplete(layout, index, i))
            FUZZ_CHECK(!extent->bytes && !text.text[extent->offset]);
        else if (column->kind == COLUMN_EXTENTS)
            check_file(dataset, extent, &text);
        else
            FUZZ_CHECK(extent->offset < text.bytes && extent->bytes < text.bytes - extent->offset);
    }
}

// What a loader maps.
static void check_index(const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    struct stat status;
    char path[DATASET_PATH_TEXT];
    FUZZ_CHECK(layout->samples >= 1 && layout->column_count == layout->field_count && layout->folder_count);
    FUZZ_CHECK(fstat(dataset->index_fd, &status) == 0 && (uint64_t)status.st_size == layout->index_bytes);
    const uint64_t marks = dataset->incomplete ? (layout->samples + 63) / 64 * 8 : 0;
    FUZZ_CHECK(layout->incomplete_offset == (marks ? layout->text_offset - marks : 0));
    FUZZ_CHECK(layout->text_offset + layout->text_bytes == layout->index_bytes);
    const uint8_t *index = mmap(NULL, layout->index_bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    FUZZ_CHECK(index != MAP_FAILED);
    for (uint32_t i = 0; i < layout->column_count; i++)
        check_column(dataset, &layout->columns[i], index);
    FUZZ_CHECK(munmap((void *)index, layout->index_bytes) == 0);
    FUZZ_CHECK(strncmp(dataset_file_path(dataset, 0, path), root, strlen(root)) == 0);
}

static void open_it(const struct dataset_config *config) {
    struct dataset *dataset;
    struct error error = {0};
    int before = fuzz_free_descriptor();
    int err = source_open_dataset(config, &dataset, &error);
    FUZZ_CHECK(err ? !dataset && *error.text : dataset != NULL);
    if (dataset)
        check_index(dataset);
    dataset_unref(dataset);
    FUZZ_CHECK(fuzz_free_descriptor() == before);
}

// ---- A kept index ----------------------------------------------------------------------------------------------

// Reads it as loaders and clients do. The text has memory of its own, so that a sanitizer sees reads beyond its end.
static void check_paths(const struct dataset *dataset, const struct path_text *text,
                        const struct index_extent *extents, uint64_t samples) {
    const bool fits = folder_index_fits(dataset, samples, 1);
    const uint64_t stems = path_text_stems(text);
    for (uint64_t i = 0; i < samples; i++) {
        char path[PATH_MAX], found[PATH_MAX];
        struct index_extent extent;
        const size_t length = path_text_get(text, extents[i].offset, path);
        FUZZ_CHECK(strlen(path) == length);
        FUZZ_CHECK(!fits || (extents[i].file == 0 && path_text_has(text, stems, extents[i].offset)));
        FUZZ_CHECK(folder_file_find(dataset, i, &extent, found) == 0);
        FUZZ_CHECK(strcmp(found, path) == 0);
    }
}

static void keep_index(struct fuzz_input *input) {
    const uint8_t *bytes;
    const uint64_t samples = 1 + fuzz_byte(input) % 8, head = samples * sizeof(struct index_extent);
    const size_t count = fuzz_bytes(input, &bytes, MOST);
    const uint64_t all = max_u64(head, align_up(count, 8)), rest = all - head;
    struct dataset_layout layout = {.folder_count = 1,
                                    .file_count = 1,
                                    .column_count = 1,
                                    .index_bytes = all,
                                    .text_offset = head,
                                    .text_bytes = rest};
    AUTO_FREE uint8_t *index = calloc(1, all);
    AUTO_FREE uint8_t *text = malloc(rest + !rest);
    FUZZ_CHECK(index && text);
    memcpy(index, bytes, count);
    memcpy(text, index + head, rest);
    AUTO_CLOSE int fd = fuzz_memory_file();
    fuzz_write(fd, index, all);
    const struct dataset dataset = {.layout = &layout, .index_fd = fd};
    check_paths(&dataset, &(struct path_text){text, rest}, (const void *)index, samples);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[FIELDS] = {"file", "y", "n"};
    struct fuzz_input input = {data, size};
    char values[FIELDS][64], pad[32], column[32], csv_path[32];
    struct config_field fields[FIELDS], pads[1] = {{(char *)"file", pad, 1}};
    const uint8_t *bytes;
    make_tree();
    uint8_t flags = fuzz_byte(&input);
    if (flags & KEPT) {
        keep_index(&input);
        return 0;
    }
    for (uint32_t i = 0; i < FIELDS; i++)
        fields[i] =
            (struct config_field){(char *)names[i], fuzz_line(&input, values[i], sizeof values[i]), 1};
    fuzz_line(&input, pad, sizeof pad);
    fuzz_line(&input, column, sizeof column);
    const struct dataset_config config = {
        .name = (char *)"fuzz",
        .file = "feedd.conf",
        .line = 1,
        .format = (char *)"folder",
        .path = root,
        .csv = flags & WITH_CSV ? (char *)fuzz_path(CSV_FD, csv_path) : NULL,
        .csv_file = *column && flags & WITH_CSV ? column : NULL,
        .extensions = flags & WITH_EXTENSIONS ? column : NULL,
        .fields = fields,
        .field_count = FIELDS - !*values[2],
        .pads = pads,
        .pad_count = *pad != '\0',
        .on_error = flags & SKIP ? ON_ERROR_SKIP : ON_ERROR_FAIL,
    };
    set_link(flags & WITH_CSV);
    if (flags & WITH_CSV) {
        size_t count = fuzz_bytes(&input, &bytes, MOST);
        fuzz_write(CSV_FD, bytes, count);
    } else {
        put_names(&input);
    }
    open_it(&config);
    remove_names();
    return 0;
}
