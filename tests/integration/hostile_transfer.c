// Linked into tests/hostile_feedd, beside hostile_loader.c. HOSTILE_TRANSFER in the environment says what is wrong with
// transfer processes that do all else as they should: with "damage" they write chunk words that no correct one writes
// to the rings of pools, with "keep" they never say that a pool is closed, and with "lost" they say that the GPU is
// lost, and do not end. With another value, they play one that has been taken over. A thread writes anything into all
// memory that the process shares and may write to (the control parts of pools' rings, its record of the statistics, the
// memory of a simulated GPU), tries to resize it, and sends reports that nobody asked for.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/control.h"
#include "daemon/heritage.h"
#include "tests/integration/hostile.h"

#define AREAS_MOST 32u
#define FDS_MOST   64

struct area {
    uint8_t *at;
    uint64_t bytes;
};

static uint32_t find_areas(struct area areas[AREAS_MOST]) {
    char line[512];
    uint32_t count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && count < AREAS_MOST && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (strstr(line, " rw-s ") && sscanf(line, "%lx-%lx", &from, &to) == 2)
            areas[count++] = (struct area){(uint8_t *)from, to - from};
    }
    if (maps)
        fclose(maps);
    return count;
}

// What is there can be unmapped at any time: then the kernel says no, and this process lives on to do more harm.
static void write_word(const struct area *area) {
    static int memory = -1;
    uint64_t word = interesting();
    if (memory < 0)
        memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    uint64_t at =
        (uint64_t)(uintptr_t)area->at + below(min_u64(area->bytes, below(2) ? 65536 : area->bytes) - 8);
    (void)!pwrite(memory, &word, below(2) ? 8 : 4, (off_t)(at & ~3ull));
}

static void send_report(void) {
    struct transfer_report report = {.kind = (uint32_t)below(TRANSFER_LOST + 2),
                                     .pool = (uint32_t)below(12),
                                     .code = (int32_t)interesting(),
                                     .consumer = (uint32_t)below(70),
                                     .slot = (uint32_t)below(20),
                                     .memory_bytes = interesting(),
                                     .waited_ns = interesting()};
    int fds[] = {STDIN_FILENO, HERITAGE_WAKE, HERITAGE_SETTINGS, STDIN_FILENO};
    memset(report.text, (int)any(), sizeof report.text);
    if (report.kind == TRANSFER_LOST && below(20))
        return; // not always: it ends the device
    control_send(HERITAGE_CONTROL, &report, below(30) ? sizeof report : below(sizeof report) + 1, fds,
                 (uint32_t)below(5));
}

static void use_descriptor(void) {
    int fd = (int)below(FDS_MOST), flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fd <= STDERR_FILENO || fd == HERITAGE_CONTROL || fd == HERITAGE_SETTINGS)
        return;
    fcntl(fd, F_SETFL, below(2) ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
    (void)!ftruncate(fd, (off_t)(below(2) ? 0 : interesting() >> 20));
    (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)below(1 << 20) & -4096, 4096);
}

static void damage(const struct area *area) {
    struct ring_header header;
    const uint64_t wrong[] = {7, 7, 7, 7};
    memcpy(&header, area->at, sizeof header);
    if (header.magic == RING_MAGIC && header.chunks_offset < area->bytes - sizeof wrong)
        memcpy(area->at + header.chunks_offset, wrong, sizeof wrong);
}

static void *play_damage(void *unused) {
    struct area areas[AREAS_MOST];
    for (;;) {
        uint32_t count = find_areas(areas);
        while (count)
            damage(&areas[--count]);
        nap(1000);
    }
    return unused;
}

static void *play(void *unused) {
    struct area areas[AREAS_MOST];
    nap(below(4) ? below(100000) : below(900000));
    for (;;) {
        uint32_t count = find_areas(areas);
        for (uint64_t left = count ? below(100) : 0; left; left--)
            write_word(&areas[below(count)]);
        if (below(10) == 0)
            send_report();
        if (below(20) == 0)
            use_descriptor();
        nap(1 + below(3000));
    }
    return unused;
}

int __real_control_send(int socket, const void *message, size_t bytes, const int *fds, uint32_t count);
int __wrap_control_send(int socket, const void *message, size_t bytes, const int *fds, uint32_t count);

static bool keeps;

int __wrap_control_send(int socket, const void *message, size_t bytes, const int *fds, uint32_t count) {
    const struct transfer_report *report = message;
    return keeps && report->kind == TRANSFER_POOL_CLOSED
               ? 0
               : __real_control_send(socket, message, bytes, fds, count);
}

static void *play_lost(void *unused) {
    const struct transfer_report report = {.kind = TRANSFER_LOST, .code = -EIO, .text = "or so it says"};
    nap(900000);
    __real_control_send(HERITAGE_CONTROL, &report, sizeof report, NULL, 0);
    return unused;
}

__attribute__((constructor)) static void begin(void) {
    const char *how = getenv("HOSTILE_TRANSFER");
    if (!how || !hostile_has_role("role=transfer"))
        return;
    keeps = strcmp(how, "keep") == 0;
    if (!keeps)
        hostile_begin(strcmp(how, "damage") == 0 ? play_damage : strcmp(how, "lost") == 0 ? play_lost : play);
}
