#include "daemon/source/index/index_claims.h"

#include <pthread.h>

static LIST_HEAD(, index_claim) claims = LIST_HEAD_INITIALIZER(claims);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of the list
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

static bool is_claimed(struct index_key key) {
    const struct index_claim *claim;
    LIST_FOREACH(claim, &claims, link)
        if (claim->key.low == key.low && claim->key.high == key.high)
            return true;
    return false;
}

bool index_claim_begin(struct index_claim *claim, struct index_key key) {
    bool waited = false;
    pthread_mutex_lock(&lock);
    while (is_claimed(key)) {
        waited = true;
        pthread_cond_wait(&ended, &lock);
    }
    claim->key = key;
    LIST_INSERT_HEAD(&claims, claim, link);
    pthread_mutex_unlock(&lock);
    return waited;
}

void index_claim_end(struct index_claim *claim) {
    pthread_mutex_lock(&lock);
    LIST_REMOVE(claim, link);
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
}
