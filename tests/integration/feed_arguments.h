// The command lines of consumers for tests: --NAME=VALUE, or --NAME for a flag.
#ifndef FEEDD_TESTS_INTEGRATION_FEED_ARGUMENTS_H
#define FEEDD_TESTS_INTEGRATION_FEED_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/feed.h"

enum argument_kind {
    ARGUMENT_TEXT,
    ARGUMENT_FLAG,
    ARGUMENT_INT,
    ARGUMENT_U32,
    ARGUMENT_U64
};

struct argument {
    const char *name;
    enum argument_kind kind;
    size_t offset; // in the structure that is filled
};

// How a feed is attached to, for a structure with a `struct feed_options options`.
#define FEED_ARGUMENTS(structure)                                                                            \
    {"dataset", ARGUMENT_TEXT, offsetof(structure, options.dataset)},                                        \
        {"batch-size", ARGUMENT_U32, offsetof(structure, options.batch_size)},                               \
        {"shuffle", ARGUMENT_FLAG, offsetof(structure, options.shuffle)},                                    \
        {"drop-last", ARGUMENT_FLAG, offsetof(structure, options.drop_last)},                                \
        {"seed", ARGUMENT_U64, offsetof(structure, options.seed)},                                           \
        {"rank", ARGUMENT_U32, offsetof(structure, options.rank)},                                           \
        {"world-size", ARGUMENT_U32, offsetof(structure, options.world_size)},                               \
        {"local-world-size", ARGUMENT_U32, offsetof(structure, options.local_world_size)},                   \
        {"device-world-size", ARGUMENT_U32, offsetof(structure, options.device_world_size)},                 \
        {"epochs", ARGUMENT_U64, offsetof(structure, options.epochs)},                                       \
        {"share", ARGUMENT_TEXT, offsetof(structure, options.share)},                                        \
        {"wait-for", ARGUMENT_U32, offsetof(structure, options.wait_for)},                                   \
        {"prefetch", ARGUMENT_U32, offsetof(structure, options.prefetch)},                                   \
        {"max-lag", ARGUMENT_U32, offsetof(structure, options.max_lag_s)},                                   \
        {"ring-bytes", ARGUMENT_U64, offsetof(structure, options.ring_bytes)},                               \
        {"resume", ARGUMENT_TEXT, offsetof(structure, options.resume)},                                      \
        {"device", ARGUMENT_TEXT, offsetof(structure, options.device)},                                      \
        {"name", ARGUMENT_TEXT, offsetof(structure, options.client_name)},                                   \
        {"connect-timeout", ARGUMENT_INT, offsetof(structure, options.connect_timeout_ms)}, {                \
        "reconnect-timeout", ARGUMENT_INT, offsetof(structure, options.reconnect_timeout_ms)                 \
    }

static inline void argument_set(void *member, enum argument_kind kind, const char *value) {
    if (kind == ARGUMENT_TEXT)
        *(const char **)member = value;
    else if (kind == ARGUMENT_FLAG)
        *(bool *)member = true;
    else if (kind == ARGUMENT_INT)
        *(int *)member = atoi(value);
    else if (kind == ARGUMENT_U32)
        *(uint32_t *)member = (uint32_t)strtoul(value, NULL, 0);
    else
        *(uint64_t *)member = strtoull(value, NULL, 0);
}

// False: there is no such option.
static inline bool argument_take(const struct argument *table, size_t count, void *structure,
                                 const char *text) {
    size_t length = strcspn(text, "=");
    bool has_value = text[length] == '=';
    for (size_t i = 0; i < count; i++)
        if (length == strlen(table[i].name) + 2 && strncmp(text, "--", 2) == 0 &&
            strncmp(text + 2, table[i].name, length - 2) == 0 &&
            has_value == (table[i].kind != ARGUMENT_FLAG)) {
            argument_set((char *)structure + table[i].offset, table[i].kind, text + length + has_value);
            return true;
        }
    return false;
}

#endif
