#include "shm/reader_kind.h"

#include "base/sizes.h"

const char *reader_kind_name(uint32_t kind) {
    static const char *const names[] = {
        [READER_NONE] = "none",   [READER_URING_FIXED] = "uring (registered)",
        [READER_URING] = "uring", [READER_MAPPED] = "mapped",
        [READER_PREAD] = "pread",
    };
    return kind < COUNT_OF(names) ? names[kind] : "?";
}

const char *reader_reason_text(uint32_t reason) {
    static const char *const texts[] = {
        [REASON_NONE] = "",
        [REASON_CONFIGURED] = "configured",
        [REASON_COLD] = "the data is not in the page cache",
        [REASON_RESIDENT] = "the data is in the page cache",
        [REASON_URING_FORBIDDEN] = "io_uring is forbidden here",
        [REASON_URING_MISSING] = "this kernel has no io_uring, or one that is too old",
        [REASON_MEMLOCK] = "the limit on locked memory is too low: raise RLIMIT_MEMLOCK",
        [REASON_URING_FAILED] = "io_uring could not be set up",
        [REASON_DELAY] = "io_delay_us needs timers",
        [REASON_UNKNOWN] = "this system does not say what is in the page cache",
        [REASON_LARGE] = "the dataset is larger than mapped_limit",
        [REASON_DIRECT] = "io_direct bypasses the page cache",
        [REASON_UNMAPPED] = "some files cannot be mapped; they are read with pread",
        [REASON_FOLDER] = "the files of a folder are opened one by one",
    };
    return reason < COUNT_OF(texts) ? texts[reason] : "?";
}
