#include "client/ctl/cmd_control.h"

#include <string.h>

#include "base/error.h"
#include "client/ctl/arguments.h"
#include "client/ctl/query.h"
#include "client/ctl/render.h"
#include "client/ctl/text.h"

static error_t parse_nothing(int key, char *argument, struct argp_state *state) {
    (void)argument;
    if (key == ARGP_KEY_ARG)
        argp_error(state, "too many arguments");
    return ARGP_ERR_UNKNOWN;
}

static int send_command(const struct ctl *ctl, const Feedd__Command *command) {
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    struct error error = {0};
    char text[8192] = "";
    int err = query_open(&connection, ctl, &error);
    if (err == 0)
        err = query_command(&connection, command, text, sizeof text, &error);
    if (err < 0)
        return ctl_complain(&error);
    text_print_answer(text, ctl_terminal_width(), stdout, stderr);
    return CTL_OK;
}

static int send_kind(const struct ctl *ctl, Feedd__Command__Kind kind) {
    Feedd__Command command = FEEDD__COMMAND__INIT;
    command.kind = kind;
    return send_command(ctl, &command);
}

int cmd_reload(const struct ctl *ctl, int count, char **arguments) {
    const struct argp argp = {
        NULL, parse_nothing,
        NULL, "Reload the configuration and print what has changed. Feeds in use continue unchanged.",
        NULL, NULL,
        NULL};
    ctl_parse(&argp, count, arguments, NULL);
    return send_kind(ctl, FEEDD__COMMAND__KIND__RELOAD);
}

int cmd_drain(const struct ctl *ctl, int count, char **arguments) {
    const struct argp argp = {
        NULL, parse_nothing, NULL, "Refuse new consumers, and stop the daemon when the last one has left.",
        NULL, NULL,          NULL};
    ctl_parse(&argp, count, arguments, NULL);
    return send_kind(ctl, FEEDD__COMMAND__KIND__DRAIN);
}

struct loaders_options {
    char *feed;
    const char *count;
    uint32_t loaders; // 0: auto
};

static error_t parse_loaders(int key, char *argument, struct argp_state *state) {
    struct loaders_options *options = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "too many arguments");
        else if (state->arg_num == 0)
            options->feed = argument;
        else
            options->count = argument;
        return 0;
    case ARGP_KEY_END:
        if (!options->count)
            argp_error(state, "name a feed, and a number of loaders or auto");
        else if (strcmp(options->count, "auto") != 0)
            options->loaders = (uint32_t)ctl_parse_number(state, "loaders", options->count, 1, 64);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cmd_loaders(const struct ctl *ctl, int count, char **arguments) {
    const struct argp argp = {
        NULL,
        parse_loaders,
        "FEED N|auto",
        "Set the number of loaders of FEED (an id or a name): 1 to 64, or auto for as many as it needs. "
        "The feed continues meanwhile.",
        NULL,
        NULL,
        NULL};
    struct loaders_options options = {0};
    ctl_parse(&argp, count, arguments, &options);
    Feedd__Command command = FEEDD__COMMAND__INIT;
    command.kind = FEEDD__COMMAND__KIND__LOADERS;
    command.name = options.feed;
    command.count = options.loaders;
    return send_command(ctl, &command);
}
