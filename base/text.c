#include "base/text.h"

#include <stdbool.h>
#include <string.h>

#define ESCAPED 4u // the length of "\xNN"

static bool is_control(char letter) {
    unsigned char byte = (unsigned char)letter;
    return byte < ' ' || byte == 0x7f;
}

// The text only grows, so it is written from its end.
void text_escape(char *text, size_t bytes) {
    static const char digits[] = "0123456789abcdef";
    size_t kept = 0, size = 0;
    for (size_t next; text[kept]; kept++, size = next) {
        next = size + (is_control(text[kept]) ? ESCAPED : 1);
        if (next >= bytes)
            break;
    }
    text[size] = '\0';
    for (size_t i = kept; i > 0 && size > i; i--) { // before that, nothing moves
        char letter = text[i - 1];
        if (!is_control(letter)) {
            text[--size] = letter;
            continue;
        }
        size -= ESCAPED;
        const char escaped[ESCAPED] = {'\\', 'x', digits[(unsigned char)letter >> 4], digits[letter & 15]};
        memcpy(text + size, escaped, ESCAPED);
    }
}
