// The inner loops of finishing images with AVX-512.
#ifndef FEEDD_DAEMON_IMAGE_FINISH_AVX512_H
#define FEEDD_DAEMON_IMAGE_FINISH_AVX512_H

#include "daemon/image/finish_kernels.h"

#ifdef __x86_64__
#define FINISH_AVX512
extern const struct finish_kernels finish_avx512;
// Whether this processor has what it needs: AVX-512 with VBMI.
bool finish_avx512_runs(void);
#endif

#endif
