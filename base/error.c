#include "base/error.h"

#include <string.h>

#include "base/text.h"

void error_write(struct error *error, int code, const char *format, ...) {
    if (!error)
        return;
    va_list arguments;
    va_start(arguments, format);
    error->code = code;
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    text_escape(error->text, sizeof error->text); // it may quote what others wrote
}

int error_prefix(struct error *error, const char *format, ...) {
    if (!error)
        return -EIO;
    char tail[sizeof error->text];
    memcpy(tail, error->text, sizeof tail);
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    if (used >= 0 && (size_t)used < sizeof error->text)
        snprintf(error->text + used, sizeof error->text - (size_t)used, ": %s", tail);
    text_escape(error->text, sizeof error->text);
    return error->code;
}
