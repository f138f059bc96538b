#include "tests/storm/storm_options.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind {
    TEXT,
    U32,
    U64,
    FLAG
};

static const struct {
    const char *name;
    enum kind kind;
    size_t offset; // in struct consumer
} options[] = {
    {"dataset", TEXT, offsetof(struct consumer, options.dataset)},
    {"batch-size", U32, offsetof(struct consumer, options.batch_size)},
    {"shuffle", FLAG, offsetof(struct consumer, options.shuffle)},
    {"drop-last", FLAG, offsetof(struct consumer, options.drop_last)},
    {"seed", U64, offsetof(struct consumer, options.seed)},
    {"rank", U32, offsetof(struct consumer, options.rank)},
    {"world-size", U32, offsetof(struct consumer, options.world_size)},
    {"share", TEXT, offsetof(struct consumer, options.share)},
    {"wait-for", U32, offsetof(struct consumer, options.wait_for)},
    {"prefetch", U32, offsetof(struct consumer, options.prefetch)},
    {"max-lag", U32, offsetof(struct consumer, options.max_lag_s)},
    {"ring-bytes", U64, offsetof(struct consumer, options.ring_bytes)},
    {"resume", TEXT, offsetof(struct consumer, options.resume)},
    {"device", TEXT, offsetof(struct consumer, options.device)},
    {"name", TEXT, offsetof(struct consumer, options.client_name)},
    {"samples", U64, offsetof(struct consumer, samples)},
    {"ledger", TEXT, offsetof(struct consumer, ledger_path)},
    {"truth", TEXT,
     offsetof(struct consumer, truth_path)}, // fields one after the other, each with all samples
    {"hold", U64, offsetof(struct consumer, hold)},
    {"pause-us", U64, offsetof(struct consumer, pause_us)},
    {"batches", U64, offsetof(struct consumer, batches)},
    {"long-wait-us", U64, offsetof(struct consumer, long_wait_us)}, // shorter ones are not noted
    {"skips", FLAG, offsetof(struct consumer, skips)},
};

static bool add_field(struct consumer *consumer, char *text) { // NAME:BYTES
    char *bytes = strchr(text, ':');
    if (!bytes || consumer->field_count == FEED_MAX_FIELDS)
        return false;
    *bytes++ = '\0';
    consumer->field[consumer->field_count++] = (struct field){text, strtoull(bytes, NULL, 10), NULL};
    return true;
}

bool options_parse(struct consumer *consumer, char *argument) {
    char *value = argument + strcspn(argument, "=");
    value += *value == '=' ? (*value = '\0', 1) : 0;
    if (strcmp(argument, "--field") == 0)
        return add_field(consumer, value);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        void *member = (char *)consumer + options[i].offset;
        if (strncmp(argument, "--", 2) != 0 || strcmp(argument + 2, options[i].name) != 0)
            continue;
        if (options[i].kind == TEXT)
            *(const char **)member = value;
        else if (options[i].kind == FLAG)
            *(bool *)member = true;
        else if (options[i].kind == U32)
            *(uint32_t *)member = (uint32_t)strtoul(value, NULL, 10);
        else
            *(uint64_t *)member = strtoull(value, NULL, 10);
        return true;
    }
    return false;
}

static void *map_file(const char *path, int flags, int protection) {
    int fd = path ? open(path, flags | O_CLOEXEC) : -1;
    struct stat status;
    void *map = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &status) == 0)
        map = mmap(NULL, (size_t)status.st_size, protection, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        fprintf(stderr, "storm_consumer: %s: %s\n", path ? path : "a file is missing", strerror(errno));
        map = NULL;
    }
    if (fd >= 0)
        close(fd);
    return map;
}

bool options_prepare(struct consumer *consumer) {
    consumer->ledger = map_file(consumer->ledger_path, O_RDWR, PROT_READ | PROT_WRITE);
    const uint8_t *truth = map_file(consumer->truth_path, O_RDONLY, PROT_READ);
    uint64_t most = 1;
    if (!consumer->ledger || !truth)
        return false;
    for (uint32_t i = 0; i < consumer->field_count; i++) {
        consumer->field[i].truth = truth;
        truth += consumer->samples * consumer->field[i].bytes;
        most = consumer->field[i].bytes > most ? consumer->field[i].bytes : most;
    }
    const struct feed_options *asked = &consumer->options;
    uint64_t world = asked->world_size ? asked->world_size : 1;
    consumer->order = (struct storm_order){.samples = consumer->samples,
                                           .batch_size = asked->batch_size,
                                           .world_size = world,
                                           .rank = asked->rank,
                                           .seed = asked->seed,
                                           .shuffle = asked->shuffle,
                                           .drop_last = asked->drop_last};
    consumer->fetched = malloc(most * asked->batch_size + 1);
    consumer->hold = consumer->hold < HELD_MOST ? consumer->hold : HELD_MOST - 1;
    consumer->options.device_world_size = asked->device ? (uint32_t)world : 0;
    return consumer->fetched;
}
