#include "base/error.h"

#include <string.h>

#include "base/sentence.h"

void error_write(struct error *error, int code, const char *format, ...) {
    if (!error)
        return;
    va_list arguments;
    va_start(arguments, format);
    error->code = code;
    sentence_format(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
}

int error_prefix(struct error *error, const char *format, ...) {
    if (!error)
        return -EIO;
    char prefix[sizeof error->text], tail[sizeof error->text];
    memcpy(tail, error->text, sizeof tail);
    va_list arguments;
    va_start(arguments, format);
    sentence_format(prefix, sizeof prefix, format, arguments);
    va_end(arguments);
    sentence_write(error->text, sizeof error->text, "%s: %s", prefix, tail);
    return error->code;
}
