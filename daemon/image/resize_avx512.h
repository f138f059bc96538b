// The inner loops of resizing with AVX-512 and its VNNI.
#ifndef FEEDD_DAEMON_IMAGE_RESIZE_AVX512_H
#define FEEDD_DAEMON_IMAGE_RESIZE_AVX512_H

#include "daemon/image/resize_kernels.h"

#ifdef __x86_64__
#define RESIZE_AVX512
extern const struct resize_kernels resize_avx512;
// Whether this processor has what it needs.
bool resize_avx512_runs(void);
#endif

#endif
