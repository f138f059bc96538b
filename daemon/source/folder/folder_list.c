#include "daemon/source/folder/folder_list.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/dtype.h"
#include "base/sentence.h"
#include "base/sizes.h"
#include "base/text.h"
#include "daemon/on_error.h"
#include "daemon/source/build/builder_files.h"
#include "daemon/source/index/scan_threads.h"
#include "daemon/source/source.h"

#define MOST_BYTES   (4ull << 30) // of a CSV file, which is in memory while it is read
#define ROWS_AT_ONCE 64u          // that a thread takes
#define COLUMNS_TEXT 300u

// What a row's file turned out to be.
struct found {
    uint64_t line;
    int64_t written_ns;
    char *path; // of a link: where it leads to
    uint32_t root, bytes;
    int err;
};

struct list {
    struct builder *builder;
    const struct folder_roots *roots;
    const struct source_file *file;
    struct folder_table *table;
    char *text;
    uint32_t columns; // in every row
    uint32_t file_column;
    uint32_t column_of[RING_MAX_FIELDS]; // of a field with FOLDER_COLUMN
    uint32_t width;                      // cells kept of a row: one for each field, and the file
    struct csv_cell *cells;
    uint64_t count, room;
    struct found *found;
    _Atomic uint64_t next; // row that no thread has taken
};

static void release(struct list *list) {
    for (uint64_t i = 0; list->found && i < list->count; i++)
        free(list->found[i].path);
    free(list->found);
    free(list->cells);
    free(list->text);
}

// The row cannot be served: a sample that is incomplete, if there may be any.
static int spoil_row(const struct list *list, int code, uint64_t line, const char *text, size_t bytes,
                     const char *sentence) {
    if (list->builder->config->on_error != ON_ERROR_FAIL) {
        char reason[512];
        sentence_write(reason, sizeof reason, "line %" PRIu64 " of %s: found \"%.*s\"%s", line,
                       basename(list->file->path), (int)min_u64(bytes, 120), text, sentence);
        return folder_table_add_incomplete(list->table, reason) ? 0 : builder_out_of_memory(list->builder);
    }
    return builder_refuse(list->builder, code, list->file->path, "line %" PRIu64 ": found \"%.*s\"%s", line,
                          (int)min_u64(bytes, 120), text, sentence);
}

// ---- Columns -----------------------------------------------------------------------------------------------

static const char *list_columns(const struct list *list, const struct csv_cell *cells,
                                char text[COLUMNS_TEXT]) {
    size_t used = 0;
    for (uint32_t i = 0; i < list->columns && used < COLUMNS_TEXT; i++)
        used += (size_t)snprintf(text + used, COLUMNS_TEXT - used, "%s%.*s", used ? ", " : "",
                                 (int)min_u64(cells[i].bytes, COLUMNS_TEXT), cells[i].text);
    if (used >= COLUMNS_TEXT)
        memcpy(text + COLUMNS_TEXT - 4, "...", 4);
    text_escape(text, COLUMNS_TEXT);
    return text;
}

static int find_column(const struct list *list, const struct csv_cell *cells, const char *name,
                       uint32_t *column) {
    uint32_t matches = 0;
    for (uint32_t i = 0; i < list->columns; i++)
        if (cells[i].bytes == strlen(name) && memcmp(cells[i].text, name, cells[i].bytes) == 0) {
            *column = i;
            matches++;
        }
    if (matches == 1)
        return 0;
    if (matches)
        return builder_refuse(list->builder, -EINVAL, list->file->path,
                              "found more than one column \"%s\" in the first line, wanted one", name);
    char text[COLUMNS_TEXT];
    return builder_refuse(list->builder, -EINVAL, list->file->path,
                          "found no column \"%s\" in the first line, wanted one of these: %s", name,
                          list_columns(list, cells, text));
}

static int read_header(struct list *list, const struct csv_cell *cells) {
    struct builder *builder = list->builder;
    const struct folder_fields *fields = list->table->fields;
    const struct dataset_config *config = builder->config;
    builder->key = "csv_file";
    int err = config->csv_file ? find_column(list, cells, config->csv_file, &list->file_column) : 0;
    for (uint32_t i = 0; i < fields->count && !err; i++) {
        builder->field = &config->fields[i];
        if (fields->fields[i].source == FOLDER_COLUMN)
            err = find_column(list, cells, fields->fields[i].column, &list->column_of[i]);
    }
    if (err)
        return err;
    builder->field = NULL;
    builder->key = "csv";
    list->width = fields->count + 1;
    return 0;
}

// ---- Rows --------------------------------------------------------------------------------------------------

static bool grow(struct list *list) {
    uint64_t room = list->room ? list->room * 2 : 64;
    struct csv_cell *cells = reallocarray(list->cells, room, list->width * sizeof *cells);
    if (!cells)
        return false;
    list->cells = cells;
    struct found *found = reallocarray(list->found, room, sizeof *found);
    if (!found)
        return false;
    list->found = found;
    list->room = room;
    return true;
}

static int keep_row(struct list *list, const struct csv_cell *cells, uint32_t count, uint64_t line) {
    const struct folder_fields *fields = list->table->fields;
    if (count != list->columns)
        return builder_refuse(list->builder, -EINVAL, list->file->path,
                              "line %" PRIu64 ": found %" PRIu32 " column%s, wanted %" PRIu32
                              " as in the first line",
                              line, count, count == 1 ? "" : "s", list->columns);
    if (list->count == INDEX_MAX_SAMPLES)
        return builder_refuse(list->builder, -EFBIG, list->file->path,
                              "found too many rows, wanted at most %u", INDEX_MAX_SAMPLES);
    if (list->count == list->room && !grow(list))
        return builder_out_of_memory(list->builder);
    struct csv_cell *kept = &list->cells[list->count * list->width];
    for (uint32_t i = 0; i < fields->count; i++)
        kept[i] = cells[list->column_of[i]];
    kept[fields->count] = cells[list->file_column];
    list->found[list->count++] = (struct found){.line = line};
    return 0;
}

static int parse(struct list *list) {
    AUTO_FREE struct csv_cell *cells = calloc(CSV_MAX_CELLS, sizeof *cells);
    struct error error = {0};
    struct csv csv;
    uint32_t count;
    int got, err = 0;
    if (!cells)
        return builder_out_of_memory(list->builder);
    csv_start(&csv, list->text, list->file->size);
    while (!err && (got = csv_next(&csv, cells, &count, &error)) != 0) {
        if (got < 0)
            return builder_refuse(list->builder, got, list->file->path, "%s", error.text);
        if (list->columns) {
            err = keep_row(list, cells, count, csv.row);
            continue;
        }
        list->columns = count;
        err = read_header(list, cells);
    }
    if (!err && !list->count)
        err =
            builder_refuse(list->builder, -ENODATA, list->file->path,
                           "found no rows, wanted the names of columns in the first line and samples below");
    return err;
}

// ---- Files -------------------------------------------------------------------------------------------------

static const struct csv_cell *file_cell(const struct list *list, uint64_t row) {
    return &list->cells[row * list->width + list->width - 1];
}

static int find_file(const struct list *list, uint64_t row) {
    const struct csv_cell *cell = file_cell(list, row);
    struct found *found = &list->found[row];
    struct folder_place place;
    char path[PATH_MAX];
    if (cell->bytes == 0 || cell->bytes >= sizeof path || memchr(cell->text, '\0', cell->bytes))
        return -EINVAL;
    if (*cell->text == '/')
        return -EXDEV;
    memcpy(path, cell->text, cell->bytes);
    path[cell->bytes] = '\0';
    int err = folder_roots_find(list->roots, list->roots->roots[0].fd, path, &place);
    if (err)
        return err;
    if (!S_ISREG(place.status.st_mode))
        return S_ISDIR(place.status.st_mode) ? -EISDIR : -ENXIO;
    if (place.status.st_size > UINT32_MAX)
        return -EFBIG;
    found->bytes = (uint32_t)place.status.st_size;
    found->written_ns =
        folder_written_ns(place.status.st_mtim.tv_sec, (uint32_t)place.status.st_mtim.tv_nsec);
    found->path = place.linked ? strdup(place.path) : NULL;
    found->root = place.linked ? place.root : 0;
    return place.linked && !found->path ? -ENOMEM : 0;
}

static void *find_files(void *argument) {
    struct list *list = argument;
    uint64_t from;
    while ((from = atomic_fetch_add_explicit(&list->next, ROWS_AT_ONCE, memory_order_relaxed)) <
           list->count) {
        uint64_t end = min_u64(from + ROWS_AT_ONCE, list->count);
        for (uint64_t row = from; row < end; row++)
            list->found[row].err = find_file(list, row);
        atomic_fetch_add_explicit(&source_progress, 1, memory_order_relaxed);
    }
    return NULL;
}

static const char *wanted_instead(int err) {
    switch (-err) {
    case ENOENT:
    case ENOTDIR:
        return ", wanted a file that is in the folder";
    case EXDEV:
        return ", which leads out of the folder; wanted a path that starts there, or links = FOLDER to allow"
               " symbolic links to others";
    case EISDIR:
        return ", which is a folder, wanted a file";
    case ENXIO:
        return ", which is a FIFO, socket or device, wanted a regular file";
    case EFBIG:
        return ", which has 4 GiB or more, wanted smaller files";
    default:
        return ", wanted the path of a file";
    }
}

static int refuse_for_now(const struct list *list, uint64_t line, const char *name) {
    return builder_refuse(
        list->builder, -EAGAIN, list->file->path,
        "line %" PRIu64
        ": found \"%.120s\", wanted a path without \"..\": other programs keep renaming files, so it"
        " cannot be followed now",
        line, name);
}

static int add_samples(struct list *list) {
    for (uint64_t row = 0; row < list->count; row++) {
        const struct found *found = &list->found[row];
        const struct csv_cell *cell = file_cell(list, row);
        char name[PATH_MAX];
        uint32_t wrong = 0;
        snprintf(name, sizeof name, "%.*s", (int)min_u64(cell->bytes, sizeof name - 1), cell->text);
        if (error_is_lack(found->err))
            return builder_refuse_open(list->builder, found->err, name);
        if (found->err == -EAGAIN)
            return refuse_for_now(list, found->line, name);
        if (found->err) {
            int err =
                spoil_row(list, found->err, found->line, cell->text, cell->bytes, wanted_instead(found->err));
            if (err)
                return err;
            continue;
        }
        const struct folder_sample sample = {.name = name,
                                             .path = found->path ? found->path : name,
                                             .written_ns = found->written_ns,
                                             .root = found->root,
                                             .bytes = found->bytes,
                                             .cells = &list->cells[row * list->width]};
        int err = folder_table_add(list->table, &sample, &wrong);
        if (err == -ENOMEM)
            return builder_out_of_memory(list->builder);
        if (err) {
            char sentence[100];
            const struct folder_field *field = &list->table->fields->fields[wrong];
            snprintf(sentence, sizeof sentence, ", wanted a number of type %s for field %s",
                     dtype_name(field->value.dtype), field->value.name);
            err = spoil_row(list, err, found->line, sample.cells[wrong].text, sample.cells[wrong].bytes,
                            sentence);
        }
        if (err)
            return err;
    }
    return 0;
}

int folder_list_read(struct builder *builder, const struct folder_roots *roots,
                     const struct source_file *file, struct folder_table *table) {
    struct list list CLEANUP(release) = {.builder = builder, .roots = roots, .file = file, .table = table};
    builder->key = "csv";
    if (file->size > MOST_BYTES)
        return builder_refuse(builder, -EFBIG, file->path, "found %" PRIu64 " bytes, wanted at most 4 GiB",
                              file->size);
    list.text = malloc(file->size);
    if (!list.text)
        return builder_out_of_memory(builder);
    int err = builder_read(builder, file, list.text, file->size, 0, "its rows");
    if (!err)
        err = parse(&list);
    if (err)
        return err;
    scan_in_threads(find_files, &list, divide_up(list.count, ROWS_AT_ONCE));
    err = add_samples(&list);
    if (!err)
        builder->key = "path";
    return err;
}
