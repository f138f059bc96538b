#include "client/ctl/pack_options.h"

#include <errno.h>

#include "client/ctl/arguments.h"

#define SHARD_LEAST (4u << 10)

enum {
    KEY_SHARD_SIZE = 256,
    KEY_SEED,
    KEY_FORCE,
};

static const struct argp_option table[] = {
    {"shard-size", KEY_SHARD_SIZE, "SIZE", 0, "begin another shard at this size, such as 256M (default 1G)",
     0},
    {"seed", KEY_SEED, "SEED", 0,
     "seed of draws by weight, in views with weights and mixes of them (default 0)", 0},
    {"force", KEY_FORCE, NULL, 0, "begin again: remove all existing shards of FILE", 0},
    {"json", 'j', NULL, 0, "print JSON", 0},
    {"quiet", 'q', NULL, 0, "do not show the progress", 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct pack_options *options = state->input;
    switch (key) {
    case KEY_SHARD_SIZE:
        options->shard_bytes = ctl_parse_size(state, "shard size", argument);
        if (options->shard_bytes < SHARD_LEAST)
            argp_error(state, "shard size %s: at least 4K is wanted", argument);
        return 0;
    case KEY_SEED:
        options->seed = ctl_parse_number(state, "seed", argument, 0, UINT64_MAX);
        return 0;
    case KEY_FORCE:
        return options->force = true, 0;
    case 'j':
        return options->json = true, 0;
    case 'q':
        return options->quiet = true, 0;
    case ARGP_KEY_ARG:
        if (options->file)
            argp_error(state, "too many arguments");
        if (options->dataset)
            options->file = argument;
        else
            options->dataset = argument;
        return 0;
    case ARGP_KEY_END:
        if (!options->dataset)
            argp_error(state, "which dataset? feedctl datasets lists them");
        if (!options->file)
            argp_error(state, "no file is named: what should the names of the shards begin with?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void pack_parse(int count, char **arguments, struct pack_options *options) {
    static const char text[] = "Write a dataset, view or mix, as consumers get it, into shards "
                               "FILE-00000.feed and so on, which format = packed"
                               " reads fastest. If it is interrupted, the same command continues.";
    const struct argp argp = {table, parse, "DATASET FILE", text, NULL, NULL, NULL};
    *options = (struct pack_options){0};
    ctl_parse(&argp, count, arguments, options);
}
