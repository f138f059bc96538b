// What we use of nvJPEG, versions 12 and 13, declared here because its header is only in CUDA toolkits, while the
// library is looked for at run time. The names and numbers are those of its documented interface; make
// check-nvjpeg-header compares them with the header.
#ifndef FEEDD_DAEMON_TRANSFER_NVJPEG_H
#define FEEDD_DAEMON_TRANSFER_NVJPEG_H

#include <stddef.h>

#include "base/error.h"

enum {
    NVJPEG_SUCCESS = 0,
    NVJPEG_ALLOCATOR_FAILURE = 5,
    NVJPEG_YUV = 1,              // output: planes as they are coded
    NVJPEG_BACKEND_HARDWARE = 3, // the engine alone
    NVJPEG_CHANNELS = 4,
};

struct nvjpeg_planes {
    unsigned char *channel[NVJPEG_CHANNELS]; // GPU memory
    size_t pitch[NVJPEG_CHANNELS];
};

typedef struct nvjpegHandle *nvjpeg_handle;
typedef struct nvjpegJpegState *nvjpeg_state;
typedef struct nvjpegDecodeParams *nvjpeg_parameters;

// Those that we call, by their names without "nvjpeg".
struct nvjpeg {
    int (*CreateEx)(int backend, void *device_allocator, void *pinned_allocator, unsigned flags,
                    nvjpeg_handle *handle);
    int (*Destroy)(nvjpeg_handle handle);
    int (*GetHardwareDecoderInfo)(nvjpeg_handle handle, unsigned *engines, unsigned *cores);
    int (*JpegStateCreate)(nvjpeg_handle handle, nvjpeg_state *state);
    int (*JpegStateDestroy)(nvjpeg_state state);
    int (*DecodeParamsCreate)(nvjpeg_handle handle, nvjpeg_parameters *parameters);
    int (*DecodeParamsDestroy)(nvjpeg_parameters parameters);
    int (*DecodeParamsSetOutputFormat)(nvjpeg_parameters parameters, int format);
    int (*DecodeParamsSetROI)(nvjpeg_parameters parameters, int x, int y, int width, int height);
    int (*DecodeBatchedInitialize)(nvjpeg_handle handle, nvjpeg_state state, int images, int threads,
                                   int format);
    int (*DecodeBatchedEx)(nvjpeg_handle handle, nvjpeg_state state, const unsigned char *const *bytes,
                           const size_t *counts, struct nvjpeg_planes *to, nvjpeg_parameters *parameters,
                           void *stream);
};

// A variable in the daemon's environment: the path of the library.
#define NVJPEG_VARIABLE "FEEDD_NVJPEG"

// -ENOTSUP and a sentence that says what to install or to set: there is none on this machine. -EMFILE,
// -ENFILE, -ENOMEM: no descriptor was free, so there may be one.
int nvjpeg_load(struct nvjpeg *nvjpeg, struct error *error);

#endif
