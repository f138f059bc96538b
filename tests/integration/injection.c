// What a profiler of NVIDIA's is to NVTX: a library that is told of ranges, and writes a line for each to standard
// error.
// The declarations are those of NVTX's binary interface, version 2 of its injection.
#include <stdint.h>
#include <stdio.h>

#define CALLBACKS   1u // of the tables that can be asked for
#define CORE        1u // of the modules of callbacks
#define RANGE_START 5u
#define RANGE_END   7u
#define RANGE_PUSH  9u
#define RANGE_POP   11u

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

static uint64_t start(const char *name) {
    static _Atomic uint64_t ranges;
    uint64_t range = ++ranges;
    fprintf(stderr, "start %llu: %s\n", (unsigned long long)range, name);
    return range;
}

static void end(uint64_t range) {
    fprintf(stderr, "end %llu\n", (unsigned long long)range);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void *(*find_table)(uint32_t id));

int InitializeInjectionNvtx2(const void *(*find_table)(uint32_t id)) {
    const struct callbacks *callbacks = find_table(CALLBACKS);
    function **table;
    uint32_t count;
    if (!callbacks || !callbacks->find(CORE, &table, &count) || count <= RANGE_POP)
        return 0;
    *table[RANGE_START] = (function)start;
    *table[RANGE_END] = (function)end;
    *table[RANGE_PUSH] = (function)push;
    *table[RANGE_POP] = (function)pop;
    return 1;
}
