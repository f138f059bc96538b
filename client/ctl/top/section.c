#include "client/ctl/top/section.h"

#include <string.h>

#include "base/sizes.h"

struct top_row *section_add(struct section *section, uint64_t key, uint64_t feed) {
    if (section->count == section->room) {
        uint32_t room = section->room ? 2 * section->room : 16;
        struct top_row *rows = realloc(section->rows, room * sizeof *rows);
        if (!rows)
            return NULL;
        section->rows = rows;
        section->room = room;
    }
    struct top_row *row = &section->rows[section->count++];
    *row = (struct top_row){.key = key, .feed = feed};
    return row;
}

void section_clear(struct section *section) {
    section->count = 0;
}

void section_free(struct section *section) {
    free(section->rows);
    section->rows = NULL;
    section->count = section->room = 0;
}

// ---- Order -----------------------------------------------------------------------------------------

static int compare(const void *left, const void *right, void *context) {
    const struct section *section = context;
    const struct top_row *one = left, *two = right;
    const struct top_cell *a = &one->cells[section->sort], *b = &two->cells[section->sort];
    int order = a->value < b->value ? -1 : a->value > b->value;
    if (section->sort == 0 && one->idle != two->idle)
        return one->idle ? 1 : -1;
    if (order == 0)
        order = strcmp(a->text, b->text);
    if (order == 0)
        return one->key < two->key ? -1 : one->key > two->key; // rows that are alike keep their places
    return section->descending ? -order : order;
}

void section_sort(struct section *section) {
    if (section->count)
        qsort_r(section->rows, section->count, sizeof *section->rows, compare, section);
}

void section_sort_next(struct section *section) {
    do
        section->sort = (section->sort + 1) % section->column_count;
    while (strcmp(section->columns[section->sort].title, "HISTORY") == 0);
    // Names from A, numbers from the largest.
    section->descending = section->columns[section->sort].right && section->sort > 0;
    section_sort(section);
}

// ---- Picking ---------------------------------------------------------------------------------------

uint32_t section_picked(const struct section *section) {
    for (uint32_t i = 0; i < section->count; i++)
        if (section->rows[i].key == section->picked)
            return i;
    return section->count ? 0 : UINT32_MAX;
}

void section_move(struct section *section, int32_t places) {
    uint32_t picked = section_picked(section);
    if (picked == UINT32_MAX)
        return;
    int64_t place = (int64_t)picked + places, last = (int64_t)section->count - 1;
    section->picked = section->rows[place < 0 ? 0 : place > last ? last : place].key;
}

// ---- Printing --------------------------------------------------------------------------------------

static void scroll_to(struct section *section, uint32_t lines, bool scroll) {
    uint32_t picked = section_picked(section);
    uint32_t last = section->count > lines ? section->count - lines : 0;
    if (section->first > last)
        section->first = last;
    if (!scroll || picked == UINT32_MAX)
        return;
    if (picked < section->first)
        section->first = picked;
    if (picked >= section->first + lines)
        section->first = picked - lines + 1;
}

// "LOADERS 3-9 of 12" in place of the first column's title, and a mark at the column that rows are sorted by.
static void make_titles(const struct section *section, uint32_t shown, struct column *columns,
                        char titles[][48]) {
    for (uint32_t i = 0; i < section->column_count; i++) {
        bool sorted = i == section->sort;
        columns[i] = section->columns[i];
        if (i == 0 && shown < section->count)
            snprintf(titles[i], sizeof titles[i], "%s %u-%u of %u", section->title, section->first + 1,
                     section->first + shown, section->count);
        else
            snprintf(titles[i], sizeof titles[i], "%s%s", i == 0 ? section->title : columns[i].title,
                     !sorted               ? ""
                     : section->descending ? " v"
                                           : " ^");
        columns[i].title = titles[i];
    }
}

uint32_t section_print(struct section *section, uint32_t width, uint32_t lines, bool scroll,
                       uint32_t *picked_line, FILE *out) {
    struct column columns[SECTION_COLUMNS];
    char titles[SECTION_COLUMNS][48];
    uint32_t shown = (uint32_t)min_u64(section->count, lines);
    scroll_to(section, shown, scroll && shown);
    make_titles(section, shown, columns, titles);
    struct table table = {.columns = columns, .column_count = section->column_count};
    for (uint32_t i = 0; i < shown; i++) {
        const char *texts[SECTION_COLUMNS];
        for (uint32_t column = 0; column < section->column_count; column++)
            texts[column] = section->rows[section->first + i].cells[column].text;
        if (table_add(&table, texts) < 0)
            break;
    }
    shown = table.row_count;
    uint32_t picked = section_picked(section);
    *picked_line = picked - section->first < shown ? picked - section->first : UINT32_MAX;
    table_print(&table, width, out);
    table_free(&table);
    return shown;
}
