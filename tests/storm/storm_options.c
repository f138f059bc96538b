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

#include "tests/integration/feed_arguments.h"

static const struct argument options[] = {
    FEED_ARGUMENTS(struct consumer),
    {"samples", ARGUMENT_U64, offsetof(struct consumer, samples)},
    {"ledger", ARGUMENT_TEXT, offsetof(struct consumer, ledger_path)},
    {"truth", ARGUMENT_TEXT,
     offsetof(struct consumer, truth_path)}, // fields one after the other, each with all samples
    {"sums", ARGUMENT_TEXT, offsetof(struct consumer, sums_path)},
    {"hold", ARGUMENT_U64, offsetof(struct consumer, hold)},
    {"pause-us", ARGUMENT_U64, offsetof(struct consumer, pause_us)},
    {"batches", ARGUMENT_U64, offsetof(struct consumer, batches)},
    {"long-wait-us", ARGUMENT_U64, offsetof(struct consumer, long_wait_us)}, // shorter ones are not noted
    {"skips", ARGUMENT_FLAG, offsetof(struct consumer, skips)},
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
    static const char field[] = "--field=";
    if (strncmp(argument, field, strlen(field)) == 0)
        return add_field(consumer, argument + strlen(field));
    return argument_take(options, sizeof options / sizeof options[0], consumer, argument);
}

static void *map_file(const char *path, int flags, int protection, uint64_t *bytes) {
    int fd = path ? open(path, flags | O_CLOEXEC) : -1;
    struct stat status;
    void *map = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &status) == 0)
        map = mmap(NULL, (size_t)status.st_size, protection, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        *bytes = (uint64_t)status.st_size;
    if (map == MAP_FAILED) {
        fprintf(stderr, "storm_consumer: %s: %s\n", path ? path : "a file is missing", strerror(errno));
        map = NULL;
    }
    if (fd >= 0)
        close(fd);
    return map;
}

bool options_prepare(struct consumer *consumer) {
    uint64_t bytes = 0, most = 1;
    consumer->ledger = map_file(consumer->ledger_path, O_RDWR, PROT_READ | PROT_WRITE, &bytes);
    const uint8_t *truth = map_file(consumer->truth_path, O_RDONLY, PROT_READ, &bytes);
    if (consumer->sums_path)
        consumer->sums = map_file(consumer->sums_path, O_RDONLY, PROT_READ, &bytes);
    if (!consumer->ledger || !truth || (consumer->sums_path && !consumer->sums))
        return false;
    consumer->stored = consumer->sums ? bytes / sizeof *consumer->sums : consumer->samples;
    for (uint32_t i = 0; i < consumer->field_count; i++) {
        consumer->field[i].truth = truth;
        truth += consumer->stored * consumer->field[i].bytes;
        most = consumer->field[i].bytes > most ? consumer->field[i].bytes : most;
    }
    const struct feed_options *asked = &consumer->options;
    uint64_t world = asked->world_size ? asked->world_size : 1;
    consumer->order = (struct storm_order){.samples = consumer->samples,
                                           .batch_size = asked->batch_size,
                                           .world_size = world,
                                           .rank = asked->rank,
                                           .seed = asked->seed,
                                           .shuffle = asked->shuffle && !consumer->sums,
                                           .drop_last = asked->drop_last};
    consumer->fetched = malloc(most * asked->batch_size + 1);
    consumer->hold = consumer->hold < HELD_MOST ? consumer->hold : HELD_MOST - 1;
    consumer->options.device_world_size = asked->device ? (uint32_t)world : 0;
    return consumer->fetched;
}
