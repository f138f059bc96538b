// Arrow files and streams that lie, opened as a dataset.
//
// With COMPLETE, a file that begins with ARROW1 gets the end that it needs around its footer: the footer's length and
// ARROW1 again.
#include "tests/fuzz/lying_files.h"

#define TAIL 10u

// The footer's length is in the two bytes before the end.
static void complete(uint8_t *bytes, size_t count) {
    if (count < 8 + TAIL || memcmp(bytes, "ARROW1", 6) != 0)
        return;
    uint16_t length;
    memcpy(&length, bytes + count - 2, sizeof length);
    uint32_t footer = (uint32_t)min_u64(length, count - 8 - TAIL);
    memcpy(bytes + count - TAIL, &footer, sizeof footer);
    memcpy(bytes + count - 6, "ARROW1", 6);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return open_columns("arrow", complete, data, size);
}
