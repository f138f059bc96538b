#include "daemon/supervisor/clients/query_indexing.h"

#include "base/error.h"
#include "base/time.h"
#include "daemon/supervisor/clients/admission.h"

static bool describe(const struct supervisor *supervisor, size_t number, char *text, size_t bytes) {
    const char *name = supervisor->config->datasets[number].name;
    char progress[INDEXING_TEXT];
    struct index_figures figures;
    struct error error = {0};
    if (indexing_figures(supervisor, number, monotonic_ns(), &figures))
        snprintf(text, bytes, "%s: %s", name, index_figures_describe(&figures, progress));
    else if (!supervisor->datasets[number] && indexing_refuse(supervisor, number, &error))
        snprintf(text, bytes, "%s", error.text);
    else
        return false;
    return true;
}

void query_list_indexing(struct session *session, struct query_indexing *list) {
    const struct supervisor *supervisor = session->supervisor;
    list->count = 0;
    for (size_t i = 0; i < supervisor->dataset_count && list->count < QUERY_INDEXING_MOST; i++) {
        char *text = list->lines[list->count] = list->texts[list->count];
        if (admission_shows_dataset(session, i) && describe(supervisor, i, text, sizeof list->texts[0]))
            list->count++;
    }
}

void query_describe_index(const struct supervisor *supervisor, size_t number, Feedd__Dataset *row,
                          Feedd__Indexing *indexing) {
    struct index_figures figures;
    enum index_state state = indexing_state(supervisor, number);
    row->state = (char *)index_state_name(state);
    if (state == INDEX_FAILED)
        row->problem = (char *)indexing_problem(supervisor, number);
    if (!indexing_figures(supervisor, number, monotonic_ns(), &figures))
        return;
    feedd__indexing__init(indexing);
    indexing->files = figures.files;
    indexing->files_done = figures.files_done;
    indexing->bytes = figures.bytes;
    indexing->bytes_done = figures.bytes_done;
    indexing->elapsed_ns = figures.elapsed_ns;
    indexing->silent_ns = figures.silent_ns;
    row->indexing = indexing;
}
