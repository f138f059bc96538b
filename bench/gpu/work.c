#include "bench/gpu/work.h"

#include <signal.h>

#include "base/sizes.h"
#include "bench/bench.h"

const struct work *work_open(const char *device) {
    const char *colon = strchr(device, ':');
    size_t length = colon ? (size_t)(colon - device) : strlen(device);
    uint32_t ordinal = colon ? (uint32_t)bench_number("device", colon + 1) : 0;
    const struct work *const kinds[] = {&work_cuda, &work_host};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (strlen(kinds[i]->kind) != length || strncmp(kinds[i]->kind, device, length) != 0)
            continue;
        kinds[i]->open(ordinal);
        return kinds[i];
    }
    fprintf(stderr, "%s: --device is \"cuda\", \"cuda:N\" or \"host:N\", not \"%s\"\n",
            program_invocation_short_name, device);
    exit(2);
}

static void on_alarm(int signal) {
    static const char text[] = "the time limit of this measurement has expired: something hangs\n";
    (void)signal;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(4);
    _exit(3);
}

void work_time_limit(double seconds) {
    signal(SIGALRM, on_alarm);
    alarm((unsigned)seconds + 1);
}
