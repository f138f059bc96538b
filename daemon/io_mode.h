// How loaders read, as feedd.conf says it: io = auto, uring, mapped or pread.
#ifndef FEEDD_DAEMON_IO_MODE_H
#define FEEDD_DAEMON_IO_MODE_H

#include <stdint.h>

enum io_mode {
    IO_AUTO,
    IO_URING,
    IO_MAPPED,
    IO_PREAD
};

// "?" for a number that is not a mode.
const char *io_mode_name(uint32_t mode);

#endif
