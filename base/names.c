#include "base/names.h"

#include <string.h>

bool name_is_valid(const char *text) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strlen(text);
    return length <= NAME_LENGTH_MAX && strspn(text, allowed) == length;
}
