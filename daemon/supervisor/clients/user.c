#include "daemon/supervisor/clients/user.h"

#include <inttypes.h>

// A page of a list costs up to a few tens of microseconds, so this is a few percent of a processor.
#define QUESTIONS_PER_S   1000u
#define QUESTIONS_AT_ONCE 500u
// Job arrays that start together fit; a job that attaches and leaves in a loop does not keep the processors busy with
// starting loaders.
#define FEEDS_PER_S   4u
#define FEEDS_AT_ONCE 32u
// 64 KB each: 64 MB/s, for a tenth of a processor at most. Those of a quarter of a second come at once, after a tick.
#define PIECES_PER_S   1000u
#define PIECES_AT_ONCE 250u
#define LINES_PER_S    20u
#define LINES_AT_ONCE  100u

struct user *user_get(struct supervisor *supervisor, uid_t uid, uint64_t now) {
    struct user *user;
    LIST_FOREACH(user, &supervisor->users, link)
        if (user->uid == uid)
            break;
    if (!user) {
        user = calloc(1, sizeof *user);
        if (!user)
            return NULL;
        user->uid = uid;
        bucket_init(&user->questions, QUESTIONS_PER_S, QUESTIONS_AT_ONCE, now);
        bucket_init(&user->new_feeds, FEEDS_PER_S, FEEDS_AT_ONCE, now);
        TAILQ_INIT(&user->waiting);
        bucket_init(&user->pieces, PIECES_PER_S, PIECES_AT_ONCE, now);
        bucket_init(&user->log_lines, LINES_PER_S, LINES_AT_ONCE, now);
        LIST_INSERT_HEAD(&supervisor->users, user, link);
    }
    user->sessions++;
    return user;
}

void user_put(struct user *user) {
    user->sessions--;
}

static void tell_left_out(struct user *user) {
    if (user->lines_left_out)
        log_info("%" PRIu64 " lines about sessions of user %d were suppressed", user->lines_left_out,
                 (int)user->uid);
    user->lines_left_out = 0;
}

void users_forget(struct supervisor *supervisor, uint64_t now) {
    struct user *user, *next;
    LIST_FOREACH_SAFE(user, &supervisor->users, link, next) {
        if (user->sessions || !bucket_is_full(&user->questions, now) ||
            !bucket_is_full(&user->new_feeds, now) || !bucket_is_full(&user->pieces, now) ||
            !bucket_is_full(&user->log_lines, now))
            continue;
        tell_left_out(user);
        LIST_REMOVE(user, link);
        free(user);
    }
}

bool user_may_ask(struct user *user, uint64_t now) {
    return bucket_take(&user->questions, now);
}

bool user_may_make_feed(struct user *user, struct feed_wait *wait, uint64_t now) {
    const struct feed_wait *first = TAILQ_FIRST(&user->waiting);
    const bool may = (!first || first == wait) && bucket_take(&user->new_feeds, now);
    if (may)
        user_stop_waiting(user, wait);
    if (may || wait->waits)
        return may;
    TAILQ_INSERT_TAIL(&user->waiting, wait, link);
    wait->waits = true;
    return false;
}

void user_stop_waiting(struct user *user, struct feed_wait *wait) {
    if (wait->waits)
        TAILQ_REMOVE(&user->waiting, wait, link);
    wait->waits = false;
}

bool user_may_send_piece(struct user *user, uint64_t now) {
    return bucket_take(&user->pieces, now);
}

bool user_may_log(struct user *user, uint64_t now) {
    if (!bucket_take(&user->log_lines, now)) {
        user->lines_left_out++;
        return false;
    }
    tell_left_out(user);
    return true;
}
