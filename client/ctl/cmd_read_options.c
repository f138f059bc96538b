#include "client/ctl/cmd_read_options.h"

#include "client/ctl/arguments.h"
#include "order/token.h"

#define DEFAULT_BATCH 256

enum key {
    KEY_BATCHES = 'n',
    KEY_BATCH_SIZE = 'b',
    KEY_EPOCHS = 'e',
    KEY_QUIET = 'q',
    KEY_VERIFY = 'v',
    KEY_SHUFFLE = 256,
    KEY_SEED,
    KEY_DROP_LAST,
    KEY_SHARE,
    KEY_WAIT_FOR,
    KEY_MAX_LAG,
    KEY_RANK,
    KEY_WORLD_SIZE,
    KEY_LOCAL_WORLD_SIZE,
    KEY_PREFETCH,
    KEY_RING,
    KEY_DEVICE,
    KEY_DEVICE_WORLD_SIZE,
    KEY_RESUME,
    KEY_DIGEST,
    KEY_INDICES,
    KEY_TIMEOUT,
    KEY_WORK,
    KEY_NAME,
};

static const struct argp_option table[] = {
    {NULL, 0, NULL, 0, "What to read:", 1},
    {"batch-size", KEY_BATCH_SIZE, "B", 0, "samples in a batch of this rank (default 256)", 1},
    {"shuffle", KEY_SHUFFLE, NULL, 0, "shuffle, in the order of the seed", 1},
    {"seed", KEY_SEED, "S", 0, "seed of the order (default 0)", 1},
    {"drop-last", KEY_DROP_LAST, NULL, 0, "leave out the last global batch of an epoch if it is not full", 1},
    {"resume", KEY_RESUME, "TOKEN", 0, "begin where another consumer stood", 1},
    {NULL, 0, NULL, 0, "How much:", 2},
    {"batches", KEY_BATCHES, "N", 0, "stop after N batches", 2},
    {"epochs", KEY_EPOCHS, "E", 0,
     "stop before epoch number E, counted from 0; 0 means never (default: one epoch, or 0 with --batches)",
     2},
    {"timeout", KEY_TIMEOUT, "S", 0, "fail when no batch comes for S seconds", 2},
    {NULL, 0, NULL, 0, "Together with others:", 3},
    {"share", KEY_SHARE, "NAME", 0, "join the feed of that name, or make it", 3},
    {"wait-for", KEY_WAIT_FOR, "K", 0, "begin when K consumers have joined", 3},
    {"max-lag", KEY_MAX_LAG, "S", 0, "detach whoever holds the others up for S seconds", 3},
    {"rank", KEY_RANK, "R", 0, "rank of this consumer", 3},
    {"world-size", KEY_WORLD_SIZE, "W", 0, "ranks that split each global batch", 3},
    {"local-world-size", KEY_LOCAL_WORLD_SIZE, "W", 0, "ranks that attach to this daemon", 3},
    {NULL, 0, NULL, 0, "Memory:", 4},
    {"prefetch", KEY_PREFETCH, "P", 0, "batches to hold at once", 4},
    {"ring", KEY_RING, "BYTES", 0, "size of a new feed's ring, like 64M", 4},
    {"device", KEY_DEVICE, "GPU", 0,
     "take batches in the memory of a GPU: cuda:0, a UUID, or host:0 for a simulated one", 4},
    {"device-world-size", KEY_DEVICE_WORLD_SIZE, "W", 0, "ranks that use this GPU (default 1)", 4},
    {NULL, 0, NULL, 0, "What to do with it:", 5},
    {"verify", KEY_VERIFY, NULL, 0,
     "compare every byte with the files, and check that each sample comes exactly once", 5},
    {"digest", KEY_DIGEST, NULL, 0, "print a hash (XXH3, 128 bits) of the bytes of each epoch in order", 5},
    {"indices", KEY_INDICES, "FILE", 0, "write a line EPOCH SAMPLE for every sample, in order", 5},
    {"work", KEY_WORK, "MS", 0, "pretend to compute for MS milliseconds per batch", 5},
    {"client-name", KEY_NAME, "NAME", 0, "shown by feedctl clients (default: feedctl)", 5},
    {"quiet", KEY_QUIET, NULL, 0, "print no summary, and no line per epoch unless it has a digest", 5},
    {0},
};

struct input {
    struct read_options *options;
    bool epochs_given;
};

static uint32_t parse_u32(const struct argp_state *state, const char *what, const char *text,
                          uint32_t least) {
    return (uint32_t)ctl_parse_number(state, what, text, least, UINT32_MAX);
}

// Options that describe the feed.
static error_t parse_feed_option(int key, char *argument, struct argp_state *state,
                                 struct feed_options *feed) {
    switch (key) {
    case KEY_BATCH_SIZE:
        feed->batch_size = (uint32_t)ctl_parse_number(state, "batch size", argument, 1, 16777215);
        return 0;
    case KEY_SHUFFLE:
        feed->shuffle = true;
        return 0;
    case KEY_SEED:
        feed->seed = ctl_parse_number(state, "seed", argument, 0, UINT64_MAX);
        return 0;
    case KEY_DROP_LAST:
        feed->drop_last = true;
        return 0;
    case KEY_SHARE:
        feed->share = argument;
        return 0;
    case KEY_WAIT_FOR:
        feed->wait_for = parse_u32(state, "wait-for", argument, 1);
        return 0;
    case KEY_MAX_LAG:
        feed->max_lag_s = parse_u32(state, "max-lag", argument, 1);
        return 0;
    case KEY_RANK:
        feed->rank = parse_u32(state, "rank", argument, 0);
        return 0;
    case KEY_WORLD_SIZE:
        feed->world_size = parse_u32(state, "world size", argument, 1);
        return 0;
    case KEY_LOCAL_WORLD_SIZE:
        feed->local_world_size = parse_u32(state, "local world size", argument, 1);
        return 0;
    case KEY_PREFETCH:
        feed->prefetch = parse_u32(state, "prefetch", argument, 1);
        return 0;
    case KEY_RING:
        feed->ring_bytes = ctl_parse_size(state, "ring", argument);
        return 0;
    case KEY_DEVICE:
        feed->device = argument;
        return 0;
    case KEY_DEVICE_WORLD_SIZE:
        feed->device_world_size = parse_u32(state, "device world size", argument, 1);
        return 0;
    case KEY_RESUME:
        feed->resume = argument;
        return 0;
    case KEY_NAME:
        feed->client_name = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct input *input = state->input;
    struct read_options *options = input->options;
    switch (key) {
    case KEY_BATCHES:
        options->batches = ctl_parse_number(state, "batches", argument, 1, UINT64_MAX);
        return 0;
    case KEY_EPOCHS:
        options->feed.epochs = ctl_parse_number(state, "epochs", argument, 0, UINT64_MAX);
        input->epochs_given = true;
        return 0;
    case KEY_TIMEOUT:
        options->timeout_ms = (int64_t)(1000 * ctl_parse_decimal(state, "timeout", argument, 0.001, 1e9));
        return 0;
    case KEY_WORK:
        options->work_us = (uint64_t)(1e6 * ctl_parse_decimal(state, "work", argument, 0, 1e9) / 1000);
        return 0;
    case KEY_INDICES:
        return options->indices = argument, 0;
    case KEY_VERIFY:
        return options->verify = true, 0;
    case KEY_DIGEST:
        return options->digest = true, 0;
    case KEY_QUIET:
        return options->quiet = true, 0;
    case ARGP_KEY_ARG:
        if (options->feed.dataset)
            argp_error(state, "too many arguments: only one dataset can be read");
        options->feed.dataset = argument;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which dataset? feedctl datasets lists them");
        return EINVAL;
    default:
        return parse_feed_option(key, argument, state, &options->feed);
    }
}

// The daemon refuses a malformed token.
static uint64_t first_epoch(const struct feed_options *feed) {
    struct resume_token token;
    return feed->resume && resume_token_parse(feed->resume, &token, NULL) == 0 ? token.epoch : 0;
}

void read_parse(const struct ctl *ctl, int count, char **arguments, struct read_options *options) {
    options->feed =
        (struct feed_options){.socket = ctl->socket, .batch_size = DEFAULT_BATCH, .client_name = "feedctl"};
    struct input input = {.options = options};
    const struct argp argp = {
        table,     parse,
        "DATASET", "Be a consumer: read batches, print the throughput, and optionally verify the data.",
        NULL,      NULL,
        NULL};
    ctl_parse(&argp, count, arguments, &input);
    if (!input.epochs_given && !options->batches)
        options->feed.epochs = first_epoch(&options->feed) + 1;
}
