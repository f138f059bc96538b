// A library to be preloaded. In each process, the first few attempts to decode JPEG or zstd run out of memory, and so
// do those to allocate aligned memory, which loaders do for encoded samples.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <jpeglib.h>
// After jpeglib.h, which it needs.
#include <jerror.h>

#define VISIBLE  __attribute__((visibility("default")))
#define ATTEMPTS 5u

VISIBLE void *aligned_alloc(size_t alignment, size_t bytes) {
    static unsigned attempts;
    void *memory = NULL;
    return attempts++ < ATTEMPTS || posix_memalign(&memory, alignment, bytes) != 0 ? NULL : memory;
}

VISIBLE boolean jpeg_start_decompress(j_decompress_ptr image) {
    static boolean (*start)(j_decompress_ptr);
    static unsigned attempts;
    if (attempts++ < ATTEMPTS)
        ERREXIT1(image, JERR_OUT_OF_MEMORY, 0);
    if (!start)
        *(void **)&start = dlsym(RTLD_NEXT, "jpeg_start_decompress");
    return start(image);
}

VISIBLE size_t ZSTD_decompressDCtx(ZSTD_DCtx *context, void *to, size_t room, const void *from,
                                   size_t bytes) {
    static size_t (*decompress)(ZSTD_DCtx *, void *, size_t, const void *, size_t);
    static unsigned attempts;
    if (attempts++ < ATTEMPTS)
        return (size_t)-ZSTD_error_memory_allocation;
    if (!decompress)
        *(void **)&decompress = dlsym(RTLD_NEXT, "ZSTD_decompressDCtx");
    return decompress(context, to, room, from, bytes);
}
