#include "daemon/loader/stage/stage.h"

#include "base/sentence.h"

void stage_refuse(const struct stage_run *run, uint32_t i, int code, const char *format, ...) {
    struct error error = {.code = code};
    va_list arguments;
    va_start(arguments, format);
    sentence_format(error.text, sizeof error.text, format, arguments);
    va_end(arguments);
    run->refused(run->context, i, &error);
}
