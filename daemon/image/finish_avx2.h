// The inner loops of finishing images with AVX2.
#ifndef FEEDD_DAEMON_IMAGE_FINISH_AVX2_H
#define FEEDD_DAEMON_IMAGE_FINISH_AVX2_H

#include "daemon/image/finish_kernels.h"

#ifdef __x86_64__
#define FINISH_AVX2
extern const struct finish_kernels finish_avx2;
#endif

#endif
