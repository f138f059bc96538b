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
#include "tests/integration/view_argument.h"

static const struct argument options[] = {
    FEED_ARGUMENTS(struct consumer),
    {"samples", ARGUMENT_U64, offsetof(struct consumer, samples)},
    {"ledger", ARGUMENT_TEXT, offsetof(struct consumer, ledger_path)},
    {"truth", ARGUMENT_TEXT,
     offsetof(struct consumer, truth_path)}, // fields one after the other, each with all samples
    {"view", ARGUMENT_TEXT, offsetof(struct consumer, view_text)},
    {"sums", ARGUMENT_TEXT, offsetof(struct consumer, sums_path)},
    {"mix", ARGUMENT_TEXT, offsetof(struct consumer, mix_path)},
    {"groups", ARGUMENT_TEXT, offsetof(struct consumer, groups_path)},
    {"hold", ARGUMENT_U64, offsetof(struct consumer, hold)},
    {"pause-us", ARGUMENT_U64, offsetof(struct consumer, pause_us)},
    {"batches", ARGUMENT_U64, offsetof(struct consumer, batches)},
    {"long-wait-us", ARGUMENT_U64, offsetof(struct consumer, long_wait_us)}, // shorter ones are not noted
    {"skips", ARGUMENT_FLAG, offsetof(struct consumer, skips)},
    {"replaces", ARGUMENT_FLAG, offsetof(struct consumer, replaces)},
};

// The side that follows the word, or 0.
static uint32_t side_after(const char *text, const char *word) {
    if (strncmp(text, word, strlen(word)) != 0)
        return 0;
    unsigned long side = strtoul(text + strlen(word), NULL, 10);
    return side <= STORM_SIDE_MOST ? (uint32_t)side : 0;
}

static bool add_field(struct consumer *consumer,
                      char *text) { // NAME:BYTES, NAME:ragged, NAME:crop=N or NAME:mask=N
    char *kind = strchr(text, ':');
    if (!kind || consumer->field_count == FEED_MAX_FIELDS)
        return false;
    *kind++ = '\0';
    struct field *field = &consumer->field[consumer->field_count++];
    const uint32_t image = side_after(kind, "crop="), mask = side_after(kind, "mask=");
    *field = (struct field){.name = text, .side = image ? image : mask, .mask = mask != 0};
    field->ragged = strcmp(kind, "ragged") == 0;
    field->bytes =
        field->side ? (uint64_t)field->side * field->side * (mask ? 1 : 3) : strtoull(kind, NULL, 10);
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

// Returns where that of the next field begins.
static const uint8_t *find_truth(const struct consumer *consumer, struct field *field, const uint8_t *truth) {
    uint64_t bytes = consumer->stored * field->bytes;
    if (field->ragged || field->side) {
        field->begins = truth;
        truth += (consumer->stored + 1) * sizeof(uint64_t);
        memcpy(&bytes, truth - sizeof bytes, sizeof bytes);
    }
    field->truth = truth;
    return truth + bytes;
}

const struct storm_groups *options_groups(const char *path) {
    uint64_t bytes = 0;
    const struct storm_groups *groups = map_file(path, O_RDONLY, PROT_READ, &bytes);
    return groups && groups->count <= STORM_GROUPS ? groups : NULL;
}

bool options_prepare(struct consumer *consumer) {
    uint64_t bytes = 0;
    consumer->ledger = map_file(consumer->ledger_path, O_RDWR, PROT_READ | PROT_WRITE, &bytes);
    const uint8_t *truth = map_file(consumer->truth_path, O_RDONLY, PROT_READ, &bytes);
    if (consumer->sums_path)
        consumer->sums = map_file(consumer->sums_path, O_RDONLY, PROT_READ, &bytes);
    if (!view_parse(consumer->view_text, &consumer->view))
        return false;
    if (consumer->sums)
        consumer->stored = bytes / sizeof *consumer->sums;
    if (consumer->mix_path)
        consumer->mix = map_file(consumer->mix_path, O_RDONLY, PROT_READ, &bytes);
    if (consumer->mix)
        consumer->stored = storm_mix_stored(consumer->mix);
    if (consumer->groups_path)
        consumer->windows.groups = options_groups(consumer->groups_path);
    if (!consumer->ledger || !truth || (consumer->sums_path && !consumer->sums) ||
        (consumer->mix_path && !consumer->mix) || (consumer->groups_path && !consumer->windows.groups))
        return false;
    if (!consumer->stored)
        consumer->stored = consumer->samples;
    for (uint32_t i = 0; i < consumer->field_count; i++) {
        truth = find_truth(consumer, &consumer->field[i], truth);
    }
    const struct feed_options *asked = &consumer->options;
    uint64_t world = asked->world_size ? asked->world_size : 1;
    consumer->order = (struct storm_order){.samples = consumer->samples,
                                           .batch_size = asked->batch_size,
                                           .world_size = world,
                                           .rank = asked->rank,
                                           .seed = asked->seed,
                                           .shuffle = asked->shuffle && !consumer->sums && !consumer->mix,
                                           .drop_last = asked->drop_last};
    consumer->hold = consumer->hold < HELD_MOST ? consumer->hold : HELD_MOST - 1;
    consumer->options.device_world_size = asked->device ? (uint32_t)world : 0;
    return true;
}
