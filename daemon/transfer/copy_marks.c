#include "daemon/transfer/copy_marks.h"

#include "base/error.h"
#include "base/sizes.h"

static bool is_ready(struct copy_mark *mark, struct gpu *gpu) {
    struct error ignored = {0};
    return !mark->copies && (mark->mark || gpu_mark_create(gpu, &mark->mark, &ignored) == 0);
}

uint32_t copy_marks_take(struct copy_marks *marks, struct gpu *gpu, uint32_t stream, uint64_t now_ns) {
    if (!marks->clock || !trace_is_on(marks->trace) || !gpu_clock_is_aligned(marks->clock, gpu))
        return NO_MARK;
    for (uint32_t i = 0; i < COPY_MARKS; i++) {
        if (!is_ready(&marks->marks[i], gpu))
            continue;
        marks->marks[i].stream = stream;
        marks->marks[i].queued_ns = now_ns;
        return i;
    }
    return NO_MARK;
}

void copy_marks_share(struct copy_marks *marks, uint32_t number) {
    if (number != NO_MARK)
        marks->marks[number].copies++;
}

void copy_marks_put(struct copy_marks *marks, uint32_t number, gpu_stream stream) {
    if (number != NO_MARK)
        gpu_clock_put(marks->clock, stream, marks->marks[number].mark);
}

static void write_event(struct copy_marks *marks, const struct copy_mark *mark, uint32_t slot) {
    uint64_t *ended_ns = &marks->ended_ns[mark->stream];
    const uint64_t end_ns = gpu_clock_of(marks->clock, mark->mark);
    const uint64_t begin_ns = max_u64(mark->queued_ns, *ended_ns);
    if (end_ns <= begin_ns)
        return;
    *ended_ns = end_ns;
    trace_write_of(marks->trace, TRACE_BUS, begin_ns, end_ns, marks->trace->process, marks->pool, slot);
}

void copy_marks_done(struct copy_marks *marks, uint32_t number, uint32_t slot) {
    if (number == NO_MARK)
        return;
    struct copy_mark *mark = &marks->marks[number];
    if (mark->queued_ns)
        write_event(marks, mark, slot);
    mark->queued_ns = 0;
    mark->copies--;
}

void copy_marks_close(struct copy_marks *marks, struct gpu *gpu) {
    for (uint32_t i = 0; i < COPY_MARKS; i++)
        gpu_mark_destroy(gpu, marks->marks[i].mark);
}
