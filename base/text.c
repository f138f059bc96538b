#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ESCAPED 4u // the length of "\xNN"

// The length of the character that begins there: 1 to 4 bytes of printable UTF-8, or 0 for a byte that is escaped. No
// character is longer than `left`.
static size_t character(const char *text, size_t left) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t lead = (uint8_t)*text;
    if (lead < 0x80)
        return lead >= ' ' && lead != 0x7f;
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || length > left)
        return 0;
    uint32_t code = lead & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (((uint8_t)text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((uint8_t)text[i] & 0x3f);
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    bool control = code >= 0x80 && code < 0xa0;
    return code >= least[length] && code <= 0x10ffff && !surrogate && !control ? length : 0;
}

// The length of the character that ends before `end`, or 0 for a byte that is escaped.
static size_t character_before(const char *text, size_t end) {
    for (size_t length = 1; length <= 4 && length <= end; length++)
        if (character(text + end - length, length) == length)
            return length;
    return 0;
}

// The text only grows, so it is written from its end.
void text_escape(char *text, size_t bytes) {
    static const char digits[] = "0123456789abcdef";
    size_t kept = 0, size = 0, all = strlen(text);
    while (kept < all) {
        size_t length = character(text + kept, all - kept);
        size_t next = size + (length ? length : ESCAPED);
        if (next >= bytes)
            break;
        kept += length ? length : 1;
        size = next;
    }
    text[size] = '\0';
    while (kept > 0 && size > kept) { // before that, nothing moves
        size_t length = character_before(text, kept);
        if (length) {
            kept -= length;
            size -= length;
            memmove(text + size, text + kept, length);
            continue;
        }
        uint8_t byte = (uint8_t)text[--kept];
        size -= ESCAPED;
        const char escaped[ESCAPED] = {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
        memcpy(text + size, escaped, ESCAPED);
    }
}
