// Parquet files that lie, opened as a dataset; then their blocks are decoded as loaders do it.
//
// With COMPLETE, a file gets the end that it needs after its footer: the footer's length and PAR1.
#include "tests/fuzz/lying_files.h"

#define TAIL 8u

// The footer's length is in the two bytes before the end.
static void complete(uint8_t *bytes, size_t count) {
    if (count < 4 + TAIL)
        return;
    uint16_t length;
    memcpy(&length, bytes + count - 2, sizeof length);
    uint32_t footer = (uint32_t)min_u64(length, count - 4 - TAIL);
    memcpy(bytes + count - TAIL, &footer, sizeof footer);
    memcpy(bytes + count - 4, "PAR1", 4); // NOLINT(bugprone-not-null-terminated-result): not a string
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return open_columns("parquet", complete, data, size);
}
