#include "daemon/supervisor/clients/admission.h"

#include <string.h>

#include "base/names.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/indexing.h"

// ---- Datasets ----------------------------------------------------------------------------------------------

static bool is_allowed(struct session *session, const struct dataset_config *config) {
    if (config->groups.count)
        peer_groups_read(&session->groups, session->fd);
    struct identity identity = {.user = session->peer.uid,
                                .group = session->peer.gid,
                                .groups = session->groups.ids,
                                .group_count = session->groups.count};
    return allow_permits(&config->users, &config->groups, &identity);
}

// A mix is for those who may use all of its sources.
static bool may_use(struct session *session, size_t i) {
    const struct dataset_config *datasets = session->supervisor->config->datasets;
    bool may = session->trusted || is_allowed(session, &datasets[i]);
    for (size_t k = 0; k < datasets[i].source_count && may && !session->trusted; k++)
        may = is_allowed(session, &datasets[datasets[i].source_numbers[k]]);
    return may;
}

bool admission_shows_dataset(struct session *session, size_t i) {
    return admission_shows_all(session) || may_use(session, i);
}

// Suggests only what the client would find in its list. An invalid name is not repeated.
static int refuse_unknown(struct session *session, const char *wanted, struct error *error) {
    const struct supervisor *supervisor = session->supervisor;
    if (!name_is_valid(wanted))
        return error_set(error, -ENOENT,
                         "there is no dataset of that name; feedctl datasets lists what there is");
    AUTO_FREE const char **names = calloc(supervisor->dataset_count + 1, sizeof *names);
    for (size_t i = 0; names && i < supervisor->dataset_count; i++)
        names[i] = admission_shows_dataset(session, i) ? supervisor->config->datasets[i].name : NULL;
    const char *nearest = names ? name_nearest(wanted, names, supervisor->dataset_count) : NULL;
    if (nearest)
        return error_set(error, -ENOENT, "there is no dataset named \"%.64s\"; perhaps you mean \"%s\"",
                         wanted, nearest);
    return error_set(error, -ENOENT,
                     "there is no dataset named \"%.64s\"; feedctl datasets lists what there is, and feedctl"
                     " reload applies changes to feedd.conf",
                     wanted);
}

static int refuse_use(const struct session *session, const struct dataset_config *of, struct error *error) {
    if (session->groups.lack)
        return error_set(error, session->groups.lack,
                         "cannot tell whether you may use dataset %s, because your groups cannot be read: %s",
                         of->name, strerror(-session->groups.lack));
    if (of->mix)
        return error_set(error, -EACCES,
                         "you may not use mix %s: ask the administrator to add you to allow_users or"
                         " allow_groups of all of its sources",
                         of->name);
    return error_set(error, -EACCES,
                     "you may not use dataset %s: ask the administrator to add you to allow_users or"
                     " allow_groups of [dataset %s]",
                     of->name, of->name);
}

int admission_find(struct session *session, const char *name, const struct dataset **dataset,
                   struct error *error) {
    struct supervisor *supervisor = session->supervisor;
    size_t i;
    if (!datasets_find(supervisor, name, &i))
        return refuse_unknown(session, name, error);
    session->groups.lack = 0; // it may be left over from another dataset
    if (!may_use(session, i))
        return refuse_use(session, &supervisor->config->datasets[i], error);
    *dataset = supervisor->datasets[i];
    if (*dataset)
        return 0;
    indexing_use(supervisor, i);
    return indexing_refuse(supervisor, i, error);
}

// ---- Other users -------------------------------------------------------------------------------------------

bool admission_shows_all(const struct session *session) {
    return session->supervisor->config->show_others || session->trusted;
}

bool admission_shows_user(const struct session *session, uid_t user) {
    return user == session->peer.uid || admission_shows_all(session);
}

bool admission_count_others(const struct session *session, Feedd__Others *others) {
    const struct session *client;
    const struct served_feed *feed;
    feedd__others__init(others);
    TAILQ_FOREACH(client, &session->supervisor->sessions, link)
        others->sessions += !admission_shows_user(session, client->peer.uid);
    LIST_FOREACH(feed, &session->supervisor->feeds, link) {
        if (admission_shows_user(session, feed->user))
            continue;
        others->feeds++;
        others->consumers += feed->delivery.consumer_count;
        others->loaders += feed->loaders_running;
        others->ring_bytes += feed->ring_bytes;
    }
    return others->sessions || others->feeds;
}
