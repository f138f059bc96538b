#include "shm/confinement.h"

#include "base/sizes.h"

const char *confinement_name(enum confinement_part part) {
    static const char *const names[] = {
        [CONFINED_PRIVILEGES] = "no_new_privs",
        [CONFINED_DUMPS] = "not_dumpable",
        [CONFINED_CAPABILITIES] = "no_capabilities",
        [CONFINED_LIMITS] = "limits",
        [CONFINED_PATHS] = "no_paths",
        [CONFINED_WRITES] = "no_writes",
        [CONFINED_TCP] = "no_tcp",
        [CONFINED_SIGNALS] = "no_signals",
        [CONFINED_CALLS] = "system_calls",
        [CONFINED_URING] = "io_uring",
    };
    return (uint32_t)part < COUNT_OF(names) ? names[part] : "?";
}
