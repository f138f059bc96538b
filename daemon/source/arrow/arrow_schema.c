#include "daemon/source/arrow/arrow_schema.h"

#include <stdlib.h>

#include "base/dtype.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/source/arrow/arrow_format.h"

#define VARIADIC UINT32_MAX // buffers: two, and then any number

// What a type is to a reader.
struct type {
    const char *name;
    enum arrow_kind kind;
    uint32_t dtype;
    uint32_t buffers; // of the field itself
};

static struct type number(uint32_t dtype, const char *name) {
    return (struct type){name, ARROW_NUMBER, dtype, 2};
}

static struct type integer(ns(Int_table_t) type) {
    static const struct {
        int bits;
        struct type types[2]; // unsigned, signed
    } sizes[] = {
        {8, {{"uint8", ARROW_NUMBER, DTYPE_U8, 2}, {"int8", ARROW_NUMBER, DTYPE_I8, 2}}},
        {16, {{"uint16", ARROW_NUMBER, DTYPE_U16, 2}, {"int16", ARROW_NUMBER, DTYPE_I16, 2}}},
        {32, {{"uint32", ARROW_NUMBER, DTYPE_U32, 2}, {"int32", ARROW_NUMBER, DTYPE_I32, 2}}},
        {64, {{"uint64", ARROW_NUMBER, DTYPE_U64, 2}, {"int64", ARROW_NUMBER, DTYPE_I64, 2}}},
    };
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        if (ns(Int_bitWidth)(type) == sizes[i].bits)
            return sizes[i].types[ns(Int_is_signed)(type) != 0];
    return (struct type){"an integer of odd size", ARROW_OTHER, 0, 2};
}

static struct type floating(ns(FloatingPoint_table_t) type) {
    switch (ns(FloatingPoint_precision)(type)) {
    case ns(Precision_HALF):
        return number(DTYPE_F16, "float16");
    case ns(Precision_SINGLE):
        return number(DTYPE_F32, "float32");
    case ns(Precision_DOUBLE):
        return number(DTYPE_F64, "float64");
    default:
        return (struct type){"a float of odd size", ARROW_OTHER, 0, 2};
    }
}

static struct type date(ns(Date_table_t) type) {
    return ns(Date_unit)(type) == ns(DateUnit_DAY) ? number(DTYPE_I32, "date32")
                                                   : number(DTYPE_I64, "date64");
}

static struct type time_of_day(ns(Time_table_t) type) {
    return ns(Time_bitWidth)(type) == 64 ? number(DTYPE_I64, "time64") : number(DTYPE_I32, "time32");
}

static struct type union_type(ns(Union_table_t) type, bool old_unions) {
    uint32_t buffers = ns(Union_mode)(type) == ns(UnionMode_Dense) ? 2 : 1;
    return (struct type){"union", ARROW_OTHER, 0, buffers + old_unions};
}

// Types that have no parameters that matter here.
static bool plain_type(int kind, struct type *type) {
    static const struct {
        int kind;
        struct type type;
    } types[] = {
        {ns(Type_Null), {"null", ARROW_OTHER, 0, 0}},
        {ns(Type_Binary), {"binary", ARROW_BINARY, 0, 3}},
        {ns(Type_Utf8), {"string", ARROW_BINARY, 0, 3}},
        {ns(Type_LargeBinary), {"large_binary", ARROW_LARGE_BINARY, 0, 3}},
        {ns(Type_LargeUtf8), {"large_string", ARROW_LARGE_BINARY, 0, 3}},
        {ns(Type_BinaryView), {"binary_view", ARROW_OTHER, 0, VARIADIC}},
        {ns(Type_Utf8View), {"string_view", ARROW_OTHER, 0, VARIADIC}},
        {ns(Type_Bool), {"bool", ARROW_BOOL, DTYPE_BOOL, 2}},
        {ns(Type_Decimal), {"decimal", ARROW_OTHER, 0, 2}},
        {ns(Type_Timestamp), {"timestamp", ARROW_NUMBER, DTYPE_I64, 2}},
        {ns(Type_Duration), {"duration", ARROW_NUMBER, DTYPE_I64, 2}},
        {ns(Type_Interval), {"interval", ARROW_OTHER, 0, 2}},
        {ns(Type_List), {"list", ARROW_LIST, 0, 2}},
        {ns(Type_LargeList), {"large_list", ARROW_LARGE_LIST, 0, 2}},
        {ns(Type_Map), {"map", ARROW_OTHER, 0, 2}},
        {ns(Type_ListView), {"list_view", ARROW_OTHER, 0, 3}},
        {ns(Type_LargeListView), {"large_list_view", ARROW_OTHER, 0, 3}},
        {ns(Type_Struct_), {"struct", ARROW_STRUCT, 0, 1}},
        {ns(Type_RunEndEncoded), {"run_end_encoded", ARROW_OTHER, 0, 0}},
    };
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (types[i].kind == kind) {
            *type = types[i].type;
            return true;
        }
    return false;
}

// Sets *size of types that have one. False: not a type that Arrow knows.
static bool type_of(ns(Field_table_t) field, bool old_unions, struct type *type, int32_t *size) {
    const void *parameters = ns(Field_type)(field);
    int kind = parameters ? ns(Field_type_type)(field) : ns(Type_NONE);
    *size = 0;
    if (plain_type(kind, type))
        return true;
    switch (kind) {
    case ns(Type_Int):
        *type = integer(parameters);
        return true;
    case ns(Type_FloatingPoint):
        *type = floating(parameters);
        return true;
    case ns(Type_Date):
        *type = date(parameters);
        return true;
    case ns(Type_Time):
        *type = time_of_day(parameters);
        return true;
    case ns(Type_Union):
        *type = union_type(parameters, old_unions);
        return true;
    case ns(Type_FixedSizeBinary):
        *type = (struct type){"fixed_size_binary", ARROW_FIXED_BINARY, DTYPE_U8, 2};
        *size = ns(FixedSizeBinary_byteWidth)(parameters);
        return true;
    case ns(Type_FixedSizeList):
        *type = (struct type){"fixed_size_list", ARROW_FIXED_LIST, 0, 1};
        *size = ns(FixedSizeList_listSize)(parameters);
        return true;
    default:
        return false;
    }
}

// ---- Fields ------------------------------------------------------------------------------------------------

struct reading {
    struct arrow_schema *schema;
    bool old_unions;
    struct error *error;
};

static struct arrow_field *add_field(struct arrow_schema *schema) {
    if (schema->count == schema->room) {
        uint32_t room = schema->room ? schema->room * 2 : 16;
        void *grown = reallocarray(schema->fields, room, sizeof *schema->fields);
        if (!grown)
            return NULL;
        schema->fields = grown;
        schema->room = room;
    }
    return &schema->fields[schema->count++];
}

static int read_fields(struct reading *reading, ns(Field_vec_t) fields, uint32_t parent);

static int read_field(struct reading *reading, ns(Field_table_t) table, uint32_t parent) {
    struct arrow_schema *schema = reading->schema;
    const char *name = ns(Field_name)(table) ? ns(Field_name)(table) : "";
    struct type type;
    int32_t size;
    if (!type_of(table, reading->old_unions, &type, &size) || size < 0)
        return error_set(reading->error, -ENOTSUP,
                         "found column \"%s\" with a type that Arrow does not define", name);
    bool encoded = ns(Field_dictionary)(table) != NULL;
    if (encoded) // what is in a batch are integers
        type = (struct type){"dictionary", ARROW_DICTIONARY, 0, 2};
    if (schema->count == ARROW_MAX_FIELDS)
        return error_set(reading->error, -EFBIG, "found too many columns, wanted at most %u",
                         ARROW_MAX_FIELDS);
    uint32_t index = schema->count;
    struct arrow_field *field = add_field(schema);
    if (!field)
        return error_set(reading->error, -ENOMEM, "out of memory");
    *field = (struct arrow_field){.name = name,
                                  .type = type.name,
                                  .kind = type.kind,
                                  .dtype = type.dtype,
                                  .size = (uint32_t)size,
                                  .parent = parent,
                                  .buffer = schema->buffers,
                                  .variadic = schema->variadic};
    schema->variadic += type.buffers == VARIADIC;
    schema->buffers += type.buffers == VARIADIC ? 2 : type.buffers;
    return encoded ? 0 : read_fields(reading, ns(Field_children)(table), index);
}

// As deep as the verifier went.
static int read_fields(struct reading *reading, ns(Field_vec_t) fields, uint32_t parent) {
    size_t count = ns(Field_vec_len)(fields);
    int err = 0;
    for (size_t i = 0; i < count && !err; i++)
        err = read_field(reading, ns(Field_vec_at)(fields, i), parent);
    return err;
}

int arrow_schema_read(const void *header, bool old_unions, struct arrow_schema *schema, struct error *error) {
    struct reading reading = {schema, old_unions, error};
    *schema = (struct arrow_schema){0};
    if (ns(Schema_endianness)(header) != ns(Endianness_Little))
        return error_set(error, -ENOTSUP, "found big-endian values, wanted little-endian");
    return read_fields(&reading, ns(Schema_fields)(header), ARROW_NO_FIELD);
}

void arrow_schema_release(struct arrow_schema *schema) {
    free(schema->fields);
    *schema = (struct arrow_schema){0};
}
