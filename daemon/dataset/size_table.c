#include "daemon/dataset/size_table.h"

#include <stdlib.h>

#include "daemon/dataset/column_size.h"

static struct size_table *allocate(uint64_t samples, uint64_t width) {
    if (samples > SIZE_TABLE_MOST / width)
        return NULL;
    struct size_table *table = malloc(sizeof *table + samples * width);
    if (table)
        table->wide = width == sizeof table->wide_sizes[0];
    return table;
}

static struct size_table *make_wide(const struct dataset_column *column, const uint8_t *index,
                                    uint64_t samples) {
    struct size_table *table = allocate(samples, sizeof(uint32_t));
    for (uint64_t i = 0; table && i < samples; i++)
        table->wide_sizes[i] = (uint32_t)column_sample_bytes(column, index, i);
    return table;
}

struct size_table *size_table_make(const struct dataset_column *column, const uint8_t *index,
                                   uint64_t samples) {
    struct size_table *table = allocate(samples, sizeof(uint16_t));
    uint16_t *narrow_sizes = table ? (void *)table->wide_sizes : NULL;
    for (uint64_t i = 0; table && i < samples; i++) {
        const uint64_t bytes = column_sample_bytes(column, index, i);
        if (bytes > UINT16_MAX) {
            free(table);
            return make_wide(column, index, samples);
        }
        narrow_sizes[i] = (uint16_t)bytes;
    }
    return table;
}

uint64_t size_table_sum(const struct size_table *table, const uint64_t *samples, uint32_t count) {
    const uint32_t *wide_sizes = table->wide_sizes;
    const uint16_t *narrow_sizes = (const void *)wide_sizes;
    uint64_t bytes = 0;
    for (uint32_t i = 0; table->wide && i < count; i++)
        bytes += samples[i] == UINT64_MAX ? 0 : wide_sizes[samples[i]];
    for (uint32_t i = 0; !table->wide && i < count; i++)
        bytes += samples[i] == UINT64_MAX ? 0 : narrow_sizes[samples[i]];
    return bytes;
}

void size_table_prefetch(const struct size_table *table, const uint64_t *samples, uint32_t count) {
    const uint8_t *sizes = (const uint8_t *)table->wide_sizes;
    const uint64_t width = table->wide ? sizeof(uint32_t) : sizeof(uint16_t);
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(sizes + (samples[i] == UINT64_MAX ? 0 : samples[i]) * width);
}
