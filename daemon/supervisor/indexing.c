#include "daemon/supervisor/indexing.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/source/source.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/made_of.h"
#include "daemon/supervisor/notify.h"
#include "daemon/supervisor/task.h"

#define LOG_EVERY_NS    (10 * NS_PER_S)
#define STATUS_EVERY_NS (2 * NS_PER_S)

// One dataset at work.
struct work {
    struct task *task;
    size_t number;
    bool unwanted;          // the configuration has changed meanwhile
    bool done;              // the thread has finished
    uint64_t seen, seen_ns; // figures when they last grew, and when that was
    struct index_progress progress;
    // The thread's, and the loop's once it is done.
    struct config *config;
    struct dataset *base; // a reference to the dataset of a view that is not open yet; else NULL
    struct dataset *dataset;
    struct error error;
};

struct indexing {
    struct index_entry *entries; // one per dataset of the configuration
    struct work *work;           // or NULL
    uint64_t generation;
    uint64_t logged_ns, told_ns;
};

static struct index_entry *entry_at(const struct supervisor *supervisor, size_t number) {
    const struct indexing *indexing = supervisor->indexing;
    return indexing && indexing->entries && number < supervisor->dataset_count ? &indexing->entries[number]
                                                                               : NULL;
}

// ---- In the thread -----------------------------------------------------------------------------------------

static void build(void *context) {
    struct work *work = context;
    const struct source_index index = {.progress = &work->progress, .base = work->base};
    source_open_indexed(&work->config->datasets[work->number], &index, &work->dataset, &work->error);
}

// ---- On the loop -------------------------------------------------------------------------------------------

static void on_built(void *context) {
    struct work *work = context;
    work->done = true;
}

// In the thread if the loop has left; else the dataset is closed already.
static void discard(void *context) {
    struct work *work = context;
    dataset_unref(work->dataset);
    dataset_unref(work->base);
    config_free(work->config);
    free(work);
}

static int begin(struct supervisor *supervisor, size_t number) {
    struct indexing *indexing = supervisor->indexing;
    struct work *work = calloc(1, sizeof *work);
    if (!work)
        return -ENOMEM;
    const struct task_work task = {.run = build, .ended = on_built, .discard = discard, .context = work};
    work->number = number;
    work->config = config_ref(supervisor->config);
    // For a view that is open, the files are opened again, to check them.
    if (work->config->datasets[number].view && !supervisor->datasets[number])
        work->base = dataset_ref(supervisor->datasets[work->config->datasets[number].of_number]);
    work->seen_ns = monotonic_ns();
    int err = task_start(&supervisor->poll_set, &task, &work->task);
    if (err) {
        discard(work);
        return err;
    }
    indexing->work = work;
    indexing->logged_ns = indexing->told_ns = work->seen_ns;
    log_debug("dataset %s: its index is being built or checked", supervisor->config->datasets[number].name);
    return 0;
}

static void end_round(struct supervisor *supervisor, size_t number, int code, const char *text) {
    index_entry_end(entry_at(supervisor, number), supervisor->datasets[number], code, text, monotonic_ns());
}

static void fail(struct supervisor *supervisor, size_t number, int code, const char *why) {
    const char *name = supervisor->config->datasets[number].name;
    char text[INDEX_ENTRY_TEXT];
    supervisor_report(
        supervisor, "dataset %s: %s: %s", name,
        supervisor->datasets[number] ? "the check of its index failed" : "its index cannot be built", why);
    snprintf(text, sizeof text, "%s", why);
    end_round(supervisor, number, code, text);
}

static void succeed(struct supervisor *supervisor, struct work *work) {
    struct dataset *fresh = work->dataset, **served = &supervisor->datasets[work->number];
    char text[INDEX_ENTRY_TEXT];
    const char *note = *fresh->index_note ? fresh->index_note : "no index is needed";
    if (!*served) {
        *served = fresh;
        work->dataset = NULL;
        log_info("dataset %s: %s", fresh->name, note);
        snprintf(text, sizeof text, "dataset %s is ready: %" PRIu64 " samples, %s", fresh->name,
                 fresh->layout->samples, note);
    } else if ((*served)->layout->fingerprint == fresh->layout->fingerprint) {
        snprintf(text, sizeof text, "dataset %s: the index fits its files: %" PRIu64 " samples, %s",
                 fresh->name, fresh->layout->samples, note);
    } else {
        snprintf(text, sizeof text,
                 "dataset %s: its files have changed since feedd opened them: %" PRIu64
                 " samples, %s; feedctl"
                 " reload serves them",
                 fresh->name, fresh->layout->samples, note);
        log_warning("%s", text);
    }
    end_round(supervisor, work->number, 0, text);
}

static void say_served(const struct supervisor *supervisor) {
    for (size_t i = 0; i < supervisor->dataset_count; i++)
        if (!supervisor->datasets[i] && indexing_state(supervisor, i) != INDEX_FAILED)
            return;
    notify_ready(supervisor->dataset_count, supervisor->socket_path);
}

// A mix has no index, and can be opened as soon as its sources are open. Returns 0 if that has ended the round.
static int open_mix(struct supervisor *supervisor, size_t number, struct error *error) {
    int err = made_of_open_mix(supervisor, number, error);
    if (err)
        return err;
    end_round(supervisor, number, 0, "the mix is ready: it has no index but those of its sources");
    supervisor->again = true; // for the next one
    say_served(supervisor);
    return 0;
}

// Those that have failed for want of it.
static void try_those_of(struct supervisor *supervisor, size_t of) {
    for (size_t i = 0; i < supervisor->dataset_count; i++)
        if (made_of_uses(supervisor, i, of) && indexing_state(supervisor, i) == INDEX_FAILED)
            index_entry_queue(entry_at(supervisor, i));
}

static void finish(struct supervisor *supervisor) {
    struct indexing *indexing = supervisor->indexing;
    struct work *work = indexing->work;
    indexing->work = NULL;
    if (!work->unwanted && work->dataset) {
        succeed(supervisor, work);
        try_those_of(supervisor, work->number);
    }
    if (!work->unwanted && work->error.code)
        fail(supervisor, work->number, work->error.code, work->error.text);
    if (work->dataset)
        datasets_release(work->dataset, supervisor->own_closer);
    if (work->base)
        datasets_release(work->base, supervisor->own_closer);
    work->dataset = work->base = NULL;
    task_leave(work->task); // it has ended, so this frees the work
    say_served(supervisor);
}

static bool find_queued(const struct supervisor *supervisor, size_t *number) {
    for (*number = 0; *number < supervisor->dataset_count; ++*number)
        if (indexing_state(supervisor, *number) == INDEX_QUEUED && made_of_is_settled(supervisor, *number))
            return true;
    return false;
}

bool indexing_is_due(const struct supervisor *supervisor) {
    size_t number;
    const struct indexing *indexing = supervisor->indexing;
    return indexing && supervisor->state < SUPERVISOR_STOPPING &&
           (indexing->work ? indexing->work->done : find_queued(supervisor, &number));
}

void indexing_act(struct supervisor *supervisor) {
    size_t number;
    if (!indexing_is_due(supervisor))
        return;
    if (supervisor->indexing->work)
        finish(supervisor);
    if (!find_queued(supervisor, &number))
        return;
    struct error error = {0};
    index_entry_begin(entry_at(supervisor, number));
    int err = supervisor->datasets[number] ? 0 : made_of_missing(supervisor, number, &error);
    if (!err && supervisor->config->datasets[number].mix)
        err = open_mix(supervisor, number, &error);
    else if (!err && (err = begin(supervisor, number)) < 0)
        error_set(&error, err, "%s", strerror(-err));
    if (!err)
        return;
    fail(supervisor, number, err, error.text);
    supervisor->again = true; // for the next one
    say_served(supervisor);
}

// ---- The tick ----------------------------------------------------------------------------------------------

static uint64_t read_word(const _Atomic uint64_t *word) {
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void watch(struct work *work, uint64_t now) {
    uint64_t seen = read_word(&work->progress.started_ns) + read_word(&work->progress.bytes_done) +
                    read_word(&work->progress.files_done);
    if (seen != work->seen)
        work->seen_ns = now;
    work->seen = seen;
}

void indexing_tick(struct supervisor *supervisor, uint64_t now) {
    struct indexing *indexing = supervisor->indexing;
    struct index_figures figures;
    char text[INDEXING_TEXT];
    if (!indexing || !indexing->work || indexing->work->unwanted)
        return;
    watch(indexing->work, now);
    if (!indexing_figures(supervisor, indexing->work->number, now, &figures))
        return;
    const char *name = supervisor->config->datasets[indexing->work->number].name;
    index_figures_describe(&figures, text);
    if (now - indexing->told_ns >= STATUS_EVERY_NS && supervisor->state < SUPERVISOR_STOPPING) {
        notify_status("dataset %s: indexing, %s", name, text);
        indexing->told_ns = now;
    }
    if (now - indexing->logged_ns >= LOG_EVERY_NS) {
        log_info("dataset %s: indexing, %s", name, text);
        indexing->logged_ns = now;
    }
}

// ---- Beginning and end -------------------------------------------------------------------------------------

static struct index_entry *new_entries(const struct supervisor *supervisor) {
    return calloc(supervisor->dataset_count + 1, sizeof(struct index_entry));
}

int indexing_open(struct supervisor *supervisor) {
    struct indexing *indexing = supervisor->indexing = calloc(1, sizeof *indexing);
    if (indexing)
        indexing->entries = new_entries(supervisor);
    if (!indexing || !indexing->entries)
        return -ENOMEM;
    for (size_t i = 0; i < supervisor->dataset_count; i++)
        if (!supervisor->datasets[i])
            index_entry_queue(&indexing->entries[i]);
    return 0;
}

void indexing_begin_again(struct supervisor *supervisor) {
    struct indexing *indexing = supervisor->indexing;
    if (!indexing)
        return;
    if (indexing->work)
        indexing->work->unwanted = true;
    free(indexing->entries);
    indexing->entries = new_entries(supervisor);
    indexing->generation++;
}

void indexing_leave(struct supervisor *supervisor) {
    struct indexing *indexing = supervisor->indexing;
    if (indexing && indexing->work)
        task_leave(indexing->work->task);
    if (indexing)
        indexing->work = NULL;
}

void indexing_close(struct supervisor *supervisor) {
    if (supervisor->indexing)
        free(supervisor->indexing->entries);
    free(supervisor->indexing);
    supervisor->indexing = NULL;
}

// ---- Questions ---------------------------------------------------------------------------------------------

// Queues what a view or mix lacks, which has to be built first.
static void queue_what_lacks(struct supervisor *supervisor, size_t number) {
    for (size_t i = 0; i < made_of_count(supervisor, number); i++) {
        const size_t of = made_of_number(supervisor, number, i);
        if (indexing_state(supervisor, of) != INDEX_FAILED)
            continue;
        queue_what_lacks(supervisor, of);
        index_entry_queue(entry_at(supervisor, of));
    }
}

uint64_t indexing_want(struct supervisor *supervisor, size_t number) {
    struct index_entry *entry = entry_at(supervisor, number);
    if (!entry)
        return 0;
    queue_what_lacks(supervisor, number);
    supervisor->again = true;
    return index_entry_want(entry, supervisor->datasets[number]);
}

void indexing_use(struct supervisor *supervisor, size_t number) {
    struct index_entry *entry = entry_at(supervisor, number);
    bool building = false;
    if (!entry || entry->state != INDEX_FAILED)
        return;
    for (size_t i = 0; i < made_of_count(supervisor, number); i++) {
        const size_t source = made_of_number(supervisor, number, i);
        indexing_use(supervisor, source);
        enum index_state state = indexing_state(supervisor, source);
        building |= state == INDEX_QUEUED || (state == INDEX_BUILDING && !supervisor->datasets[source]);
    }
    if (!building && !index_entry_is_due(entry, monotonic_ns()))
        return;
    index_entry_queue(entry);
    supervisor->again = true;
}

bool indexing_outcome(const struct supervisor *supervisor, size_t number, uint64_t round, int *code,
                      const char **text) {
    const struct index_entry *entry = entry_at(supervisor, number);
    if (entry && entry->rounds < round)
        return false;
    *code = entry ? entry->code : 0;
    *text = entry ? entry->text : "";
    return true;
}

uint64_t indexing_generation(const struct supervisor *supervisor) {
    return supervisor->indexing ? supervisor->indexing->generation : 0;
}

enum index_state indexing_state(const struct supervisor *supervisor, size_t number) {
    const struct index_entry *entry = entry_at(supervisor, number);
    return entry ? entry->state : INDEX_OPEN;
}

bool indexing_figures(const struct supervisor *supervisor, size_t number, uint64_t now,
                      struct index_figures *figures) {
    const struct work *work = supervisor->indexing ? supervisor->indexing->work : NULL;
    if (!work || work->unwanted || work->number != number)
        return false;
    const struct index_progress *progress = &work->progress;
    uint64_t started_ns = read_word(&progress->started_ns);
    *figures = (struct index_figures){.files = read_word(&progress->files),
                                      .files_done = read_word(&progress->files_done),
                                      .bytes = read_word(&progress->bytes),
                                      .bytes_done = read_word(&progress->bytes_done),
                                      .elapsed_ns = now - min_u64(started_ns, now),
                                      .silent_ns = now - min_u64(work->seen_ns, now)};
    return started_ns != 0;
}

const char *indexing_problem(const struct supervisor *supervisor, size_t number) {
    const struct index_entry *entry = entry_at(supervisor, number);
    return entry && entry->code ? entry->text : "";
}

int indexing_failure(const struct supervisor *supervisor, size_t number, struct error *error) {
    const struct index_entry *entry = entry_at(supervisor, number);
    return error_set(error, entry ? entry->code : -ENOMEM, "the index of dataset %s could not be built: %s",
                     supervisor->config->datasets[number].name, entry ? entry->text : "out of memory");
}

static int refuse_failed(const struct supervisor *supervisor, size_t number, uint64_t retry_ns,
                         struct error *error) {
    struct error why = {0};
    const uint64_t now = monotonic_ns();
    int err = indexing_failure(supervisor, number, &why);
    if (!retry_ns)
        return error_set(error, err, "%s", why.text);
    return error_set(error, err,
                     "%s; feedd tries again when the dataset is used, in %" PRIu64 " s at the earliest",
                     why.text, divide_up(max_u64(retry_ns, now) - now, NS_PER_S));
}

int indexing_refuse(const struct supervisor *supervisor, size_t number, struct error *error) {
    const char *name = supervisor->config->datasets[number].name;
    const struct index_entry *entry = entry_at(supervisor, number);
    struct index_figures figures;
    char text[INDEXING_TEXT];
    if (entry && entry->state == INDEX_FAILED)
        return refuse_failed(supervisor, number, entry->retry_ns, error);
    if (indexing_figures(supervisor, number, monotonic_ns(), &figures))
        return error_set(error, -EAGAIN, "the index of dataset %s is being built: %s", name,
                         index_figures_describe(&figures, text));
    if (entry && entry->state == INDEX_BUILDING)
        return error_set(error, -EAGAIN, "the index of dataset %s is being built", name);
    return error_set(error, -EAGAIN, "the index of dataset %s waits for others, which are built first", name);
}
