#include "client/ctl/others.h"

#include <stdio.h>

#include "client/ctl/text.h"

void others_take(const Feedd__Answer *page, struct others *others) {
    const Feedd__Others *left_out = page->others;
    if (left_out)
        *others = (struct others){left_out->sessions, left_out->feeds, left_out->consumers, left_out->loaders,
                                  left_out->ring_bytes};
}

static const char *plural(uint32_t count) {
    return count == 1 ? "" : "s";
}

const char *others_feeds(const struct others *others, char text[OTHERS_TEXT]) {
    char bytes[CTL_TEXT];
    ctl_format_bytes(others->ring_bytes, bytes);
    *text = '\0';
    if (others->feeds)
        snprintf(text, OTHERS_TEXT,
                 "%u feed%s of other users, with %u consumer%s, %u loader%s and rings of %s", others->feeds,
                 plural(others->feeds), others->consumers, plural(others->consumers), others->loaders,
                 plural(others->loaders), bytes);
    return text;
}

const char *others_sessions(const struct others *others, char text[OTHERS_TEXT]) {
    *text = '\0';
    if (others->sessions)
        snprintf(text, OTHERS_TEXT, "%u session%s of other users", others->sessions,
                 plural(others->sessions));
    return text;
}

json_t *others_json(const struct others *others) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "sessions", (json_int_t)others->sessions, "feeds",
                     (json_int_t)others->feeds, "consumers", (json_int_t)others->consumers, "loaders",
                     (json_int_t)others->loaders, "ring_bytes", (json_int_t)others->ring_bytes);
}
