#include "daemon/image/jpeg_end.h"

#include <string.h>

#define END_OF_IMAGE 0xD9

// From the end, where it nearly always is.
bool image_jpeg_has_end(const uint8_t *bytes, size_t count) {
    const uint8_t *at;
    while ((at = memrchr(bytes, END_OF_IMAGE, count)) && at > bytes) {
        if (at[-1] == 0xFF)
            return true;
        count = (size_t)(at - bytes);
    }
    return false;
}
