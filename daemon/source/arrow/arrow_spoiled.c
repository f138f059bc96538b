#include "daemon/source/arrow/arrow_spoiled.h"

#include <inttypes.h>
#include <string.h>

#include "base/sentence.h"

_Static_assert(1 + ARROW_FAULTS * RING_MAX_FIELDS <= UINT8_MAX, "a fault and its field fit in a byte");

bool arrow_spoil(struct arrow_spoiled *spoiled, uint64_t count, uint64_t row, uint32_t field,
                 enum arrow_fault fault) {
    if (!spoiled->faults)
        spoiled->faults = calloc(count, sizeof *spoiled->faults);
    if (spoiled->faults && !spoiled->faults[row])
        spoiled->faults[row] = (uint8_t)(1 + ARROW_FAULTS * field + fault);
    return spoiled->faults != NULL;
}

// Extents keep their block, which must be one of the file.
static void blank(const struct arrow_fields *fields, uint8_t *row) {
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct arrow_want *want = &fields->fields[i];
        uint8_t *entry = row + want->index.row_offset;
        struct index_extent extent;
        if (want->index.column.kind == COLUMN_VALUES) {
            memset(entry, 0, want->index.column.bytes);
            continue;
        }
        memcpy(&extent, entry, sizeof extent);
        extent.offset = extent.bytes = 0;
        memcpy(entry, &extent, sizeof extent);
    }
}

static bool note(struct arrow_spoiled *spoiled, const struct arrow_fields *fields, uint8_t fault,
                 uint64_t row) {
    const struct arrow_want *want = &fields->fields[(fault - 1) / ARROW_FAULTS];
    char reason[512];
    if ((fault - 1) % ARROW_FAULTS == ARROW_FAULT_NULL)
        sentence_write(reason, sizeof reason, "found a null in row %" PRIu64 " of column \"%s\", wanted none",
                       row, want->path);
    else
        sentence_write(reason, sizeof reason,
                       "found more or fewer values in row %" PRIu64 " of column \"%s\", wanted %" PRIu64
                       " in each",
                       row, want->path, want->shape[0]);
    return incomplete_add(&spoiled->incomplete, row, reason);
}

bool arrow_spoiled_end(struct arrow_spoiled *spoiled, const struct arrow_fields *fields,
                       struct index_rows *rows, uint64_t count) {
    const uint64_t first = rows->count - count;
    bool noted = true;
    for (uint64_t i = 0; spoiled->faults && i < count && noted; i++) {
        if (!spoiled->faults[i])
            continue;
        blank(fields, rows->rows + (first + i) * fields->row_bytes);
        noted = note(spoiled, fields, spoiled->faults[i], first + i);
    }
    arrow_spoiled_forget(spoiled);
    return noted;
}

void arrow_spoiled_forget(struct arrow_spoiled *spoiled) {
    free(spoiled->faults);
    spoiled->faults = NULL;
}
