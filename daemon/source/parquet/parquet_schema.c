#include "daemon/source/parquet/parquet_schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"

#define MOST_DEPTH 64u

struct walk {
    const struct parquet_footer *footer;
    struct parquet_schema *schema;
    uint32_t next; // element
    uint32_t depth;
    struct error *error;
};

// Levels of what an element is in, and the field that it is in.
struct place {
    uint32_t parent;
    struct parquet_levels levels;
};

struct type {
    const char *name;
    enum arrow_kind kind;
    uint32_t dtype;
    uint32_t size;
};

// ---- Types ---------------------------------------------------------------------------------------------------

// An integer of `bits`, stored as one of 32 or 64.
static struct type integer(int32_t bits, bool is_signed, int32_t stored) {
    static const struct {
        int32_t bits;
        struct type types[2]; // unsigned, signed
    } sizes[] = {
        {8, {{"uint8", ARROW_NUMBER, DTYPE_U8, 0}, {"int8", ARROW_NUMBER, DTYPE_I8, 0}}},
        {16, {{"uint16", ARROW_NUMBER, DTYPE_U16, 0}, {"int16", ARROW_NUMBER, DTYPE_I16, 0}}},
        {32, {{"uint32", ARROW_NUMBER, DTYPE_U32, 0}, {"int32", ARROW_NUMBER, DTYPE_I32, 0}}},
        {64, {{"uint64", ARROW_NUMBER, DTYPE_U64, 0}, {"int64", ARROW_NUMBER, DTYPE_I64, 0}}},
    };
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        if (sizes[i].bits == bits && (bits == 64) == (stored == 64))
            return sizes[i].types[is_signed];
    return (struct type){"an integer of odd size", ARROW_OTHER, 0, 0};
}

static struct type integer_type(const struct parquet_element *element, int32_t stored) {
    if (element->logical == PARQUET_LOGICAL_INTEGER)
        return integer(element->bits, element->is_signed, stored);
    const int32_t which = element->converted - PARQUET_CONVERTED_UINT_8;
    if (element->converted >= PARQUET_CONVERTED_UINT_8 && element->converted <= PARQUET_CONVERTED_INT_64)
        return integer(8 << which % 4, which >= 4, stored);
    return integer(stored, true, stored); // also dates and times, as numbers
}

static struct type fixed_type(const struct parquet_element *element) {
    if (element->logical == PARQUET_LOGICAL_FLOAT16 && element->length == 2)
        return (struct type){"float16", ARROW_NUMBER, DTYPE_F16, 0};
    if (element->converted == PARQUET_CONVERTED_INTERVAL || element->length <= 0)
        return (struct type){"interval", ARROW_OTHER, 0, 0};
    return (struct type){"fixed_size_binary", ARROW_FIXED_BINARY, DTYPE_U8, (uint32_t)element->length};
}

static struct type type_of(const struct parquet_element *element) {
    if (element->logical == PARQUET_LOGICAL_DECIMAL || element->converted == PARQUET_CONVERTED_DECIMAL)
        return (struct type){"decimal", ARROW_OTHER, 0, 0};
    switch (element->physical) {
    case PARQUET_BOOLEAN:
        return (struct type){"bool", ARROW_BOOL, DTYPE_BOOL, 0};
    case PARQUET_INT32:
        return integer_type(element, 32);
    case PARQUET_INT64:
        return integer_type(element, 64);
    case PARQUET_INT96:
        return (struct type){"int96", ARROW_OTHER, 0, 0};
    case PARQUET_FLOAT:
        return (struct type){"float32", ARROW_NUMBER, DTYPE_F32, 0};
    case PARQUET_DOUBLE:
        return (struct type){"float64", ARROW_NUMBER, DTYPE_F64, 0};
    case PARQUET_BYTE_ARRAY:
        return (struct type){"binary", ARROW_BINARY, DTYPE_U8, 0};
    case PARQUET_FIXED:
        return fixed_type(element);
    default:
        return (struct type){"an unknown type", ARROW_OTHER, 0, 0};
    }
}

// ---- Fields --------------------------------------------------------------------------------------------------

// Returns its number. There is room: an element makes at most two fields.
static uint32_t add_field(struct walk *walk, const struct parquet_element *element, struct type type,
                          const struct place *place) {
    struct parquet_schema *schema = walk->schema;
    const uint32_t index = schema->columns.count++;
    schema->columns.fields[index] = (struct arrow_field){.name = element->name,
                                                         .type = type.name,
                                                         .kind = type.kind,
                                                         .dtype = type.dtype,
                                                         .size = type.size,
                                                         .parent = place->parent};
    schema->fields[index] = (struct parquet_field){schema->leaf_count, place->levels.def};
    return index;
}

static int walk_element(struct walk *walk, struct place place);

// All of them are in `place`.
static int walk_children(struct walk *walk, uint32_t count, const struct place *place) {
    int err = 0;
    for (uint32_t i = 0; i < count && !err; i++)
        err = walk_element(walk, *place);
    return err;
}

static int walk_content(struct walk *walk, const struct parquet_element *element, const struct place *place);

// A repeated element by itself is a list, whose values it describes.
static int walk_repeated(struct walk *walk, const struct parquet_element *element, struct place place) {
    place.parent = add_field(walk, element, (struct type){"list", ARROW_LIST, 0, 0}, &place);
    place.levels.def++;
    place.levels.rep++;
    return walk_content(walk, element, &place);
}

static bool is_list(const struct parquet_element *element) {
    return element->children == 1 &&
           (element->logical == PARQUET_LOGICAL_LIST || element->converted == PARQUET_CONVERTED_LIST);
}

// Whether a repeated group is only there to be repeated: what is in it are the values, not a struct of one member. By
// the rules for older files.
static bool is_wrapper(const struct parquet_element *list, const struct parquet_element *repeated) {
    const size_t length = strlen(list->name);
    return repeated->children == 1 && strcmp(repeated->name, "array") != 0 &&
           (strncmp(repeated->name, list->name, length) != 0 ||
            strcmp(repeated->name + length, "_tuple") != 0);
}

static int walk_group(struct walk *walk, const struct parquet_element *element, struct place place) {
    static const struct type types[] = {{"struct", ARROW_STRUCT, 0, 0}, {"map", ARROW_OTHER, 0, 0}};
    const bool is_map =
        element->logical == PARQUET_LOGICAL_MAP || element->converted == PARQUET_CONVERTED_MAP;
    place.parent = add_field(walk, element, types[is_map], &place);
    return walk_children(walk, element->children, &place);
}

static int walk_list(struct walk *walk, const struct parquet_element *element, struct place place) {
    const struct parquet_element *repeated = &walk->footer->elements[walk->next];
    if (repeated->repetition != PARQUET_REPEATED)
        return walk_group(walk, element, place);
    walk->next++;
    place.parent = add_field(walk, element, (struct type){"list", ARROW_LIST, 0, 0}, &place);
    place.levels.def++;
    place.levels.rep++;
    return is_wrapper(element, repeated) ? walk_children(walk, 1, &place)
                                         : walk_content(walk, repeated, &place);
}

static void add_leaf(struct walk *walk, const struct parquet_element *element, const struct place *place) {
    add_field(walk, element, type_of(element), place);
    walk->schema->leaves[walk->schema->leaf_count++] = (struct parquet_leaf){element, place->levels};
}

// An element apart from how often it is there. Whatever is inside of another comes by here, so that the stack suffices.
static int walk_content(struct walk *walk, const struct parquet_element *element, const struct place *place) {
    int err = 0;
    if (walk->depth == MOST_DEPTH)
        return error_set(walk->error, -EFBIG, "found columns inside of each other, more than %u deep",
                         MOST_DEPTH);
    walk->depth++;
    if (is_list(element))
        err = walk_list(walk, element, *place);
    else if (element->children)
        err = walk_group(walk, element, *place);
    else
        add_leaf(walk, element, place);
    walk->depth--;
    return err;
}

static int walk_element(struct walk *walk, struct place place) {
    const struct parquet_element *element = &walk->footer->elements[walk->next++];
    if (element->repetition == PARQUET_REPEATED)
        return walk_repeated(walk, element, place);
    place.levels.def += element->repetition == PARQUET_OPTIONAL;
    return walk_content(walk, element, &place);
}

int parquet_schema_read(const struct parquet_footer *footer, struct parquet_schema *schema,
                        struct error *error) {
    struct walk walk = {.footer = footer, .schema = schema, .next = 1, .error = error};
    const struct place top = {.parent = ARROW_NO_FIELD};
    const size_t room = 2 * (size_t)footer->count;
    *schema = (struct parquet_schema){0};
    schema->columns.fields = calloc(room, sizeof *schema->columns.fields);
    schema->fields = calloc(room, sizeof *schema->fields);
    schema->leaves = calloc(footer->count, sizeof *schema->leaves);
    if (!schema->columns.fields || !schema->fields || !schema->leaves)
        return error_set(error, -ENOMEM, "out of memory");
    return walk_children(&walk, footer->elements[0].children, &top);
}

void parquet_schema_release(struct parquet_schema *schema) {
    arrow_schema_release(&schema->columns);
    free(schema->fields);
    free(schema->leaves);
    schema->fields = NULL;
    schema->leaves = NULL;
}
