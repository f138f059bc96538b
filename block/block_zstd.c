#include "block/block_zstd.h"

#include <inttypes.h>
#include <zstd.h>
#include <zstd_errors.h>

// A hostile frame makes a decoder in parts keep this much of what it has decoded; one in whole keeps nothing.
#define WINDOW_LOG 27

void *block_zstd_open(void) {
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (context && ZSTD_isError(ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, WINDOW_LOG))) {
        ZSTD_freeDCtx(context);
        return NULL;
    }
    return context;
}

void block_zstd_close(void *context) {
    ZSTD_freeDCtx(context);
}

void block_zstd_restart(void *context) {
    ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
}

static int refuse(size_t result, struct error *error) {
    const int code = ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation ? -ENOMEM : -EBADMSG;
    return error_set(error, code, "its block cannot be decoded with zstd: %s", ZSTD_getErrorName(result));
}

int block_zstd_decode(void *context, const uint8_t *stored, uint64_t stored_bytes, uint8_t *decoded,
                      uint64_t decoded_bytes, struct error *error) {
    size_t made = ZSTD_decompressDCtx(context, decoded, decoded_bytes, stored, stored_bytes);
    if (ZSTD_isError(made))
        return refuse(made, error);
    if (made == decoded_bytes)
        return 0;
    return error_set(error, -EBADMSG, "its block has %zu bytes when decoded with zstd, wanted %" PRIu64, made,
                     decoded_bytes);
}

int block_zstd_some(void *context, const uint8_t *stored, size_t *stored_bytes, uint8_t *decoded,
                    size_t *decoded_bytes, struct error *error) {
    ZSTD_inBuffer in = {stored, *stored_bytes, 0};
    ZSTD_outBuffer out = {decoded, *decoded_bytes, 0};
    size_t result = ZSTD_decompressStream(context, &out, &in);
    *stored_bytes = in.pos;
    *decoded_bytes = out.pos;
    return ZSTD_isError(result) ? refuse(result, error) : 0;
}
