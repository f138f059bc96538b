#include "block/block_lz4.h"

#include <inttypes.h>
#include <lz4frame.h>
#include <string.h>

#include "base/sizes.h"

void *block_lz4_open(void) {
    LZ4F_dctx *context = NULL;
    return LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)) ? NULL : context;
}

void block_lz4_close(void *context) {
    LZ4F_freeDecompressionContext(context);
}

void block_lz4_restart(void *context) {
    LZ4F_resetDecompressionContext(context);
}

static int refuse(size_t result, struct error *error) {
    const char *name = LZ4F_getErrorName(result); // codes are not in all builds of the library
    const int code = strcmp(name, "ERROR_allocation_failed") == 0 ? -ENOMEM : -EBADMSG;
    return error_set(error, code, "its block cannot be decoded with lz4: %s", name);
}

int block_lz4_decode(void *context, const uint8_t *stored, uint64_t stored_bytes, uint8_t *decoded,
                     uint64_t decoded_bytes, struct error *error) {
    // What was decoded stays where it is, so that the library need not keep a copy to refer to.
    const LZ4F_decompressOptions_t options = {.stableDst = 1};
    uint64_t used = 0, made = 0;
    LZ4F_resetDecompressionContext(context);
    for (;;) {
        size_t in = stored_bytes - used, out = decoded_bytes - made;
        size_t result = LZ4F_decompress(context, decoded + made, &out, stored + used, &in, &options);
        if (LZ4F_isError(result))
            return refuse(result, error);
        used += in;
        made += out;
        if (result == 0)
            break;
        if (!in && !out)
            return error_set(error, -EBADMSG,
                             "its block cannot be decoded with lz4: found %s after %" PRIu64
                             " bytes, wanted the end of a frame of %" PRIu64,
                             used < stored_bytes ? "more" : "the end", made, decoded_bytes);
    }
    if (made == decoded_bytes)
        return 0;
    return error_set(error, -EBADMSG,
                     "its block has %" PRIu64 " bytes when decoded with lz4, wanted %" PRIu64, made,
                     decoded_bytes);
}

int block_lz4_some(void *context, const uint8_t *stored, size_t *stored_bytes, uint8_t *decoded,
                   size_t *decoded_bytes, struct error *error) {
    size_t result = LZ4F_decompress(context, decoded, decoded_bytes, stored, stored_bytes, NULL);
    return LZ4F_isError(result) ? refuse(result, error) : 0;
}
