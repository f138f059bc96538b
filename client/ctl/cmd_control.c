#include "client/ctl/cmd_control.h"

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

static int send_command(const struct ctl *ctl, Feedd__Command__Kind kind) {
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    struct error error = {0};
    char text[8192] = "";
    int err = query_open(&connection, ctl, &error);
    if (err == 0)
        err = query_command(&connection, kind, text, sizeof text, &error);
    if (err < 0)
        return ctl_complain(&error);
    text_print_answer(text, ctl_terminal_width(), stdout, stderr);
    return CTL_OK;
}

int cmd_reload(const struct ctl *ctl, int count, char **arguments) {
    const struct argp argp = {
        NULL, parse_nothing,
        NULL, "Reload the configuration and print what has changed. Feeds in use continue unchanged.",
        NULL, NULL,
        NULL};
    ctl_parse(&argp, count, arguments, NULL);
    return send_command(ctl, FEEDD__COMMAND__KIND__RELOAD);
}

int cmd_drain(const struct ctl *ctl, int count, char **arguments) {
    const struct argp argp = {
        NULL, parse_nothing, NULL, "Refuse new consumers, and stop the daemon when the last one has left.",
        NULL, NULL,          NULL};
    ctl_parse(&argp, count, arguments, NULL);
    return send_command(ctl, FEEDD__COMMAND__KIND__DRAIN);
}
