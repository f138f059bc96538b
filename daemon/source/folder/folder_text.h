// Strings of a folder's index, one after another, each with a 0 at its end.
#ifndef FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_TEXT_H
#define FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_TEXT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct folder_text {
    char *text;
    uint64_t bytes, room;
};

// Adds bytes as they are. 0 or -ENOMEM; `*at` is where they begin.
int folder_text_add(struct folder_text *text, const void *bytes, uint64_t count, uint64_t *at);

// Adds a string.
int folder_text_add_string(struct folder_text *text, const char *string, uint64_t length, uint64_t *at);

static inline void folder_text_release(struct folder_text *text) {
    free(text->text);
    *text = (struct folder_text){0};
}

#endif
