#include "daemon/source/tokens/window_fields.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_pad.h"
#include "daemon/source/build/index_writer.h"
#include "daemon/source/tokens/boundaries.h"

static int add_field(struct builder *builder, const char *name, uint32_t dtype, uint32_t *field) {
    const uint64_t window = builder->config->pack + 1;
    return builder_add_field(builder, name, dtype, 1, &window, field);
}

static int add_column(struct builder *builder, const char *name, uint32_t dtype, enum column_kind kind) {
    struct dataset_layout *layout = builder->dataset->layout;
    uint32_t field;
    int err = add_field(builder, name, dtype, &field);
    if (!err)
        layout->columns[layout->column_count++] =
            (struct dataset_column){.field = field,
                                    .kind = kind,
                                    .offset = sizeof(struct dataset_index),
                                    .bytes = layout->fields[field].sample_bytes};
    return err;
}

int window_fields_add(struct builder *builder, const char *name, uint32_t dtype, bool across) {
    static const char *const others[] = {"position", "document", "cu_seqlens"};
    uint32_t field;
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (strcmp(name, others[i]) == 0)
            return builder_refuse(builder, -EINVAL, NULL,
                                  "found the name of a field that pack adds, wanted another one, such as"
                                  " tokens");
    int err =
        across ? add_column(builder, name, dtype, COLUMN_WINDOWS) : add_field(builder, name, dtype, &field);
    if (!err)
        err = add_column(builder, "position", DTYPE_I32, COLUMN_POSITIONS);
    if (!err)
        err = add_column(builder, "document", DTYPE_I32, COLUMN_DOCUMENTS);
    if (err)
        return err;
    return builder->config->cu_seqlens ? boundaries_add_field(builder) : builder_check_pads(builder, NULL, 0);
}
