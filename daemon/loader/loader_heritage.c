#include "daemon/loader/loader_heritage.h"

#include <errno.h>
#include <unistd.h>

#include "daemon/role.h"
#include "shm/ring_loader.h"
#include "shm/stats.h"

int loader_map_settings(const struct loader_settings **settings, struct error *error) {
    const void *map;
    int err = role_map(HERITAGE_SETTINGS, "settings", sizeof(struct loader_settings), &map, error);
    if (err)
        return err;
    *settings = map;
    if ((*settings)->layout.bytes > (*settings)->bytes)
        return error_set(error, -EINVAL, "the settings are shorter than the layout in them");
    return 0;
}

int loader_map_list(const struct loader_settings *settings, const uint64_t **list, struct error *error) {
    const size_t bytes = dataset_list_bytes(&settings->layout);
    const void *map = NULL;
    if (!bytes)
        return 0;
    int err =
        role_map(HERITAGE_LIST, "list of the dataset", sizeof(struct dataset_list) + bytes, &map, error);
    if (!err)
        *list = ((const struct dataset_list *)map)->words;
    return err;
}

int loader_map_index(const struct loader_settings *settings, const uint8_t **index, struct error *error) {
    const void *map = NULL;
    if (!settings->layout.index_bytes)
        return 0;
    int err = role_map(HERITAGE_INDEX, "index", settings->layout.index_bytes, &map, error);
    if (!err)
        *index = map;
    return err;
}

int loader_map_shared(struct job_board *board, struct ring_memory *prepared, struct error *error) {
    const struct loader_settings *settings = board->settings;
    int err = ring_map_prepared(&board->ring, HERITAGE_RING, prepared, error);
    if (!err)
        err = loader_map_list(settings, &board->list, error);
    if (!err)
        err = loader_map_index(settings, &board->index, error);
    if (!err)
        err = stats_map_loader(HERITAGE_STATS, settings->stats_record, &board->stats, error);
    if (!err)
        err = trace_writer_open(HERITAGE_STATS, settings->stats_record, (uint32_t)getpid(),
                                (uint32_t)settings->feed, &board->trace, error);
    // What is mapped needs no descriptor, and by one of these, memory that others map could be resized. Nothing of a
    // dataset has been read yet that could take this process over.
    close(HERITAGE_RING);
    close(HERITAGE_STATS);
    close(HERITAGE_LIST);
    close(HERITAGE_INDEX);
    return err;
}
