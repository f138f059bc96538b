#include "client/python/native/dlpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What a tensor handed out stands on; exactly one of lease and copy is set. Freed by the tensor's deleter.
struct export {
    union {
        struct dlpack_managed plain;
        struct dlpack_managed_versioned versioned;
    };
    struct lease *lease;
    void *copy;
    int64_t shape[FEED_MAX_DIMS + 1], strides[FEED_MAX_DIMS + 1];
};

struct dlpack_device dlpack_device(const struct handle *handle) {
    int number = handle->description.device_number;
    return number < 0 ? (struct dlpack_device){DLPACK_CPU, 0} : (struct dlpack_device){DLPACK_CUDA, number};
}

struct dlpack_type dlpack_type(enum feed_dtype dtype) {
    static const uint8_t codes[] = {
        [FEED_BOOL] = DLPACK_BOOL, [FEED_U8] = DLPACK_UINT,     [FEED_I8] = DLPACK_INT,
        [FEED_U16] = DLPACK_UINT,  [FEED_I16] = DLPACK_INT,     [FEED_U32] = DLPACK_UINT,
        [FEED_I32] = DLPACK_INT,   [FEED_U64] = DLPACK_UINT,    [FEED_I64] = DLPACK_INT,
        [FEED_F16] = DLPACK_FLOAT, [FEED_BF16] = DLPACK_BFLOAT, [FEED_F32] = DLPACK_FLOAT,
        [FEED_F64] = DLPACK_FLOAT, [FEED_C64] = DLPACK_COMPLEX, [FEED_C128] = DLPACK_COMPLEX,
    };
    return (struct dlpack_type){codes[dtype], (uint8_t)(8 * feed_dtype_bytes(dtype)), 1};
}

static void drop(struct export *export) {
    if (export->lease)
        lease_put(export->lease);
    free(export->copy);
    free(export);
}

static void delete_plain(struct dlpack_managed *self) {
    drop(self->context);
}

static void delete_versioned(struct dlpack_managed_versioned *self) {
    drop(self->context);
}

static struct export *begin(struct lease *lease, uint32_t number, bool copy, char *text) {
    struct export *export = calloc(1, sizeof *export);
    const struct feed_array *field = &lease->batch.field[number];
    if (export && copy)
        export->copy = aligned_alloc(64, (field->bytes + 64) & ~(size_t)63);
    if (!export || (copy && !export->copy)) {
        free(export);
        snprintf(text, HANDLE_TEXT_BYTES, "out of memory");
        return NULL;
    }
    if (copy && lease_fetch(lease, number, export->copy, text) < 0) {
        drop(export);
        return NULL;
    }
    if (!copy)
        export->lease = lease_get(lease);
    return export;
}

static void fill_tensor(struct export *export, struct dlpack_tensor *tensor, const struct lease *lease,
                        uint32_t number) {
    const struct feed_array *field = &lease->batch.field[number];
    int64_t stride = 1;
    for (uint32_t i = field->dimensions; i-- > 0;) {
        export->shape[i] = (int64_t)field->shape[i];
        export->strides[i] = stride;
        stride *= export->shape[i];
    }
    *tensor = (struct dlpack_tensor){
        .data = export->copy ? export->copy : (void *)field->data,
        .device = export->copy ? (struct dlpack_device){DLPACK_CPU, 0} : dlpack_device(lease->handle),
        .dimensions = (int32_t)field->dimensions,
        .type = dlpack_type(field->dtype),
        .shape = export->shape,
        .strides = export->strides,
    };
}

struct dlpack_managed *dlpack_export(struct lease *lease, uint32_t number, bool copy, char *text) {
    struct export *export = begin(lease, number, copy, text);
    if (!export)
        return NULL;
    fill_tensor(export, &export->plain.tensor, lease, number);
    export->plain.context = export;
    export->plain.deleter = delete_plain;
    return &export->plain;
}

struct dlpack_managed_versioned *dlpack_export_versioned(struct lease *lease, uint32_t number, bool copy,
                                                         char *text) {
    struct export *export = begin(lease, number, copy, text);
    if (!export)
        return NULL;
    fill_tensor(export, &export->versioned.tensor, lease, number);
    export->versioned.version = (struct dlpack_version){1, 0};
    export->versioned.context = export;
    export->versioned.deleter = delete_versioned;
    export->versioned.flags = copy ? DLPACK_FLAG_IS_COPIED : DLPACK_FLAG_READ_ONLY;
    return &export->versioned;
}
