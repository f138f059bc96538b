#include "client/python/native/dlpack.h"

#include <errno.h>
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

// Sets lease or copy. 0, or a negative errno and a sentence.
static int take_bytes(struct export *export, struct lease *lease, struct lease_part part, bool copy,
                      char *text) {
    if (!copy) {
        export->lease = lease_get(lease);
        return 0;
    }
    export->copy = aligned_alloc(64, (lease_array(lease, part).bytes + 64) & ~(size_t)63);
    if (export->copy)
        return lease_fetch(lease, part, export->copy, text);
    snprintf(text, HANDLE_TEXT_BYTES, "out of memory");
    return -ENOMEM;
}

static void fill_tensor(struct export *export, struct dlpack_tensor *tensor, const struct lease *lease,
                        struct lease_part part) {
    const struct feed_array array = lease_array(lease, part), *field = &array;
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

int dlpack_export(struct lease *lease, struct lease_part part, bool versioned, bool copy, void **managed,
                  char text[HANDLE_TEXT_BYTES]) {
    struct export *export = calloc(1, sizeof *export);
    if (!export) {
        snprintf(text, HANDLE_TEXT_BYTES, "out of memory");
        return -ENOMEM;
    }
    int err = take_bytes(export, lease, part, copy, text);
    if (err) {
        drop(export);
        return err;
    }
    if (versioned) {
        export->versioned.version = (struct dlpack_version){1, 0};
        export->versioned.context = export;
        export->versioned.deleter = delete_versioned;
        export->versioned.flags = copy ? DLPACK_FLAG_IS_COPIED : DLPACK_FLAG_READ_ONLY;
    } else {
        export->plain.context = export;
        export->plain.deleter = delete_plain;
    }
    fill_tensor(export, versioned ? &export->versioned.tensor : &export->plain.tensor, lease, part);
    *managed = versioned ? (void *)&export->versioned : (void *)&export->plain;
    return 0;
}
