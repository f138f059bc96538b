// allow_users and allow_groups of a dataset: who may use it. Names become numbers when the configuration is loaded,
// because looking one up may wait for a directory service; deciding only compares numbers.
#ifndef FEEDD_DAEMON_CONFIG_ALLOW_H
#define FEEDD_DAEMON_CONFIG_ALLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

enum allow_kind {
    ALLOW_USERS,
    ALLOW_GROUPS
};

struct allow_list {
    id_t *ids;
    size_t count;
};

// A client's user and groups.
struct identity {
    uid_t user;
    gid_t group;
    const gid_t *groups; // in addition
    size_t group_count;
};

// Fills `list` from names or numbers that commas or blanks separate. May wait for a directory service. -EINVAL: an
// unknown name, or no name at all; -EAGAIN: a name could not be looked up, which another attempt may change. The
// sentence in `error` names the culprit, but not the option.
int allow_list_resolve(enum allow_kind kind, const char *text, struct allow_list *list, struct error *error);
int allow_list_copy(struct allow_list *copy, const struct allow_list *list); // -ENOMEM
void allow_list_free(struct allow_list *list);

// Whether somebody may use what these two lists protect: everybody if both are empty, otherwise those that are in
// either. The caller decides about root and the daemon's own user.
bool allow_permits(const struct allow_list *users, const struct allow_list *groups,
                   const struct identity *identity);

#endif
