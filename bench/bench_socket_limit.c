// The fastest answer that another process can give over a Unix socket: 64 bytes there and back, with no work in
// between. Prints the median and the 99th percentile of a round trip as JSON: bench_socket_limit SECONDS
// [PAUSE_US].
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "bench/bench.h"
#include "bench/histogram.h"

#define MESSAGE_BYTES 64

static void answer(int fd) {
    char message[MESSAGE_BYTES];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (recv(fd, message, sizeof(message), MSG_WAITALL) == MESSAGE_BYTES) {
        if (send(fd, message, sizeof(message), MSG_NOSIGNAL) != MESSAGE_BYTES)
            _exit(1);
    }
    _exit(0);
}

static uint64_t round_trip(int fd) {
    char message[MESSAGE_BYTES] = {0};
    uint64_t start = bench_ns();
    if (send(fd, message, sizeof(message), MSG_NOSIGNAL) != MESSAGE_BYTES ||
        recv(fd, message, sizeof(message), MSG_WAITALL) != MESSAGE_BYTES)
        bench_die("socket", errno);
    return bench_ns() - start;
}

int main(int argc, char **argv) {
    static struct histogram trips;
    int pair[2];
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s SECONDS [PAUSE_US]\n", argv[0]);
        return 2;
    }
    uint64_t pause_us = argc == 3 ? bench_number("PAUSE_US", argv[2]) : 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        bench_die("socketpair", errno);
    pid_t child = fork();
    if (child < 0)
        bench_die("fork", errno);
    if (child == 0) {
        close(pair[0]);
        answer(pair[1]);
    }
    close(pair[1]);
    uint64_t end = bench_ns() + (uint64_t)(strtod(argv[1], NULL) * 1e9);
    while (bench_ns() < end) {
        histogram_add(&trips, round_trip(pair[0]));
        if (pause_us)
            usleep((useconds_t)pause_us);
    }
    printf("{\"round_trips\": %llu, \"us\": {\"p50\": %.3f, \"p99\": %.3f}}\n",
           (unsigned long long)trips.count, (double)histogram_quantile(&trips, 0.5) / 1e3,
           (double)histogram_quantile(&trips, 0.99) / 1e3);
    return 0;
}
