#include "daemon/supervisor/clients/query.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/on_error.h"
#include "daemon/supervisor/clients/admission.h"
#include "daemon/supervisor/clients/query_dataset.h"
#include "daemon/supervisor/clients/query_errors.h"
#include "daemon/supervisor/clients/query_files.h"
#include "daemon/supervisor/clients/query_indices.h"
#include "daemon/supervisor/clients/query_page.h"
#include "daemon/supervisor/clients/query_status.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "order/partition.h"
#include "shm/reader_kind.h"

#define PAGE_ROWS     64u
#define PAGE_DATASETS 10u      // with up to 16 fields each, and a line of feedd.conf for each of those
#define WAIT_SHOWN_NS NS_PER_S // working storage hardly ever takes longer, also when it is busy

static void send_answer(struct session *session, Feedd__Answer *answer) {
    Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
    frame.body_case = FEEDD__SERVER_MESSAGE__BODY_ANSWER;
    frame.answer = answer;
    session_send(session, &frame.base);
}

// Counts what the list leaves out, on its last page.
static void send_list(struct session *session, Feedd__Answer *answer) {
    Feedd__Others others;
    if (!answer->next && admission_count_others(session, &others))
        answer->others = &others;
    send_answer(session, answer);
}

static void answer_datasets(struct session *session, uint32_t start) {
    const struct supervisor *supervisor = session->supervisor;
    static Feedd__Dataset rows[PAGE_DATASETS]; // too much for the stack; the supervisor has one thread
    static Feedd__Indexing indexing[PAGE_DATASETS];
    static Feedd__Field fields[PAGE_DATASETS][RING_MAX_FIELDS];
    static Feedd__Field *field_lists[PAGE_DATASETS][RING_MAX_FIELDS];
    Feedd__Dataset *list[PAGE_DATASETS];
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    struct page page = {.start = start, .most = PAGE_DATASETS};
    for (size_t i = 0; i < supervisor->dataset_count; i++) {
        if (!admission_shows_dataset(session, i) || !page_takes(&page))
            continue;
        uint32_t row = page.count - 1;
        query_describe_dataset(session, i, &rows[row], &indexing[row], fields[row], field_lists[row]);
        list[row] = &rows[row];
    }
    answer.next = page.next;
    answer.n_datasets = page.count;
    answer.datasets = list;
    send_answer(session, &answer);
}

// The reader that the feed's loaders use, if they have one yet. If there are several kinds: the first, with a '+'.
static void describe_reader(const struct served_feed *feed, char *text, size_t bytes) {
    uint32_t first = READER_NONE;
    bool mixed = false;
    const struct loader_process *loader;
    LIST_FOREACH(loader, &feed->loaders, link) {
        uint32_t kind = atomic_load_explicit(&loader->record->reader, memory_order_relaxed);
        if (kind == READER_NONE)
            continue;
        mixed |= first != READER_NONE && kind != first;
        first = first == READER_NONE ? kind : first;
    }
    snprintf(text, bytes, "%s%s", reader_kind_name(first), mixed ? "+" : "");
}

static void describe_feed(const struct served_feed *feed, Feedd__Feed *row, char *reader,
                          size_t reader_bytes) {
    feedd__feed__init(row);
    row->id = feed->id;
    row->name = (char *)feed->name;
    row->dataset = feed->dataset->name;
    row->batch_size = feed->shape.batch_size;
    row->world_size = feed->shape.world_size;
    row->shuffle = feed->shape.shuffle || dataset_is_drawn(feed->shape.dataset);
    row->seed = feed->shape.seed;
    row->slots = feed->ring.header ? feed->ring.header->slot_count : 0;
    row->ring_bytes = feed->ring_bytes;
    row->consumers = feed->delivery.consumer_count;
    row->loaders = feed->loaders_running;
    row->state = (char *)(feed->state == FEED_RUNNING && LIST_EMPTY(&feed->members)
                              ? "idle"
                              : served_feed_state_name(feed->state));
    row->user = feed->user;
    row->images = (char *)feed->images_by;
    describe_reader(feed, reader, reader_bytes);
    row->reader = reader;
    const struct lane *lane;
    uint64_t furthest = 0;
    LIST_FOREACH(lane, &feed->delivery.lanes, link)
        furthest = max_u64(furthest, lane->base);
    struct batch_place place = {0};
    if (partition_locate(&feed->delivery.partition, 0, furthest, &place) == 0) {
        row->epoch = place.epoch;
        row->batch = place.index;
    }
}

static void answer_feeds(struct session *session, uint32_t start) {
    Feedd__Feed rows[PAGE_ROWS];
    Feedd__Feed *list[PAGE_ROWS];
    char readers[PAGE_ROWS][48];
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    struct page page = {.start = start, .most = PAGE_ROWS};
    const struct served_feed *feed;
    LIST_FOREACH(feed, &session->supervisor->feeds, link) {
        if (!admission_shows_user(session, feed->user) || !page_takes(&page))
            continue;
        uint32_t row = page.count - 1;
        describe_feed(feed, &rows[row], readers[row], sizeof readers[row]);
        list[row] = &rows[row];
    }
    answer.next = page.next;
    answer.n_feeds = page.count;
    answer.feeds = list;
    send_list(session, &answer);
}

static void describe_client(const struct session *session, Feedd__Client *row) {
    const struct member *member = &session->member;
    const struct consumer *consumer = &member->consumer;
    feedd__client__init(row);
    row->session = session->id;
    row->name = (char *)session->name;
    row->pid = (uint64_t)session->peer.pid;
    row->user = session->peer.uid;
    row->state = (char *)session_state_name(session->state);
    if (!member->feed)
        return;
    struct batch_place place = {0};
    row->feed = member->feed->id;
    row->rank = (uint32_t)consumer->lane->rank;
    row->prefetch = consumer->prefetch;
    row->held = consumer->held_count;
    row->batches = consumer->batches;
    row->waiting = consumer->waiting_since_ns != 0;
    row->device = (char *)(*member->request.device ? member->request.device : "cpu");
    if (partition_locate(&member->feed->delivery.partition, consumer->lane->rank, consumer->cursor, &place) ==
        0)
        row->epoch = place.epoch;
}

static void answer_clients(struct session *session, uint32_t start) {
    Feedd__Client rows[PAGE_ROWS];
    Feedd__Client *list[PAGE_ROWS];
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    struct page page = {.start = start, .most = PAGE_ROWS};
    const struct session *client;
    TAILQ_FOREACH(client, &session->supervisor->sessions, link) {
        if (!admission_shows_user(session, client->peer.uid) || !page_takes(&page))
            continue;
        uint32_t row = page.count - 1;
        describe_client(client, &rows[row]);
        list[row] = &rows[row];
    }
    answer.next = page.next;
    answer.n_clients = page.count;
    answer.clients = list;
    send_list(session, &answer);
}

// NULL: it waits for none, or not long enough to be told.
static const char *awaited_file(const struct served_feed *feed, const struct loader_process *loader,
                                uint64_t now, uint64_t *waited_ns, char text[DATASET_PATH_TEXT]) {
    struct loader_read read;
    if (!loader_process_read(loader, dataset_file_numbers(feed->dataset), now, &read) ||
        read.age_ns < WAIT_SHOWN_NS)
        return NULL;
    *waited_ns = read.age_ns;
    return dataset_file_path(feed->dataset, read.file, text);
}

static void describe_loader(const struct loader_process *loader, uint64_t feed, uint64_t now,
                            Feedd__Process *row) {
    const struct stats_loader *record = loader->record;
    feedd__process__init(row);
    row->role = (char *)"loader";
    row->pid = (uint64_t)process_pid(&loader->process);
    row->state = (char *)process_state_name(loader->process.state);
    row->feed = feed;
    row->serial = loader->serial;
    row->reader = (char *)reader_kind_name(atomic_load_explicit(&record->reader, memory_order_relaxed));
    row->reason =
        (char *)reader_reason_text(atomic_load_explicit(&record->reader_reason, memory_order_relaxed));
    row->heartbeat_age_ns = loader_process_silent_ns(loader, now);
}

static void answer_processes(struct session *session, uint32_t start) {
    Feedd__Process rows[PAGE_ROWS];
    Feedd__Process *list[PAGE_ROWS];
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    struct page page = {.start = start, .most = PAGE_ROWS};
    uint64_t now = monotonic_ns();
    char texts[PAGE_PATHS][DATASET_PATH_TEXT];
    uint32_t paths = 0;
    const struct served_feed *feed;
    const struct loader_process *loader;
    if (page_takes(&page)) {
        feedd__process__init(&rows[0]);
        rows[0].role = (char *)"supervisor";
        rows[0].pid = (uint64_t)getpid();
        rows[0].state = (char *)"running";
        list[0] = &rows[0];
    }
    LIST_FOREACH(feed, &session->supervisor->feeds, link) {
        LIST_FOREACH(loader, &feed->loaders, link) {
            if (!admission_shows_user(session, feed->user) || !page_takes(&page))
                continue;
            uint32_t row = page.count - 1;
            describe_loader(loader, feed->id, now, &rows[row]);
            list[row] = &rows[row];
            uint64_t waited_ns;
            const char *path = awaited_file(feed, loader, now, &waited_ns, texts[paths]);
            if (!path)
                continue;
            rows[row].waits_for = (char *)path;
            rows[row].waited_ns = waited_ns;
            if (++paths == PAGE_PATHS)
                page.most = page.count; // it is full
        }
    }
    answer.next = page.next;
    answer.n_processes = page.count;
    answer.processes = list;
    send_list(session, &answer);
}

void query_answer(struct session *session, const Feedd__Query *query) {
    switch (query->kind) {
    case FEEDD__QUERY__KIND__STATUS:
        query_status(session, send_list);
        return;
    case FEEDD__QUERY__KIND__DATASETS:
        answer_datasets(session, query->start);
        return;
    case FEEDD__QUERY__KIND__FEEDS:
        answer_feeds(session, query->start);
        return;
    case FEEDD__QUERY__KIND__CLIENTS:
        answer_clients(session, query->start);
        return;
    case FEEDD__QUERY__KIND__FILES:
        query_files(session, query->name, query->start, send_answer);
        return;
    case FEEDD__QUERY__KIND__PROCESSES:
        answer_processes(session, query->start);
        return;
    case FEEDD__QUERY__KIND__INDICES:
        query_indices(session, query->name, query->start, send_answer);
        return;
    case FEEDD__QUERY__KIND__INDEX:
        query_index(session, query->name, query->start, send_answer);
        return;
    case FEEDD__QUERY__KIND__GROUPS:
        query_groups(session, query->name, query->start, send_answer);
        return;
    case FEEDD__QUERY__KIND__SOURCES:
        query_sources(session, query->name, send_answer);
        return;
    case FEEDD__QUERY__KIND__SHARES:
        query_shares(session, query->name, query->start, send_answer);
        return;
    case FEEDD__QUERY__KIND__ERRORS:
        query_errors(session, query->name, query->start, send_answer);
        return;
    default:
        session_refuse(session, -EINVAL, "this daemon does not know that query");
    }
}
