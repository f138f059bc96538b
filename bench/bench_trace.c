// What an event of the timeline costs: processor time of writing one, and of finding that it is not wanted.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "shm/trace.h"

#define EVENTS 20000000u

static double processor_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e9 + (double)used.tv_nsec;
}

static double measure(struct trace_writer *writer) {
    double before = processor_ns();
    for (uint32_t i = 0; i < EVENTS; i++)
        trace_write(writer, TRACE_FILL, i, i + 1, 0);
    return (processor_ns() - before) / EVENTS;
}

int main(void) {
    struct error error = {0};
    struct trace_writer writer;
    _Atomic uint32_t *on;
    AUTO_CLOSE int fd = memfd_create("bench-trace", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, STATS_FILE_BYTES) < 0) {
        perror("bench_trace");
        return EXIT_FAILURE;
    }
    if (trace_switches_open(fd, &on, &error) < 0 || trace_writer_open(fd, 0, 1, 1, &writer, &error) < 0) {
        fprintf(stderr, "bench_trace: %s\n", error.text);
        return EXIT_FAILURE;
    }
    double off = measure(&writer);
    trace_turn_on(fd, on, 0);
    double wanted = measure(&writer);
    printf("{\"off_ns\": %.2f, \"on_ns\": %.2f}\n", off, wanted);
    return EXIT_SUCCESS;
}
