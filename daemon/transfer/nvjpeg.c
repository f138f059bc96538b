#include "daemon/transfer/nvjpeg.h"

#include <dlfcn.h>

#include "base/sizes.h"

static void *open_library(void) {
    static const char *const names[] = {"libnvjpeg.so.13", "libnvjpeg.so.12",
                                        "/usr/local/cuda/lib64/libnvjpeg.so.13",
                                        "/usr/local/cuda/lib64/libnvjpeg.so.12"};
    void *library = NULL;
    for (size_t i = 0; !library && i < COUNT_OF(names); i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL); // never closed
    return library;
}

int nvjpeg_load(struct nvjpeg *nvjpeg, struct error *error) {
    const struct {
        const char *name;
        void **call;
    } calls[] = {
        {"nvjpegCreateEx", (void **)&nvjpeg->CreateEx},
        {"nvjpegDestroy", (void **)&nvjpeg->Destroy},
        {"nvjpegGetHardwareDecoderInfo", (void **)&nvjpeg->GetHardwareDecoderInfo},
        {"nvjpegJpegStateCreate", (void **)&nvjpeg->JpegStateCreate},
        {"nvjpegJpegStateDestroy", (void **)&nvjpeg->JpegStateDestroy},
        {"nvjpegDecodeParamsCreate", (void **)&nvjpeg->DecodeParamsCreate},
        {"nvjpegDecodeParamsDestroy", (void **)&nvjpeg->DecodeParamsDestroy},
        {"nvjpegDecodeParamsSetOutputFormat", (void **)&nvjpeg->DecodeParamsSetOutputFormat},
        {"nvjpegDecodeParamsSetROI", (void **)&nvjpeg->DecodeParamsSetROI},
        {"nvjpegDecodeBatchedInitialize", (void **)&nvjpeg->DecodeBatchedInitialize},
        {"nvjpegDecodeBatchedEx", (void **)&nvjpeg->DecodeBatchedEx},
    };
    void *library = open_library();
    if (!library)
        return error_set(error, -ENOTSUP, "nvJPEG is not installed (libnvjpeg.so.13 or .12)");
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        *calls[i].call = dlsym(library, calls[i].name);
        if (!*calls[i].call)
            return error_set(error, -ENOTSUP, "this machine's nvJPEG has no %s", calls[i].name);
    }
    return 0;
}
