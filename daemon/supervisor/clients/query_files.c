#include "daemon/supervisor/clients/query_files.h"

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/dataset/dataset.h"
#include "daemon/on_error.h"
#include "daemon/supervisor/clients/admission.h"
#include "daemon/supervisor/clients/query_page.h"

struct file_page {
    struct page page;
    Feedd__File rows[PAGE_PATHS];
    Feedd__File *list[PAGE_PATHS];
    Feedd__File__Extent extents[PAGE_PATHS][RING_MAX_FIELDS];
    Feedd__File__Extent *extent_lists[PAGE_PATHS][RING_MAX_FIELDS];
};

static void add_file(struct file_page *files, const struct dataset *dataset,
                     const struct dataset_stream *stream, uint32_t index) {
    if (!page_takes(&files->page))
        return;
    uint32_t place = files->page.count - 1;
    const struct dataset_file *file = &dataset->layout->files[index];
    Feedd__File *row = &files->rows[place];
    feedd__file__init(row);
    row->path = dataset->paths[index];
    row->first_sample = file->first_sample;
    row->samples = file->samples;
    row->data_offset = file->data_offset;
    row->record_bytes = stream->record_bytes;
    for (uint32_t i = 0; i < stream->extent_count; i++) {
        Feedd__File__Extent *extent = &files->extents[place][i];
        feedd__file__extent__init(extent);
        extent->field = stream->extents[i].field;
        extent->offset = stream->extents[i].offset;
        extent->bytes = stream->extents[i].bytes;
        extent->transformed = dataset->transforms[extent->field] != NULL;
        files->extent_lists[place][i] = extent;
    }
    row->n_extents = stream->extent_count;
    row->extents = files->extent_lists[place];
    files->list[place] = row;
}

// False: all samples.
static bool describe_selection(const struct selection *selection, Feedd__Selection *row) {
    feedd__selection__init(row);
    row->kind = selection->kind;
    row->of = selection->of;
    row->first = selection->first;
    row->count = selection->count;
    row->seed = selection->seed;
    return selection->kind != SELECTION_ALL;
}

struct columns {
    Feedd__Column rows[RING_MAX_FIELDS];
    Feedd__Column *list[RING_MAX_FIELDS];
};

static void describe_columns(const struct dataset *dataset, struct columns *columns, Feedd__Answer *answer) {
    static const Feedd__Column__Kind kinds[] = {[COLUMN_EXTENTS] = FEEDD__COLUMN__KIND__EXTENTS,
                                                [COLUMN_VALUES] = FEEDD__COLUMN__KIND__VALUES,
                                                [COLUMN_POSITIONS] = FEEDD__COLUMN__KIND__POSITIONS,
                                                [COLUMN_DOCUMENTS] = FEEDD__COLUMN__KIND__DOCUMENTS,
                                                [COLUMN_TEXT] = FEEDD__COLUMN__KIND__WITHIN,
                                                [COLUMN_BLOCKS] = FEEDD__COLUMN__KIND__BLOCKS,
                                                [COLUMN_WINDOWS] = FEEDD__COLUMN__KIND__WINDOWS};
    answer->n_columns = dataset->layout->column_count;
    answer->columns = columns->list;
    for (uint32_t i = 0; i < dataset->layout->column_count; i++) {
        const struct dataset_column *column = &dataset->layout->columns[i];
        Feedd__Column *row = columns->list[i] = &columns->rows[i];
        feedd__column__init(row);
        row->field = column->field;
        bool paths = dataset->layout->folder_count && column->kind == COLUMN_EXTENTS;
        row->kind = paths ? FEEDD__COLUMN__KIND__NAMES : kinds[column->kind];
        row->text = dataset->layout->text_offset;
        if (column->kind == COLUMN_BLOCKS || column->kind == COLUMN_WINDOWS) {
            row->blocks = dataset->layout->blocks.offset;
            row->block_count = dataset->layout->blocks.count;
        }
        row->across = column->stretches != 0;
        row->offset = column->offset;
        row->bytes = column->bytes;
        row->pad = column->pad;
        row->ragged = dataset->layout->fields[column->field].ragged != 0;
        row->transformed = dataset->transforms[column->field] != NULL;
    }
}

void query_files(struct session *session, const char *name, uint32_t start,
                 void (*send)(struct session *session, Feedd__Answer *answer)) {
    const struct dataset *dataset;
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    struct file_page files = {.page = {.start = start, .most = PAGE_PATHS}};
    struct error error = {0};
    int err = admission_find(session, name, &dataset, &error);
    if (err) {
        session_refuse(session, err, error.text);
        return;
    }
    for (uint32_t i = 0; i < dataset->layout->stream_count; i++) {
        const struct dataset_stream *stream = &dataset->layout->streams[i];
        // Rows of earlier pages are skipped at once: there may be very many, and a client may keep asking.
        uint32_t passed = (uint32_t)min_u64(start - min_u64(start, files.page.seen), stream->file_count);
        files.page.seen += passed;
        for (uint32_t file = passed; file < stream->file_count && !files.page.next; file++)
            add_file(&files, dataset, stream, stream->first_file + file);
    }
    answer.next = files.page.next;
    Feedd__Selection selection;
    if (describe_selection(&dataset->layout->selection, &selection))
        answer.selection = &selection;
    answer.replaces = dataset->on_error == ON_ERROR_REPLACE;
    answer.n_files = files.page.count;
    answer.files = files.list;
    struct columns columns;
    describe_columns(dataset, &columns, &answer);
    send(session, &answer);
}
