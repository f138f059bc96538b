#include "daemon/io_mode.h"

#include "base/sizes.h"

const char *io_mode_name(uint32_t mode) {
    static const char *const names[] = {
        [IO_AUTO] = "auto", [IO_URING] = "uring", [IO_MAPPED] = "mapped", [IO_PREAD] = "pread"};
    return mode < COUNT_OF(names) ? names[mode] : "?";
}
