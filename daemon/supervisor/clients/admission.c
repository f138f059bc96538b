#include "daemon/supervisor/clients/admission.h"

#include "base/names.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/trusted.h"

bool admission_permits(struct session *session, size_t i) {
    const struct dataset_config *config = &session->supervisor->config->datasets[i];
    if (user_is_trusted(session->peer.uid))
        return true;
    if (config->groups.count)
        peer_groups_read(&session->groups, session->fd);
    struct identity identity = {.user = session->peer.uid,
                                .group = session->peer.gid,
                                .groups = session->groups.ids,
                                .group_count = session->groups.count};
    return allow_permits(&config->users, &config->groups, &identity);
}

// Suggests only what the client would find in its list. An invalid name is not repeated.
static int refuse_unknown(struct session *session, const char *wanted, struct error *error) {
    const struct supervisor *supervisor = session->supervisor;
    if (!name_is_valid(wanted))
        return error_set(error, -ENOENT,
                         "there is no dataset of that name; feedctl datasets lists what there is");
    AUTO_FREE const char **names = calloc(supervisor->dataset_count + 1, sizeof *names);
    for (size_t i = 0; names && i < supervisor->dataset_count; i++)
        names[i] = admission_permits(session, i) ? supervisor->datasets[i]->name : NULL;
    const char *nearest = names ? name_nearest(wanted, names, supervisor->dataset_count) : NULL;
    if (nearest)
        return error_set(error, -ENOENT, "there is no dataset named \"%.64s\"; perhaps you mean \"%s\"",
                         wanted, nearest);
    return error_set(error, -ENOENT,
                     "there is no dataset named \"%.64s\"; feedctl datasets lists what there is", wanted);
}

int admission_find(struct session *session, const char *name, const struct dataset **dataset,
                   struct error *error) {
    const struct supervisor *supervisor = session->supervisor;
    size_t i;
    if (!datasets_find(supervisor, name, &i))
        return refuse_unknown(session, name, error);
    if (!admission_permits(session, i))
        return error_set(error, -EACCES,
                         "you may not use dataset %s: ask the administrator to add you to allow_users or"
                         " allow_groups of [dataset %s]",
                         name, name);
    *dataset = supervisor->datasets[i];
    return 0;
}
