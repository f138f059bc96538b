#include "daemon/supervisor/clients/query_dataset.h"

#include "daemon/io_mode.h"
#include "daemon/on_error.h"
#include "daemon/supervisor/clients/admission.h"
#include "daemon/supervisor/clients/query_indexing.h"
#include "daemon/supervisor/feeds/sample_caches.h"

static void describe_cache(const struct session *session, const struct dataset *dataset,
                           Feedd__Dataset *row) {
    const uid_t user = admission_shows_all(session) ? CACHES_OF_ANYBODY : session->peer.uid;
    row->cache_bytes = dataset->layout->cache.bytes;
    row->cache_used = row->cache_bytes ? sample_caches_used(session->supervisor, dataset, user) : 0;
}

static void describe_open(const struct dataset *dataset, Feedd__Dataset *row, Feedd__Field *fields,
                          Feedd__Field **list) {
    const struct dataset_layout *layout = dataset->layout;
    row->samples = layout->samples;
    row->files = layout->file_count;
    row->sources = layout->part_count;
    row->io_direct = dataset->io_direct;
    row->io_delay_us = dataset->io_delay_us;
    row->fingerprint = layout->fingerprint;
    row->index = (char *)dataset->index_note;
    row->shuffle_window = layout->window;
    row->groups = layout->groups;
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const struct ring_field *field = &layout->fields[i];
        feedd__field__init(&fields[i]);
        fields[i].name = (char *)field->name;
        fields[i].dtype = field->dtype;
        fields[i].n_shape = field->ragged ? 0 : field->dimensions;
        if (field->ragged) {
            fields[i].ragged = true;
            fields[i].mean_bytes = size_summary_mean(dataset->sizes[i]);
            fields[i].largest_bytes = dataset->sizes[i]->largest;
        }
        fields[i].shape = (uint64_t *)field->shape;
        fields[i].stored = dataset->transforms[i] ? layout->transforms[i].stored : field->dtype;
        if (dataset->transforms[i])
            fields[i].transform = dataset->transforms[i];
        list[i] = &fields[i];
    }
    row->augmented = dataset_is_augmented(dataset);
    row->sample_bytes = dataset_sample_bytes(dataset);
    row->bytes = dataset_bytes(dataset);
    row->n_fields = layout->field_count;
    row->fields = list;
}

void query_describe_dataset(const struct session *session, size_t number, Feedd__Dataset *row,
                            Feedd__Indexing *indexing, Feedd__Field *fields, Feedd__Field **list) {
    const struct supervisor *supervisor = session->supervisor;
    const struct dataset_config *config = &supervisor->config->datasets[number];
    feedd__dataset__init(row);
    row->name = config->name;
    row->format = config->format;
    row->io = (char *)io_mode_name(config->io);
    row->io_direct = config->io_direct;
    row->io_delay_us = (uint32_t)config->io_delay_us;
    row->of = config->view ? config->of : row->of;
    row->on_error = (char *)on_error_name(config->on_error);
    query_describe_index(supervisor, number, row, indexing);
    if (!supervisor->datasets[number])
        return;
    describe_open(supervisor->datasets[number], row, fields, list);
    describe_cache(session, supervisor->datasets[number], row);
}
