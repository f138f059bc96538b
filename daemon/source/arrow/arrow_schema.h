// The columns of an Arrow file.
//
// Files may be hostile: how many fields are looked at is bounded.
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_SCHEMA_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_SCHEMA_H

#include "base/error.h"

#include <stdint.h>

#define ARROW_MAX_FIELDS 65536u // of a schema, with those inside of others
#define ARROW_NO_FIELD   UINT32_MAX

enum arrow_kind {
    ARROW_OTHER,        // one that is not served
    ARROW_DICTIONARY,   // any type, dictionary-encoded
    ARROW_NUMBER,       // of a dtype
    ARROW_BOOL,         // one bit each
    ARROW_BINARY,       // offsets of 4 bytes, then bytes; also text
    ARROW_LARGE_BINARY, // ... of 8 bytes
    ARROW_LIST,         // offsets of 4 bytes, then the values of a child
    ARROW_LARGE_LIST,   // ... of 8 bytes
    ARROW_FIXED_BINARY, // `size` bytes each
    ARROW_FIXED_LIST,   // `size` values of a child each
    ARROW_STRUCT,
};

// A column, or a part of one. Fields come in the order in which record batches describe them: parents before children.
struct arrow_field {
    const char *name;
    const char *type; // for people: "int64"
    enum arrow_kind kind;
    uint32_t dtype;    // ARROW_NUMBER
    uint32_t size;     // of fixed sizes
    uint32_t parent;   // or ARROW_NO_FIELD
    uint32_t buffer;   // its first buffer in a batch, not counting those that differ from batch to batch
    uint32_t variadic; // fields before it that have such buffers
};

struct arrow_schema {
    struct arrow_field *fields;
    uint32_t count, room;
    uint32_t buffers;  // in a batch, except for those that differ from batch to batch
    uint32_t variadic; // fields that have such buffers
};

// `header` is that of a verified message, or the schema of a footer, where the fields' names stay. To be released, also
// on failure.
int arrow_schema_read(const void *header, bool old_unions, struct arrow_schema *schema, struct error *error);
void arrow_schema_release(struct arrow_schema *schema);

#endif
