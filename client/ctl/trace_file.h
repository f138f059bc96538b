// A timeline in the Trace Event Format, which Perfetto and chrome://tracing open: an object that is written bit by bit.
#ifndef FEEDD_CLIENT_CTL_TRACE_FILE_H
#define FEEDD_CLIENT_CTL_TRACE_FILE_H

#include <stdio.h>

#include "base/error.h"
#include "shm/trace.h"

struct trace_file {
    FILE *out;
    uint64_t begin_ns;               // monotonic; what times count from
    uint64_t realtime_ns;            // the same moment since 1970
    uint64_t events;                 // written so far
    struct trace_process *processes; // that have been named
    uint32_t process_count, process_room;
};

struct trace_process {
    uint32_t pid;
    uint32_t rows; // that have been named, as bits
};

void trace_file_begin(struct trace_file *file, FILE *out);
// What the process is, before its first event; the first name counts.
void trace_file_name(struct trace_file *file, uint32_t pid, const char *name);
void trace_file_put(struct trace_file *file, const struct trace_record *record);
// 0, or the error that writing met.
int trace_file_end(struct trace_file *file, uint64_t lost, struct error *error);

#endif
