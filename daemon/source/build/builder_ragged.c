#include "daemon/source/build/builder_ragged.h"

#include <inttypes.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/dataset/column_size.h"
#include "daemon/dataset/size_table.h"
#include "daemon/source/build/builder_index.h"

static int sum_up(struct builder *builder, struct dataset_column *column) {
    struct dataset *dataset = builder->dataset;
    const struct ring_field *field = &dataset->layout->fields[column->field];
    uint64_t samples = dataset_stored_samples(dataset->layout), item = dtype_bytes(field->dtype);
    struct size_summary *sizes = dataset->sizes[column->field] = calloc(1, sizeof *sizes);
    if (!sizes)
        return builder_out_of_memory(builder);
    for (uint64_t sample = 0; sample < samples; sample++) {
        uint64_t bytes = column_sample_bytes(column, dataset->index, sample);
        if (bytes & (item - 1)) // a power of two; a division would take as long as all the rest
            return builder_refuse(builder, -EINVAL, NULL,
                                  "found %" PRIu64 " bytes in sample %" PRIu64
                                  " of %s, wanted whole values of %s",
                                  bytes, sample, field->name, dtype_name(field->dtype));
        if (!dataset_is_incomplete(dataset->layout, dataset->index, sample))
            size_summary_add(sizes, bytes);
    }
    column->bytes = sizes->largest;
    column->mean = size_summary_mean(sizes);
    return 0;
}

void builder_size_tables(struct builder *builder) {
    struct dataset *dataset = builder->dataset;
    const struct dataset_layout *layout = dataset->layout;
    const uint64_t samples = dataset_stored_samples(layout);
    for (uint32_t i = 0; i < layout->column_count; i++) {
        const struct dataset_column *column = &layout->columns[i];
        struct size_table *shared = dataset->base ? dataset->base->size_tables[column->field] : NULL;
        if (layout->fields[column->field].ragged)
            dataset->size_tables[column->field] =
                shared ? shared : size_table_make(column, dataset->index, samples);
    }
}

int builder_ragged(struct builder *builder) {
    struct dataset_layout *layout = builder->dataset->layout;
    bool any = false;
    int err = 0;
    for (uint32_t i = 0; i < layout->column_count && !err; i++) {
        struct dataset_column *column = &layout->columns[i];
        if (!layout->fields[column->field].ragged)
            continue;
        any = true;
        err = builder_index_map(builder);
        if (!err && !builder->dataset->sizes[column->field]) // a view has those of its dataset
            err = sum_up(builder, column);
    }
    if (!any)
        builder_index_unmap(builder); // whoever checked a kept one has mapped it
    return err;
}
