#include "daemon/transfer/nvjpeg.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sizes.h"

// A negative errno if no descriptor is free, which may be why dlopen failed (it reports only text); otherwise 0.
static int lack_of_descriptors(void) {
    AUTO_CLOSE int fd = open("/", O_PATH | O_CLOEXEC);
    return fd < 0 && error_is_lack(-errno) ? -errno : 0;
}

static void *open_named(const char *path, struct error *error) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); // never closed
    if (!library)
        error_set(error, -ENOTSUP, "%s is not the path of nvJPEG: %s", NVJPEG_VARIABLE, dlerror());
    return library;
}

// Where the dynamic linker and CUDA toolkits have it.
static void *find(struct error *error) {
    static const char *const names[] = {"libnvjpeg.so.13", "libnvjpeg.so.12",
                                        "/usr/local/cuda/lib64/libnvjpeg.so.13",
                                        "/usr/local/cuda/lib64/libnvjpeg.so.12"};
    void *library = NULL;
    for (size_t i = 0; !library && i < COUNT_OF(names); i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL); // likewise
    if (!library)
        error_set(
            error, -ENOTSUP,
            "nvJPEG was not found (libnvjpeg.so.13 or .12): install NVIDIA's package libnvjpeg-13-0, or the"
            " wheel nvidia-nvjpeg and set %s to the path of that file in it",
            NVJPEG_VARIABLE);
    return library;
}

static int refuse(struct error *error) {
    int err = lack_of_descriptors();
    return err ? error_set(error, err, "cannot search for nvJPEG now: %s", strerror(-err)) : -ENOTSUP;
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
    const char *named = getenv(NVJPEG_VARIABLE);
    void *library = named && *named ? open_named(named, error) : find(error);
    if (!library)
        return refuse(error);
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        *calls[i].call = dlsym(library, calls[i].name);
        if (!*calls[i].call)
            return error_set(
                error, -ENOTSUP,
                "the nvJPEG that was found has no %s: wanted version 12 or 13, as in NVIDIA's package"
                " libnvjpeg-13-0",
                calls[i].name);
    }
    return 0;
}
