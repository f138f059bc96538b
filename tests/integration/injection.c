// What a profiler of NVIDIA's is to NVTX: a library that is told of ranges, and writes a line for each to standard
// error.
// The declarations are those of NVTX's binary interface, version 2 of its injection.
#include <stdint.h>
#include <stdio.h>

#define CALLBACKS  1u // of the tables that can be asked for
#define CORE       1u // of the modules of callbacks
#define RANGE_PUSH 9u
#define RANGE_POP  11u

typedef void (*function)(void);

struct callbacks {
    size_t bytes;
    int (*find)(uint32_t module, function ***table, uint32_t *count);
};

static int push(const char *name) {
    return fprintf(stderr, "range: %s\n", name);
}

static int pop(void) {
    return fprintf(stderr, "range ends\n");
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void *(*find_table)(uint32_t id));

int InitializeInjectionNvtx2(const void *(*find_table)(uint32_t id)) {
    const struct callbacks *callbacks = find_table(CALLBACKS);
    function **table;
    uint32_t count;
    if (!callbacks || !callbacks->find(CORE, &table, &count) || count <= RANGE_POP)
        return 0;
    *table[RANGE_PUSH] = (function)push;
    *table[RANGE_POP] = (function)pop;
    return 1;
}
