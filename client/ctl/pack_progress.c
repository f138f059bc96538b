#include "client/ctl/pack_progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/text.h"

#define DRAW_EVERY_NS (NS_PER_S / 2)
#define LINE_EVERY_NS (10 * NS_PER_S)
#define LINE_BYTES    256

void pack_progress_start(struct pack_progress *progress, uint64_t first) {
    progress->terminal = isatty(STDERR_FILENO);
    progress->first = first;
    progress->started_ns = monotonic_ns();
    progress->next_ns = progress->started_ns + (progress->terminal ? DRAW_EVERY_NS : LINE_EVERY_NS);
}

void pack_progress_show(struct pack_progress *progress, uint64_t position, uint64_t bytes) {
    char written[CTL_TEXT], rate[CTL_TEXT], rest[CTL_TEXT];
    uint64_t now_ns = monotonic_ns();
    if (progress->quiet || now_ns < progress->next_ns)
        return;
    progress->next_ns = now_ns + (progress->terminal ? DRAW_EVERY_NS : LINE_EVERY_NS);
    const double elapsed_ns = (double)(now_ns - progress->started_ns) + 1;
    const double done = (double)max_u64(1, position - progress->first);
    ctl_format_bytes(bytes, written);
    ctl_format_bytes((uint64_t)((double)bytes / (elapsed_ns / 1e9)), rate);
    ctl_format_duration((uint64_t)(elapsed_ns / done * (double)(progress->positions - position)), rest);
    char text[LINE_BYTES];
    snprintf(text, sizeof text, "%s: %" PRIu64 " of %" PRIu64 " samples, %s, %s/s, about %s left",
             progress->dataset, position, progress->positions, written, rate, rest);
    if (progress->terminal && !ctl_fits_line(text))
        snprintf(text, sizeof text, "%.0f %%, %s/s, about %s left",
                 100.0 * (double)position / (double)progress->positions, rate, rest);
    if (progress->terminal)
        ctl_overwrite(text);
    else
        fprintf(stderr, "%s\n", text);
    progress->shown = true;
}

void pack_progress_end(struct pack_progress *progress) {
    if (progress->shown && progress->terminal)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}
