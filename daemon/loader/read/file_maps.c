#include "daemon/loader/read/file_maps.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/states.h"
#include "daemon/log.h"

// What maps leave to the rest of the process, so that memory can always be allocated.
#define SPARE_BYTES (16u << 20)
#define SPARE_MAPS  1024u // at least; else an eighth of all

static const struct state states[] = {
    [FILE_MAP_UNTRIED] = {"untried", STATE(FILE_MAP_MADE) | STATE(FILE_MAP_REFUSED)},
    [FILE_MAP_MADE] = {"made", STATE(FILE_MAP_REFUSED)},
    [FILE_MAP_REFUSED] = {"refused", 0},
};
static const struct state_table table = STATE_TABLE("file map", states);

static uint64_t map_limit; // 0: not read yet

// vm.max_map_count, or its default where it cannot be read.
void file_maps_prepare(void) {
    char line[32] = "";
    if (map_limit)
        return;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    map_limit = file && fgets(line, sizeof line, file) ? strtoull(line, NULL, 10) : 65530;
    if (file)
        fclose(file);
}

int file_maps_open(struct file_maps *maps, const struct dataset_layout *layout, int first_fd) {
    file_maps_prepare();
    uint64_t limit = map_limit;
    uint64_t spare = min_u64(limit, max_u64(limit / 8, SPARE_MAPS));
    *maps = (struct file_maps){.layout = layout,
                               .first_fd = first_fd,
                               .made_most = (uint32_t)min_u64(limit - spare, UINT32_MAX),
                               .maps = calloc(layout->file_count, sizeof *maps->maps)};
    return maps->maps ? 0 : -ENOMEM;
}

void file_maps_close(struct file_maps *maps) {
    for (uint32_t i = 0; i < maps->layout->file_count; i++)
        if (maps->maps[i].state == FILE_MAP_MADE)
            munmap((void *)maps->maps[i].start, maps->maps[i].bytes);
    free(maps->maps);
}

// There may be tens of thousands of such files, mostly for the same reason.
static void refuse(struct file_maps *maps, uint32_t file, int code, const char *reason) {
    struct file_map *map = &maps->maps[file];
    enum log_level level = code == maps->told ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARNING;
    maps->told = code;
    map->state = state_next(&table, map->state, FILE_MAP_REFUSED);
    map->start = NULL;
    log_write(level, "file %" PRIu32 " of the dataset cannot be mapped (%s): such files are read with pread",
              file, reason);
}

void file_maps_try(struct file_maps *maps, uint32_t file) {
    struct file_map *map = &maps->maps[file];
    uint64_t bytes = maps->layout->files[file].bytes;
    uint64_t pages = align_up(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
    if (maps->made == maps->made_most) {
        refuse(maps, file, EMFILE, "vm.max_map_count allows few more maps");
        return;
    }
    // With the spare bytes, which are given back: they are there at least now.
    uint8_t *start = mmap(NULL, pages + SPARE_BYTES, PROT_READ, MAP_SHARED, maps->first_fd + (int)file, 0);
    if (start == MAP_FAILED) {
        refuse(maps, file, errno, strerror(errno));
        return;
    }
    munmap(start + pages, SPARE_BYTES);
    map->start = start;
    map->bytes = bytes;
    map->state = state_next(&table, map->state, FILE_MAP_MADE);
    maps->made++;
}

// A map that cannot be replaced may be there still, or be gone already.
static void give_up(struct file_maps *maps, uint32_t file, int code) {
    munmap((void *)maps->maps[file].start, maps->maps[file].bytes);
    maps->made--;
    refuse(maps, file, code, strerror(code));
}

bool file_maps_renew(struct file_maps *maps) {
    bool refused = false;
    for (uint32_t i = 0; i < maps->layout->file_count; i++) {
        const struct file_map *map = &maps->maps[i];
        if (map->state != FILE_MAP_MADE)
            continue;
        void *start = (void *)map->start;
        if (mmap(start, map->bytes, PROT_READ, MAP_SHARED | MAP_FIXED, maps->first_fd + (int)i, 0) == start)
            continue;
        give_up(maps, i, errno);
        refused = true;
    }
    return refused;
}
