#include "daemon/source/build/view_memory.h"

#include <string.h>

#include "daemon/dataset/list_memory.h"
#include "daemon/source/source.h"

void view_memory_release(struct view_memory *memory) {
    list_memory_unmap(&memory->list, memory->bytes);
    close_fd(&memory->fd);
}

static int refuse(struct builder *builder, const struct view_memory *memory, int err) {
    return builder_refuse(builder, err, NULL, "cannot keep the %s in memory: %s", memory->what,
                          strerror(-err));
}

int view_memory_allocate(struct builder *builder, const char *what, uint64_t bytes,
                         struct view_memory *memory) {
    *memory = (struct view_memory){what, list_memory_create(), sizeof *memory->list + bytes, NULL};
    int err = memory->fd < 0 ? memory->fd
                             : list_memory_map(memory->fd, memory->bytes, &source_progress, &memory->list);
    return err ? refuse(builder, memory, err) : 0;
}

int view_memory_keep(struct builder *builder, struct view_memory *memory) {
    list_memory_unmap(&memory->list, memory->bytes);
    int err = list_memory_seal(memory->fd);
    if (err)
        return refuse(builder, memory, err);
    builder->dataset->list_fd = memory->fd;
    memory->fd = -1;
    return 0;
}
