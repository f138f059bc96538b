// The inner loops of resizing with AVX2.
#ifndef FEEDD_DAEMON_IMAGE_RESIZE_AVX2_H
#define FEEDD_DAEMON_IMAGE_RESIZE_AVX2_H

#include "daemon/image/resize_kernels.h"

#ifdef __x86_64__
#define RESIZE_AVX2
extern const struct resize_kernels resize_avx2;
#endif

#endif
