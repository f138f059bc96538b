#include "parquet/footer.h"

#include <inttypes.h>
#include <string.h>

static int refuse_damage(struct error *error) {
    return error_set(error, -EINVAL, "found a damaged footer, which is not Parquet's metadata");
}

// ---- The schema ----------------------------------------------------------------------------------------------

static void read_integer_type(struct thrift *thrift, struct parquet_element *element) {
    struct thrift_field field = {0};
    while (thrift_next(thrift, &field)) {
        if (field.id == 1)
            element->bits = (int32_t)thrift_integer(thrift, field.type);
        else if (field.id == 2)
            element->is_signed = thrift_bool(thrift, field.type);
        else
            thrift_skip(thrift, field.type);
    }
}

// A union: the number of its one member says which type it is.
static void read_logical(struct thrift *thrift, struct parquet_element *element) {
    struct thrift_field field = {0};
    while (thrift_next(thrift, &field)) {
        element->logical = field.id;
        if (field.id == PARQUET_LOGICAL_INTEGER && thrift_struct(thrift, field.type))
            read_integer_type(thrift, element);
        else
            thrift_skip(thrift, field.type);
    }
}

// `name` is where the names of the schema are copied to, one after another.
static void read_element(struct thrift *thrift, struct parquet_element *element, char **name) {
    struct thrift_field field = {0};
    const uint8_t *bytes = NULL;
    uint32_t length = 0;
    int64_t children = 0;
    *element = (struct parquet_element){.physical = -1, .converted = PARQUET_CONVERTED_NONE};
    while (thrift_next(thrift, &field)) {
        if (field.id == 1)
            element->physical = (int32_t)thrift_integer(thrift, field.type);
        else if (field.id == 2)
            element->length = (int32_t)thrift_integer(thrift, field.type);
        else if (field.id == 3)
            element->repetition = (int32_t)thrift_integer(thrift, field.type);
        else if (field.id == 4)
            length = thrift_binary(thrift, field.type, &bytes);
        else if (field.id == 5)
            children = thrift_integer(thrift, field.type);
        else if (field.id == 6)
            element->converted = (int32_t)thrift_integer(thrift, field.type);
        else if (field.id == 10 && thrift_struct(thrift, field.type))
            read_logical(thrift, element);
        else
            thrift_skip(thrift, field.type);
    }
    element->children = children < 0 || children > PARQUET_MAX_ELEMENTS ? UINT32_MAX : (uint32_t)children;
    element->name = *name;
    if (length)
        memcpy(*name, bytes, length);
    (*name)[length] = '\0';
    *name += length + 1;
}

// Whether children and parents fit: what they claim to have must be there, and nothing else.
static bool is_a_tree(const struct parquet_footer *footer) {
    uint64_t expected = 1;
    for (uint32_t i = 0; i < footer->count; i++) {
        if (!expected)
            return false;
        expected += footer->elements[i].children;
        expected--;
    }
    return expected == 0;
}

static int read_schema(struct thrift *thrift, uint8_t type, struct parquet_footer *footer,
                       struct error *error) {
    uint8_t element;
    uint32_t count = thrift_list(thrift, type, &element);
    if (footer->elements)
        return refuse_damage(error);
    if (count > PARQUET_MAX_ELEMENTS)
        return error_set(error, -EFBIG, "found a schema of %" PRIu32 " columns, wanted at most %u", count,
                         PARQUET_MAX_ELEMENTS);
    // The names take no more than what they are read from, and a zero each.
    footer->elements = calloc(count + 1, sizeof *footer->elements);
    footer->names = malloc((size_t)(thrift->end - thrift->at) + count + 1);
    if (!footer->elements || !footer->names)
        return error_set(error, -ENOMEM, "out of memory");
    char *name = footer->names;
    for (uint32_t i = 0; i < count && thrift_struct(thrift, element); i++) {
        read_element(thrift, &footer->elements[i], &name);
        footer->leaves += i && !footer->elements[i].children;
    }
    footer->count = count;
    return thrift->broken || !count || !is_a_tree(footer) ? refuse_damage(error) : 0;
}

// ---- The footer ----------------------------------------------------------------------------------------------

static int refuse_encryption(struct error *error) {
    return error_set(error, -ENOTSUP, "found an encrypted file, wanted one without encryption");
}

// Remembers where the row groups are.
static void find_groups(struct thrift *thrift, uint8_t type, struct parquet_footer *footer) {
    struct thrift start = *thrift;
    uint8_t element;
    footer->groups = thrift_list(&start, type, &element);
    footer->next = start;
    if (footer->groups && element != THRIFT_STRUCT)
        footer->next.broken = true;
    thrift_skip(thrift, type);
}

int parquet_footer_read(const uint8_t *bytes, uint64_t count, struct parquet_footer *footer,
                        struct error *error) {
    struct thrift thrift = {.at = bytes, .end = bytes + count};
    struct thrift_field field = {0};
    int err = 0;
    *footer = (struct parquet_footer){0};
    while (!err && thrift_next(&thrift, &field)) {
        if (field.id == 2)
            err = read_schema(&thrift, field.type, footer, error);
        else if (field.id == 4)
            find_groups(&thrift, field.type, footer);
        else if (field.id == 8)
            err = refuse_encryption(error);
        else
            thrift_skip(&thrift, field.type);
    }
    if (err)
        return err;
    return thrift.broken || footer->next.broken || !footer->elements ? refuse_damage(error) : 0;
}

void parquet_footer_release(struct parquet_footer *footer) {
    free(footer->elements);
    free(footer->names);
    footer->elements = NULL;
    footer->names = NULL;
}

// ---- Row groups ----------------------------------------------------------------------------------------------

static uint64_t take_size(struct thrift *thrift, uint8_t type) {
    return (uint64_t)thrift_integer(thrift, type); // a negative one is beyond any file
}

static void read_metadata(struct thrift *thrift, struct parquet_chunk *chunk) {
    struct thrift_field field = {0};
    uint64_t data = UINT64_MAX, dictionary = 0;
    while (thrift_next(thrift, &field)) {
        if (field.id == 1)
            chunk->physical = (int32_t)thrift_integer(thrift, field.type);
        else if (field.id == 4)
            chunk->codec = (int32_t)thrift_integer(thrift, field.type);
        else if (field.id == 5)
            chunk->values = take_size(thrift, field.type);
        else if (field.id == 7)
            chunk->bytes = take_size(thrift, field.type);
        else if (field.id == 9)
            data = take_size(thrift, field.type);
        else if (field.id == 11)
            dictionary = take_size(thrift, field.type);
        else
            thrift_skip(thrift, field.type);
    }
    // Some writers leave a zero where there is no dictionary, and others although there is one, where the data begin.
    chunk->offset = dictionary && dictionary < data ? dictionary : data;
}

static void read_chunk(struct thrift *thrift, struct parquet_chunk *chunk) {
    struct thrift_field field = {0};
    *chunk = (struct parquet_chunk){.physical = -1, .offset = UINT64_MAX};
    while (thrift_next(thrift, &field)) {
        if (field.id == 3 && thrift_struct(thrift, field.type))
            read_metadata(thrift, chunk);
        else {
            chunk->elsewhere |= field.id == 1;
            chunk->encrypted |= field.id == 8;
            thrift_skip(thrift, field.type);
        }
    }
}

static int read_chunks(struct thrift *thrift, uint8_t type, const struct parquet_footer *footer,
                       struct parquet_chunk *chunks) {
    uint8_t element;
    uint32_t count = thrift_list(thrift, type, &element);
    if (count != footer->leaves)
        return -EINVAL;
    for (uint32_t i = 0; i < count && thrift_struct(thrift, element); i++)
        read_chunk(thrift, &chunks[i]);
    return 0;
}

int parquet_footer_next(struct parquet_footer *footer, struct parquet_chunk *chunks, uint64_t *rows,
                        struct error *error) {
    struct thrift *thrift = &footer->next;
    struct thrift_field field = {0};
    bool found = footer->leaves == 0;
    if (footer->number == footer->groups)
        return 0;
    footer->number++;
    *rows = UINT64_MAX;
    while (thrift_next(thrift, &field)) {
        if (field.id == 1) {
            found = read_chunks(thrift, field.type, footer, chunks) == 0;
            if (!found)
                return error_set(error, -EINVAL,
                                 "found a row group whose columns are not those of the schema");
        } else if (field.id == 3) {
            *rows = take_size(thrift, field.type);
        } else {
            thrift_skip(thrift, field.type);
        }
    }
    return thrift->broken || !found || *rows > INT64_MAX ? refuse_damage(error) : 1;
}
