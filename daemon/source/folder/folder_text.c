#include "daemon/source/folder/folder_text.h"

#include <errno.h>

#include "base/sizes.h"

static int make_room(struct folder_text *text, uint64_t bytes) {
    if (text->room - text->bytes >= bytes)
        return 0;
    const uint64_t room = max_u64(text->bytes + bytes, text->room * 2 + 4096);
    char *grown = realloc(text->text, room);
    if (!grown)
        return -ENOMEM;
    text->text = grown;
    text->room = room;
    return 0;
}

int folder_text_add(struct folder_text *text, const void *bytes, uint64_t count, uint64_t *at) {
    int err = make_room(text, count);
    if (err)
        return err;
    *at = text->bytes;
    if (count)
        memcpy(text->text + text->bytes, bytes, count);
    text->bytes += count;
    return 0;
}

int folder_text_add_string(struct folder_text *text, const char *string, uint64_t length, uint64_t *at) {
    uint64_t end;
    int err = make_room(text, length + 1);
    if (!err)
        err = folder_text_add(text, string, length, at);
    return err ? err : folder_text_add(text, "", 1, &end);
}
