#include "client/ctl/trace_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sizes.h"
#include "base/time.h"

// How a kind of event is shown: those of one row follow each other; those of no row may overlap.
enum trace_row {
    ROW_NONE,
    ROW_TIME, // what a process does with its time
    ROW_WAIT  // what a consumer waits for
};

static const struct shown {
    const char *name, *category;
    enum trace_row row;
} shown[TRACE_KINDS] = {
    [TRACE_FILL] = {"fill", "loader", ROW_TIME},
    [TRACE_DECODE] = {"decode", "loader", ROW_TIME},
    [TRACE_STORAGE] = {"wait for storage", "loader", ROW_TIME},
    [TRACE_ROOM] = {"no room", "loader", ROW_TIME},
    [TRACE_READ] = {"read", "read", ROW_NONE},
    [TRACE_CHUNK] = {"chunk", "chunk", ROW_NONE},
    [TRACE_COPY] = {"copy", "copy", ROW_NONE},
    [TRACE_RELEASE] = {"wait for release", "release", ROW_NONE},
    [TRACE_LEASE] = {"lease", "lease", ROW_NONE},
    [TRACE_WAIT] = {"wait for a batch", "consumer", ROW_WAIT},
    [TRACE_BUS] = {"bus", "bus", ROW_NONE},
};

// Beside the rows of the process's own threads, which have the numbers of processes.
#define ROW_NUMBER(row) (UINT32_C(1000000000) + (row))

static void begin_event(struct trace_file *file) {
    fputs(file->events++ ? ",\n" : "\n", file->out);
}

static uint64_t realtime_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

// The same moment on both clocks. Another process may run between two looks, so the quickest of a few counts.
static void read_clocks(struct trace_file *file) {
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before_ns = monotonic_ns(), real_ns = realtime_ns(), took_ns = monotonic_ns() - before_ns;
        if (took_ns >= least_ns)
            continue;
        least_ns = took_ns;
        file->begin_ns = before_ns + took_ns / 2;
        file->realtime_ns = real_ns;
    }
}

void trace_file_begin(struct trace_file *file, FILE *out) {
    *file = (struct trace_file){.out = out};
    read_clocks(file);
    // torch.profiler says in the same way what its times count from.
    fprintf(out,
            "{\"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": %" PRIu64
            ",\n\"monotonicNanoseconds\": %" PRIu64 ",\n\"traceEvents\": [",
            file->realtime_ns, file->begin_ns);
}

// NULL: no memory; it will be named again.
static struct trace_process *find_process(struct trace_file *file, uint32_t pid) {
    for (uint32_t i = 0; i < file->process_count; i++)
        if (file->processes[i].pid == pid)
            return &file->processes[i];
    if (file->process_count == file->process_room) {
        uint32_t room = file->process_room ? 2 * file->process_room : 64;
        struct trace_process *processes = realloc(file->processes, room * sizeof *processes);
        if (!processes)
            return NULL;
        file->processes = processes;
        file->process_room = room;
    }
    struct trace_process *process = &file->processes[file->process_count++];
    *process = (struct trace_process){.pid = pid};
    return process;
}

static void put_name(struct trace_file *file, const char *what, uint32_t pid, uint32_t row,
                     const char *name) {
    begin_event(file);
    fprintf(file->out,
            "{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %" PRIu32 ", \"tid\": %" PRIu32
            ", \"args\": {\"name\": \"",
            what, pid, row);
    for (; *name; name++) // of printable ASCII, otherwise '?'
        if (*name == '"' || *name == '\\')
            fprintf(file->out, "\\%c", *name);
        else
            fputc(*name >= 0x20 && *name < 0x7f ? *name : '?', file->out);
    fputs("\"}}", file->out);
}

void trace_file_name(struct trace_file *file, uint32_t pid, const char *name) {
    struct trace_process *process = find_process(file, pid);
    if (!process || process->rows & 1)
        return;
    process->rows |= 1;
    put_name(file, "process_name", pid, 0, name);
}

static void name_row(struct trace_file *file, uint32_t pid, enum trace_row row) {
    struct trace_process *process = find_process(file, pid);
    if (!process || process->rows & 1u << row << 1)
        return;
    process->rows |= 1u << row << 1;
    put_name(file, "thread_name", pid, ROW_NUMBER(row), row == ROW_TIME ? "feedd: time" : "feedd: waits");
}

// Microseconds.
static void put_time(FILE *out, const char *key, uint64_t ns) {
    fprintf(out, ", \"%s\": %" PRIu64 ".%03" PRIu64, key, ns / 1000, ns % 1000);
}

static void put_place(struct trace_file *file, const struct trace_record *record, const char *kind,
                      uint64_t ns) {
    const struct shown *how = &shown[record->kind];
    begin_event(file);
    fprintf(file->out,
            "{\"ph\": \"%s\", \"name\": \"%s\", \"cat\": \"%s\", \"pid\": %" PRIu32 ", \"tid\": %" PRIu32,
            kind, how->name, how->category, record->process,
            how->row == ROW_NONE ? record->process : ROW_NUMBER(how->row));
    put_time(file->out, "ts", ns - file->begin_ns);
}

static void put_arguments(FILE *out, const struct trace_record *record, uint64_t earlier_ns) {
    bool pool = record->kind == TRACE_COPY || record->kind == TRACE_RELEASE || record->kind == TRACE_BUS;
    fprintf(out, ", \"args\": {\"%s\": %" PRIu32, pool ? "pool" : "feed", record->feed);
    if (pool || record->kind == TRACE_LEASE)
        fprintf(out, ", \"slot\": %" PRIu32, record->slot);
    if (earlier_ns)
        put_time(out, "earlier_us", earlier_ns);
    fputs("}}", out);
}

void trace_file_put(struct trace_file *file, const struct trace_record *record) {
    const struct shown *how = &shown[record->kind];
    // Perfetto drops what is earlier than a timeline's beginning, and a lease may be hours old: it is cut there.
    uint64_t begin_ns = max_u64(record->begin_ns, file->begin_ns), earlier_ns = begin_ns - record->begin_ns;
    if (record->end_ns < begin_ns)
        return;
    if (how->row != ROW_NONE) {
        name_row(file, record->process, how->row);
        put_place(file, record, "X", begin_ns);
        put_time(file->out, "dur", record->end_ns - begin_ns);
        put_arguments(file->out, record, earlier_ns);
        return;
    }
    // Events that may overlap have numbers, which Perfetto shows below the process only if they are "local".
    uint64_t id = file->events;
    put_place(file, record, "b", begin_ns);
    fprintf(file->out, ", \"id2\": {\"local\": \"%" PRIx64 "\"}", id);
    put_arguments(file->out, record, earlier_ns);
    put_place(file, record, "e", record->end_ns);
    fprintf(file->out, ", \"id2\": {\"local\": \"%" PRIx64 "\"}}", id);
}

int trace_file_end(struct trace_file *file, uint64_t lost, struct error *error) {
    fprintf(file->out, "\n], \"lostEvents\": %" PRIu64 "}\n", lost);
    free(file->processes);
    file->processes = NULL;
    if (fflush(file->out) != 0 || ferror(file->out))
        return error_set(error, errno ? -errno : -EIO, "cannot write the timeline: %m");
    return 0;
}
