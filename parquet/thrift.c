#include "parquet/thrift.h"

#define MOST_DEPTH 32u

static void break_off(struct thrift *thrift) {
    thrift->broken = true;
    thrift->at = thrift->end;
}

static uint8_t take_byte(struct thrift *thrift) {
    if (thrift->at == thrift->end) {
        break_off(thrift);
        return 0;
    }
    return *thrift->at++;
}

static uint64_t take_varint(struct thrift *thrift) {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        uint8_t byte = take_byte(thrift);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    break_off(thrift);
    return 0;
}

static int64_t take_zigzag(struct thrift *thrift) {
    uint64_t value = take_varint(thrift);
    return (int64_t)(value >> 1 ^ -(value & 1));
}

static void advance(struct thrift *thrift, uint64_t bytes) {
    if (bytes > (uint64_t)(thrift->end - thrift->at))
        break_off(thrift);
    else
        thrift->at += bytes;
}

bool thrift_next(struct thrift *thrift, struct thrift_field *field) {
    uint8_t head = take_byte(thrift);
    field->type = head & 0x0f;
    if (thrift->broken || field->type == THRIFT_STOP)
        return false;
    int64_t id = head >> 4 ? field->id + (head >> 4) : take_zigzag(thrift);
    if (id < INT16_MIN || id > INT16_MAX || field->type > THRIFT_STRUCT)
        break_off(thrift);
    field->id = (int32_t)id;
    return !thrift->broken;
}

int64_t thrift_integer(struct thrift *thrift, uint8_t type) {
    if (type == THRIFT_I16 || type == THRIFT_I32 || type == THRIFT_I64)
        return take_zigzag(thrift);
    if (type == THRIFT_BYTE)
        return (int8_t)take_byte(thrift);
    break_off(thrift);
    return 0;
}

bool thrift_bool(struct thrift *thrift, uint8_t type) {
    if (type != THRIFT_TRUE && type != THRIFT_FALSE)
        break_off(thrift);
    return type == THRIFT_TRUE;
}

uint32_t thrift_binary(struct thrift *thrift, uint8_t type, const uint8_t **bytes) {
    uint64_t count = type == THRIFT_BINARY ? take_varint(thrift) : UINT64_MAX;
    *bytes = thrift->at;
    advance(thrift, count);
    return thrift->broken || count > UINT32_MAX ? 0 : (uint32_t)count;
}

uint32_t thrift_list(struct thrift *thrift, uint8_t type, uint8_t *element) {
    *element = THRIFT_STOP;
    if (type != THRIFT_LIST && type != THRIFT_SET) {
        break_off(thrift);
        return 0;
    }
    uint8_t head = take_byte(thrift);
    uint64_t count = head >> 4 < 15 ? head >> 4 : take_varint(thrift);
    if (count > (uint64_t)(thrift->end - thrift->at) || count > UINT32_MAX) {
        break_off(thrift);
        return 0;
    }
    *element = head & 0x0f;
    return (uint32_t)count;
}

bool thrift_struct(struct thrift *thrift, uint8_t type) {
    if (type != THRIFT_STRUCT)
        break_off(thrift);
    return !thrift->broken;
}

// An element of a list, which says of a bool in a byte what a field says in its type.
static void skip_element(struct thrift *thrift, uint8_t type) {
    if (type == THRIFT_TRUE || type == THRIFT_FALSE)
        take_byte(thrift);
    else
        thrift_skip(thrift, type);
}

static void skip_list(struct thrift *thrift, uint8_t type) {
    uint8_t element;
    uint32_t count = thrift_list(thrift, type, &element);
    for (uint32_t i = 0; i < count && !thrift->broken; i++)
        skip_element(thrift, element);
}

static void skip_map(struct thrift *thrift) {
    uint64_t count = take_varint(thrift);
    uint8_t types = count ? take_byte(thrift) : 0;
    for (uint64_t i = 0; i < count && !thrift->broken; i++) {
        skip_element(thrift, types >> 4);
        skip_element(thrift, types & 0x0f);
    }
}

static void skip_struct(struct thrift *thrift) {
    struct thrift_field field = {0};
    while (thrift_next(thrift, &field))
        thrift_skip(thrift, field.type);
}

void thrift_skip(struct thrift *thrift, uint8_t type) {
    const uint8_t *bytes;
    if (thrift->broken || thrift->depth == MOST_DEPTH) {
        break_off(thrift);
        return;
    }
    thrift->depth++;
    if (type == THRIFT_BYTE)
        take_byte(thrift);
    else if (type == THRIFT_I16 || type == THRIFT_I32 || type == THRIFT_I64)
        take_varint(thrift);
    else if (type == THRIFT_DOUBLE)
        advance(thrift, sizeof(double));
    else if (type == THRIFT_BINARY)
        thrift_binary(thrift, type, &bytes);
    else if (type == THRIFT_LIST || type == THRIFT_SET)
        skip_list(thrift, type);
    else if (type == THRIFT_MAP)
        skip_map(thrift);
    else if (type == THRIFT_STRUCT)
        skip_struct(thrift);
    else if (type != THRIFT_TRUE && type != THRIFT_FALSE)
        break_off(thrift);
    thrift->depth--;
}
