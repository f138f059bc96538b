#!/bin/sh
# Compiles what daemon/transfer/nvjpeg.h declares beside NVIDIA's nvjpeg.h, and looks for the calls in the library, if there is
# one: nvjpeg-header.sh, with BUILD= a separate folder and CUDA= a toolkit. What the toolkit lacks comes from PyPI, as
# DEPENDENCIES pins it.
set -eu

build=${BUILD:?}
cuda=${CUDA:?}

fail() {
    printf '%s: %s\n' "$0" "$1" >&2
    exit 1
}

# The header and the library, in `home`.
fetch() {
    pin=$(sed -n 's/^pypi  *\([^ ]*\)  *\([^ ]*\)  *nvjpeg .*/\1==\2/p' DEPENDENCIES)
    home=$build/$pin/nvidia/cu13
    [ ! -e "$home" ] || return 0
    rm -rf "$build"
    mkdir -p "$build"
    python3 -m venv "$build/venv" || fail 'python3 has no venv (python3-venv)'
    "$build/venv/bin/pip" --disable-pip-version-check download -qq --no-deps --only-binary :all: --dest "$build" "$pin" ||
        fail "$pin cannot be fetched"
    "$build/venv/bin/python" -m zipfile -e "$build"/*.whl "$build/$pin.new"
    mv "$build/$pin.new" "$build/$pin"
}

home=$cuda
[ -e "$home/include/nvjpeg.h" ] || fetch

${CC:-cc} -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -I. -isystem "$home/include" -isystem "$cuda/include" -x c - <<'END'
#define NVJPEG_BACKEND_HARDWARE OUR_BACKEND_HARDWARE
#include "daemon/transfer/nvjpeg.h"
#undef NVJPEG_BACKEND_HARDWARE
#include <nvjpeg.h>

#define SAME(left, right) _Static_assert((int)(left) == (int)(right), #left)
SAME(NVJPEG_SUCCESS, NVJPEG_STATUS_SUCCESS);
SAME(NVJPEG_ALLOCATOR_FAILURE, NVJPEG_STATUS_ALLOCATOR_FAILURE);
SAME(OUR_BACKEND_HARDWARE, NVJPEG_BACKEND_HARDWARE);
SAME(NVJPEG_YUV, NVJPEG_OUTPUT_YUV);
SAME(NVJPEG_CHANNELS, NVJPEG_MAX_COMPONENT);
SAME(sizeof(int), sizeof(nvjpegStatus_t));
SAME(sizeof(int), sizeof(nvjpegBackend_t));
SAME(sizeof(int), sizeof(nvjpegOutputFormat_t));

#define TYPE(left, right) _Static_assert(__builtin_types_compatible_p(left, right), #left)
TYPE(nvjpeg_handle, nvjpegHandle_t);
TYPE(nvjpeg_state, nvjpegJpegState_t);
TYPE(nvjpeg_parameters, nvjpegDecodeParams_t);

SAME(sizeof(struct nvjpeg_planes), sizeof(nvjpegImage_t));
SAME(offsetof(struct nvjpeg_planes, channel), offsetof(nvjpegImage_t, channel));
SAME(offsetof(struct nvjpeg_planes, pitch), offsetof(nvjpegImage_t, pitch));
TYPE(__typeof__(((struct nvjpeg_planes *)0)->channel), __typeof__(((nvjpegImage_t *)0)->channel));
TYPE(__typeof__(((struct nvjpeg_planes *)0)->pitch), __typeof__(((nvjpegImage_t *)0)->pitch));

// As each is declared there, and here: an int for each enumeration, and pointers to anything for what we do not name.
#define CALL(name, theirs, ours) \
    TYPE(__typeof__(nvjpeg##name), nvjpegStatus_t theirs); \
    TYPE(__typeof__(((struct nvjpeg *)0)->name), int(*) ours)
CALL(CreateEx, (nvjpegBackend_t, nvjpegDevAllocator_t *, nvjpegPinnedAllocator_t *, unsigned, nvjpegHandle_t *),
     (int, void *, void *, unsigned, nvjpeg_handle *));
CALL(Destroy, (nvjpegHandle_t), (nvjpeg_handle));
CALL(GetHardwareDecoderInfo, (nvjpegHandle_t, unsigned *, unsigned *), (nvjpeg_handle, unsigned *, unsigned *));
CALL(JpegStateCreate, (nvjpegHandle_t, nvjpegJpegState_t *), (nvjpeg_handle, nvjpeg_state *));
CALL(JpegStateDestroy, (nvjpegJpegState_t), (nvjpeg_state));
CALL(DecodeParamsCreate, (nvjpegHandle_t, nvjpegDecodeParams_t *), (nvjpeg_handle, nvjpeg_parameters *));
CALL(DecodeParamsDestroy, (nvjpegDecodeParams_t), (nvjpeg_parameters));
CALL(DecodeParamsSetOutputFormat, (nvjpegDecodeParams_t, nvjpegOutputFormat_t), (nvjpeg_parameters, int));
CALL(DecodeParamsSetROI, (nvjpegDecodeParams_t, int, int, int, int), (nvjpeg_parameters, int, int, int, int));
CALL(DecodeBatchedInitialize, (nvjpegHandle_t, nvjpegJpegState_t, int, int, nvjpegOutputFormat_t),
     (nvjpeg_handle, nvjpeg_state, int, int, int));
CALL(DecodeBatchedEx,
     (nvjpegHandle_t, nvjpegJpegState_t, const unsigned char *const *, const size_t *, nvjpegImage_t *,
      nvjpegDecodeParams_t *, cudaStream_t),
     (nvjpeg_handle, nvjpeg_state, const unsigned char *const *, const size_t *, struct nvjpeg_planes *,
      nvjpeg_parameters *, void *));
SAME(sizeof(struct nvjpeg), 11 * sizeof(void *)); // no call is missing above
END

# What is looked up, by name.
names=$(sed -n 's/.*{"\(nvjpeg[A-Za-z]*\)", .*/\1/p' daemon/transfer/nvjpeg.c)
[ "$(printf '%s\n' "$names" | wc -l)" -eq 11 ] || fail "wanted 11 calls in daemon/transfer/nvjpeg.c, found: $names"
library=$(find "$home/lib" "$home/lib64" -name 'libnvjpeg.so.*' 2>/dev/null | sort | head -n 1)
for name in $names; do
    [ -z "$library" ] || nm -D --defined-only "$library" | grep -q " T $name\(@\|\$\)" || fail "$library has no $name"
done
printf 'nvjpeg-header: %s declares what we call%s\n' "$home/include/nvjpeg.h" "${library:+, and $library has it}"
