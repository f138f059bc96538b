#include "daemon/supervisor/feeds/member.h"

#include <stdarg.h>

#include "base/error.h"
#include "base/sentence.h"

void member_init(struct member *member, const struct member_events *events) {
    *member = (struct member){.events = events, .words_fd = -1};
}

void member_fail(struct member *member, int code, const char *format, ...) {
    char text[sizeof((struct error *)0)->text];
    va_list arguments;
    va_start(arguments, format);
    sentence_format(text, sizeof text, format, arguments);
    va_end(arguments);
    member->failed = true;
    member->events->failed(member, code, text);
}
