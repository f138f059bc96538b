#include "daemon/on_error.h"

#include "base/sizes.h"

const char *on_error_name(uint32_t on_error) {
    static const char *const names[] = {
        [ON_ERROR_FAIL] = "fail", [ON_ERROR_SKIP] = "skip", [ON_ERROR_REPLACE] = "replace"};
    return on_error < COUNT_OF(names) ? names[on_error] : "?";
}
