#include "daemon/supervisor/feeds/loader_count.h"

#include "base/sizes.h"
#include "base/time.h"

#define WINDOW_NS     (500 * NS_PER_MS)
#define LONG_NS       (2 * NS_PER_S) // ... at most, while little is filled
#define LITTLE        64u            // samples
#define HOLD_FIRST_NS (5 * NS_PER_S)
#define HOLD_MOST_NS  (120 * NS_PER_S)

#define WAITS  0.10 // consumers wait for at least this share of their time: they need more
#define PROMPT 0.03 // ... or less: they need no more
#define IDLE   0.30 // loaders that have nothing to do for this share of their time are not what is lacking
#define GETS                                                                                                 \
    0.75 // busy loaders on a processor for less than this share of the time compete with others for it
#define GAIN    1.04 // what more loaders have to bring to be kept
#define LOSS    0.97 // what fewer may cost
#define RESERVE 1.5  // what loaders have to do, so many times over, stays when some are taken away
#define SPARE   3u   // windows
#define LEAST   2u   // stay: one alone would hold up consumers whenever it waits for its processor

uint32_t loader_count_first(uint32_t processors) {
    return (uint32_t)max_u64(1, min_u64(processors, LOADER_COUNT_FIRST));
}

void loader_count_init(struct loader_count *count, uint32_t wanted) {
    *count =
        (struct loader_count){.wanted = wanted, .more_hold_ns = HOLD_FIRST_NS, .less_hold_ns = HOLD_FIRST_NS};
}

// What a window showed.
struct window {
    double rate; // samples per nanosecond
    double waits;
    double room, io, busy, cpu; // of the loaders' time
};

static uint64_t grown(uint64_t before, uint64_t now) {
    return now > before ? now - before : 0;
}

static bool measure(const struct loader_count *count, const struct loader_work *work, uint32_t consumers,
                    uint64_t now, struct window *window) {
    const struct loader_work *began = &count->began;
    const uint64_t passed = now - count->began_ns, samples = grown(began->samples, work->samples);
    const double room = (double)grown(began->room_ns, work->room_ns),
                 io = (double)grown(began->io_ns, work->io_ns);
    const double busy = (double)grown(began->busy_ns, work->busy_ns), all = room + io + busy;
    if (passed < WINDOW_NS || (passed < LONG_NS && samples < LITTLE) || all <= 0)
        return false;
    *window = (struct window){
        .rate = (double)samples / (double)passed,
        .waits = (double)grown(began->wait_ns, work->wait_ns) / ((double)consumers * (double)passed),
        .room = room / all,
        .io = io / all,
        .busy = busy / all,
        .cpu = (double)grown(began->cpu_ns, work->cpu_ns) / all,
    };
    return true;
}

static void hold(uint64_t *until_ns, uint64_t *hold_ns, uint64_t now) {
    *until_ns = now + *hold_ns;
    *hold_ns = min_u64(2 * *hold_ns, HOLD_MOST_NS);
}

// What was tried is kept or undone.
static bool judge(struct loader_count *count, const struct window *window, uint64_t now) {
    const bool more = count->wanted > count->before;
    const double gain = count->rate_before > 0 ? window->rate / count->rate_before : 2;
    const bool kept =
        more ? gain >= GAIN || window->waits < PROMPT : gain >= LOSS || window->waits < WAITS / 2;
    if (kept) {
        count->more_hold_ns = more ? HOLD_FIRST_NS : count->more_hold_ns;
        count->less_hold_ns = more ? count->less_hold_ns : HOLD_FIRST_NS;
    } else {
        count->wanted = count->before;
        if (more)
            hold(&count->not_more_until_ns, &count->more_hold_ns, now);
        else
            hold(&count->not_less_until_ns, &count->less_hold_ns, now);
    }
    count->before = 0;
    return kept;
}

static void attempt(struct loader_count *count, uint32_t wanted, const struct window *window) {
    count->before = count->wanted;
    count->rate_before = window->rate;
    count->wanted = wanted;
    count->spare = 0;
}

static void try_more(struct loader_count *count, const struct window *window, uint32_t processors,
                     uint32_t most) {
    const bool of_storage = window->io >= window->busy;
    const uint32_t limit = (uint32_t)min_u64(most, of_storage ? most : processors);
    const uint32_t step = of_storage ? count->wanted : (count->wanted + 1) / 2;
    if (count->wanted >= limit || (!of_storage && window->cpu < GETS * window->busy))
        return;
    attempt(count, (uint32_t)min_u64(count->wanted + step, limit), window);
}

static void try_fewer(struct loader_count *count, const struct window *window) {
    const double used = (double)count->wanted * (1 - window->room);
    const uint32_t enough = (uint32_t)max_u64(LEAST, (uint64_t)(used * RESERVE) + 1);
    if (enough >= count->wanted) {
        count->spare = 0;
        return;
    }
    if (++count->spare >= SPARE)
        attempt(count, enough, window);
}

static void decide(struct loader_count *count, const struct window *window, uint32_t processors,
                   uint32_t most, uint64_t now) {
    if (count->before && !judge(count, window, now))
        return;
    if (window->waits >= WAITS && window->room < IDLE && now >= count->not_more_until_ns)
        try_more(count, window, processors, most);
    else if (window->waits < PROMPT && now >= count->not_less_until_ns)
        try_fewer(count, window);
}

uint32_t loader_count_look(struct loader_count *count, const struct loader_work *work, uint32_t consumers,
                           uint32_t processors, uint32_t most, uint64_t now) {
    struct window window;
    const bool begins = !count->began_ns || !consumers;
    const uint32_t wanted = count->wanted;
    if (begins || measure(count, work, consumers, now, &window)) {
        if (begins && !consumers)
            count->before = 0;
        if (!begins)
            decide(count, &window, processors, most, now);
        // After a change, loaders start or end: what they do meanwhile does not count.
        count->began_ns = wanted == count->wanted ? now : 0;
        count->began = *work;
    }
    count->wanted = (uint32_t)max_u64(1, min_u64(count->wanted, most));
    return count->wanted;
}
