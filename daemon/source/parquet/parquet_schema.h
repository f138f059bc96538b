// The columns of a Parquet file, as those of an Arrow file are described, and the leaves that have their values.
#ifndef FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_SCHEMA_H
#define FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_SCHEMA_H

#include "daemon/source/arrow/arrow_schema.h"
#include "parquet/footer.h"
#include "parquet/page.h"

// More about a field of the same number.
struct parquet_field {
    uint32_t leaf; // its own, or the first one inside of it
    uint32_t def;  // a value with a lower definition level is one of which this field is null
};

struct parquet_leaf {
    const struct parquet_element *element;
    struct parquet_levels levels;
};

struct parquet_schema {
    struct arrow_schema columns;
    struct parquet_field *fields;
    struct parquet_leaf *leaves;
    uint32_t leaf_count;
};

// Points into the footer. To be released, also on failure.
int parquet_schema_read(const struct parquet_footer *footer, struct parquet_schema *schema,
                        struct error *error);
void parquet_schema_release(struct parquet_schema *schema);

#endif
