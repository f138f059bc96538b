#include "daemon/config/allow.h"

#include <grp.h>
#include <pwd.h>
#include <string.h>

#include "base/scope.h"
#include "daemon/config/config_values.h"

#define SEPARATORS ", \t"
#define ID_MOST    ((id_t)-2) // the last number means "none" in many system calls
#define ROOM_LEAST 1024u
#define ROOM_MOST  (16u << 20) // of a group with very many members
#define NAME_MOST  255u

// One attempt with that much room for the entry's texts. Returns what getpwnam_r does.
static int look_up_once(enum allow_kind kind, const char *name, char *room, size_t bytes, bool *found,
                        id_t *id) {
    struct passwd user, *found_user = NULL;
    struct group group, *found_group = NULL;
    int code = kind == ALLOW_USERS ? getpwnam_r(name, &user, room, bytes, &found_user)
                                   : getgrnam_r(name, &group, room, bytes, &found_group);
    *found = found_user || found_group;
    if (found_user)
        *id = found_user->pw_uid;
    if (found_group)
        *id = found_group->gr_gid;
    return code;
}

// Systems report an unknown name in all of these ways: getpwnam(3).
static bool means_unknown(int code) {
    return code == 0 || code == ENOENT || code == ESRCH || code == EBADF || code == EPERM;
}

static int look_up(enum allow_kind kind, const char *name, id_t *id, struct error *error) {
    const char *what = kind == ALLOW_USERS ? "user" : "group";
    for (size_t bytes = ROOM_LEAST; bytes <= ROOM_MOST; bytes *= 2) {
        bool found;
        AUTO_FREE char *room = malloc(bytes);
        if (!room)
            return error_set(error, -ENOMEM, "out of memory");
        int code = look_up_once(kind, name, room, bytes, &found, id);
        if (found)
            return 0;
        if (code == ERANGE)
            continue;
        if (means_unknown(code))
            return error_set(error, -EINVAL,
                             "found \"%s\", wanted the name or number of a %s of this machine", name, what);
        return error_set(error, -EAGAIN, "cannot look up %s \"%s\": %s", what, name, strerror(code));
    }
    return error_set(error, -EAGAIN, "cannot look up %s \"%s\": its entry is larger than %u MiB", what, name,
                     ROOM_MOST >> 20);
}

static int resolve_word(enum allow_kind kind, const char *word, id_t *id, struct error *error) {
    uint64_t number;
    if (!value_parse_integer(word, &number))
        return look_up(kind, word, id, error);
    if (number > ID_MOST)
        return error_set(error, -EINVAL, "found \"%s\", wanted a number of at most %u", word, ID_MOST);
    *id = (id_t)number;
    return 0;
}

static int add_word(enum allow_kind kind, const char *start, size_t length, struct allow_list *list,
                    struct error *error) {
    char word[NAME_MOST + 1];
    if (length > NAME_MOST)
        return error_set(error, -EINVAL, "found a name of %zu bytes, wanted at most %u", length, NAME_MOST);
    memcpy(word, start, length);
    word[length] = '\0';
    id_t *ids = reallocarray(list->ids, list->count + 1, sizeof *ids);
    if (!ids)
        return error_set(error, -ENOMEM, "out of memory");
    list->ids = ids;
    int err = resolve_word(kind, word, &ids[list->count], error);
    list->count += !err;
    return err;
}

int allow_list_resolve(enum allow_kind kind, const char *text, struct allow_list *list, struct error *error) {
    int err = 0;
    for (text += strspn(text, SEPARATORS); *text && !err; text += strspn(text, SEPARATORS)) {
        size_t length = strcspn(text, SEPARATORS);
        err = add_word(kind, text, length, list, error);
        text += length;
    }
    if (!err && list->count == 0) // it would let in everybody, which is hardly what was meant
        err = error_set(error, -EINVAL, "found no name, wanted at least one");
    if (err)
        allow_list_free(list);
    return err;
}

int allow_list_copy(struct allow_list *copy, const struct allow_list *list) {
    *copy = (struct allow_list){0};
    if (list->count == 0)
        return 0;
    copy->ids = malloc(list->count * sizeof *list->ids);
    if (!copy->ids)
        return -ENOMEM;
    memcpy(copy->ids, list->ids, list->count * sizeof *list->ids);
    copy->count = list->count;
    return 0;
}

void allow_list_free(struct allow_list *list) {
    free(list->ids);
    *list = (struct allow_list){0};
}

static bool contains(const struct allow_list *list, id_t id) {
    for (size_t i = 0; i < list->count; i++)
        if (list->ids[i] == id)
            return true;
    return false;
}

bool allow_permits(const struct allow_list *users, const struct allow_list *groups,
                   const struct identity *identity) {
    if (!users->count && !groups->count)
        return true;
    if (contains(users, identity->user) || contains(groups, identity->group))
        return true;
    for (size_t i = 0; i < identity->group_count && groups->count; i++)
        if (contains(groups, identity->groups[i]))
            return true;
    return false;
}
