#include "daemon/source/source_npy.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/scope.h"
#include "base/sizes.h"

#define MAX_HEADER_BYTES (1u << 20)

struct npy_header {
    char descr[32];
    bool structured;
    bool fortran_order;
    bool has_descr, has_order, has_shape;
    uint64_t dimensions;
    uint64_t shape[1 + RING_MAX_DIMS]; // as many as there is room for
};

static const char *skip_blanks(const char *at) {
    return at + strspn(at, " \t\r\n");
}

static bool take(const char **at, const char *text) {
    size_t length = strlen(text);
    if (strncmp(*at, text, length) != 0)
        return false;
    *at = skip_blanks(*at + length);
    return true;
}

static bool take_string(const char **at, char *string, size_t room) {
    char quote = **at;
    if (quote != '\'' && quote != '"')
        return false;
    const char *end = strchr(*at + 1, quote);
    size_t length = end ? (size_t)(end - *at) - 1 : room;
    if (length >= room)
        return false;
    memcpy(string, *at + 1, length);
    string[length] = '\0';
    *at = skip_blanks(end + 1);
    return true;
}

static bool take_bool(const char **at, bool *value) {
    *value = take(at, "True");
    return *value || take(at, "False");
}

static bool take_number(const char **at, uint64_t *number) {
    const char *start = *at;
    *number = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++)
        if (__builtin_mul_overflow(*number, 10u, number) ||
            __builtin_add_overflow(*number, (uint64_t)(**at - '0'), number))
            return false;
    bool any = *at != start;
    *at = skip_blanks(*at);
    return any;
}

// "()", "(3,)", "(3, 4)".
static bool take_shape(const char **at, struct npy_header *header) {
    if (!take(at, "("))
        return false;
    while (!take(at, ")")) {
        uint64_t size;
        if (!take_number(at, &size))
            return false;
        if (header->dimensions < COUNT_OF(header->shape))
            header->shape[header->dimensions] = size;
        header->dimensions++;
        if (!take(at, ",") && **at != ')')
            return false;
    }
    return true;
}

static bool take_item(const char **at, struct npy_header *header) {
    char key[16];
    if (!take_string(at, key, sizeof key) || !take(at, ":"))
        return false;
    if (strcmp(key, "descr") == 0 && !header->has_descr) {
        header->has_descr = true;
        header->structured = **at == '[' || **at == '(';
        return header->structured || take_string(at, header->descr, sizeof header->descr);
    }
    if (strcmp(key, "fortran_order") == 0 && !header->has_order) {
        header->has_order = true;
        return take_bool(at, &header->fortran_order);
    }
    if (strcmp(key, "shape") == 0 && !header->has_shape) {
        header->has_shape = true;
        return take_shape(at, header);
    }
    return false;
}

// A structured dtype ends the parse: it is refused, so what follows does not matter.
static bool parse_header(const char *text, struct npy_header *header) {
    const char *at = skip_blanks(text);
    if (!take(&at, "{"))
        return false;
    while (!take(&at, "}")) {
        if (!take_item(&at, header))
            return false;
        if (header->structured)
            return true;
        if (!take(&at, ",") && *at != '}')
            return false;
    }
    return *at == '\0' && header->has_descr && header->has_order && header->has_shape;
}

static uint32_t dtype_of(const char *kind_and_size) {
    static const struct {
        char name[4];
        uint32_t dtype;
    } known[] = {{"b1", DTYPE_BOOL}, {"u1", DTYPE_U8},   {"i1", DTYPE_I8},  {"u2", DTYPE_U16},
                 {"i2", DTYPE_I16},  {"u4", DTYPE_U32},  {"i4", DTYPE_I32}, {"u8", DTYPE_U64},
                 {"i8", DTYPE_I64},  {"f2", DTYPE_F16},  {"f4", DTYPE_F32}, {"f8", DTYPE_F64},
                 {"c8", DTYPE_C64},  {"c16", DTYPE_C128}};
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (strcmp(kind_and_size, known[i].name) == 0)
            return known[i].dtype;
    return 0;
}

static int check_dtype(struct builder *builder, const struct source_file *file,
                       const struct npy_header *header, uint32_t *dtype) {
    if (header->structured)
        return builder_refuse(
            builder, -ENOTSUP, file->path,
            "found a structured dtype, wanted one number type; save each of its fields as a file of"
            " its own, or use format records");
    const char *descr = header->descr;
    *dtype = descr[0] ? dtype_of(descr + 1) : 0;
    bool byte = dtype_bytes(*dtype) == 1;
    if (*dtype && (descr[0] == '<' || (byte && descr[0] == '|')))
        return 0;
    if (*dtype && descr[0] == '>')
        return builder_refuse(
            builder, -ENOTSUP, file->path,
            "found big-endian dtype \"%s\", wanted little-endian; save array.astype(\"<%s\")", descr,
            descr + 1);
    if (strcmp(descr, "|O") == 0)
        return builder_refuse(
            builder, -ENOTSUP, file->path,
            "found an array of Python objects, wanted numbers; if the items have one shape and"
            " type, save numpy.stack(array)");
    return builder_refuse(
        builder, -ENOTSUP, file->path,
        "found dtype \"%s\", wanted |b1 |u1 |i1 <u2 <i2 <u4 <i4 <u8 <i8 <f2 <f4 <f8 <c8 or <c16", descr);
}

static int check_header(struct builder *builder, const struct source_file *file, const struct npy_header *npy,
                        struct array_header *header) {
    int err = check_dtype(builder, file, npy, &header->dtype);
    if (!err)
        err = arrays_check_dimensions(builder, file, npy->dimensions);
    if (err)
        return err;
    if (npy->fortran_order && npy->dimensions > 1)
        return builder_refuse(builder, -ENOTSUP, file->path,
                              "found fortran_order True, wanted False, because samples must be contiguous;"
                              " save numpy.ascontiguousarray(array)");
    header->dimensions = (uint32_t)npy->dimensions;
    memcpy(header->shape, npy->shape, header->dimensions * sizeof *header->shape);
    return 0;
}

// Where the header's text begins and how long it is.
static int locate_header(struct builder *builder, const struct source_file *file, uint64_t *offset,
                         uint64_t *bytes) {
    uint8_t start[12];
    int err = builder_read(builder, file, start, 10, 0, "an npy header");
    if (err)
        return err;
    const char *compression = builder_compression(start);
    if (compression && strcmp(compression, "zip") == 0)
        return builder_refuse(
            builder, -EINVAL, file->path,
            "found a zip or npz file, wanted npy; save each of its arrays with numpy.save()");
    if (compression)
        return builder_refuse(builder, -EINVAL, file->path,
                              "found %s data, wanted an npy file; unpack it first", compression);
    if (memcmp(start, "\x93NUMPY", 6) != 0)
        return builder_refuse(builder, -EINVAL, file->path,
                              "found no npy header, wanted one that starts with the byte 0x93 and NUMPY");
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return builder_refuse(builder, -ENOTSUP, file->path,
                              "found npy version %u.%u, wanted 1.0, 2.0 or 3.0", start[6], start[7]);
    *offset = start[6] == 1 ? 10 : 12;
    err = builder_read(builder, file, start, *offset, 0, "an npy header");
    *bytes = start[8] | (uint64_t)start[9] << 8;
    if (*offset == 12)
        *bytes |= (uint64_t)start[10] << 16 | (uint64_t)start[11] << 24;
    return err;
}

int npy_read_header(struct builder *builder, const struct source_file *file, struct array_header *header) {
    uint64_t offset = 0, bytes = 0;
    int err = locate_header(builder, file, &offset, &bytes);
    if (err)
        return err;
    if (bytes > MAX_HEADER_BYTES)
        return builder_refuse(builder, -EINVAL, file->path,
                              "found an npy header of %" PRIu64 " bytes, wanted at most %u", bytes,
                              MAX_HEADER_BYTES);
    AUTO_FREE char *text = calloc(1, bytes + 1);
    if (!text)
        return builder_out_of_memory(builder);
    err = builder_read(builder, file, text, bytes, offset, "an npy header");
    if (err)
        return err;
    struct npy_header npy = {0};
    if (strlen(text) != bytes || !parse_header(text, &npy))
        return builder_refuse(
            builder, -EINVAL, file->path,
            "found an npy header that cannot be read (\"%.60s\"), wanted a dictionary of descr,"
            " fortran_order and shape",
            text);
    header->data_offset = offset + bytes;
    return check_header(builder, file, &npy, header);
}

static int open_npy(struct builder *builder) {
    return arrays_open(builder, npy_read_header);
}

const struct source_format source_npy = {
    .name = "npy",
    .summary = "NumPy arrays, one file a field",
    .open = open_npy,
};
