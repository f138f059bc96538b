// feedctl: the command line and the table of commands.
#include <argp.h>
#include <locale.h>
#include <string.h>

#include "base/sizes.h"
#include "client/ctl/cmd_control.h"
#include "client/ctl/cmd_errors.h"
#include "client/ctl/cmd_index.h"
#include "client/ctl/cmd_list.h"
#include "client/ctl/cmd_pack.h"
#include "client/ctl/cmd_read.h"
#include "client/ctl/cmd_show.h"
#include "client/ctl/cmd_stats.h"
#include "client/ctl/cmd_status.h"
#include "client/ctl/ctl.h"
#include "client/ctl/query.h"
#include "client/lib/connect.h"

__attribute__((visibility("default"))) const char *argp_program_version = "feedctl " FEEDD_VERSION;

static const struct {
    const char *name;
    int (*run)(const struct ctl *ctl, int count, char **arguments);
} commands[] = {
    {"status", cmd_status},   {"datasets", cmd_datasets}, {"feeds", cmd_feeds},   {"clients", cmd_clients},
    {"stats", cmd_stats},     {"show", cmd_show},         {"read", cmd_read},     {"index", cmd_index},
    {"reload", cmd_reload},   {"drain", cmd_drain},       {"errors", cmd_errors}, {"pack", cmd_pack},
    {"loaders", cmd_loaders},
};

static const char usage[] = "COMMAND [ARGUMENT...]";
static const char text[] =
    "Look at a running feedd, read from it, and control it.\v"
    "Commands:\n"
    "  status               the daemon, its processes and its last errors\n"
    "  datasets             what can be read\n"
    "  feeds                what is being read\n"
    "  clients              who is connected\n"
    "  stats [INTERVAL]     live throughput, and what the bottleneck is\n"
    "  show DATASET         samples: values, text and images\n"
    "  read DATASET         be a consumer: measure, verify, compare\n"
    "  index DATASET        check the index of a dataset, or build it\n"
    "  errors DATASET       samples that could not be read\n"
    "  pack DATASET FILE    write a dataset into shards that are read fastest\n"
    "  loaders FEED N       give a feed another number of loaders\n"
    "  reload               reload the configuration\n"
    "  drain                refuse new consumers, stop when the last one has left\n\n"
    "feedctl COMMAND --help prints more. FEEDD_SOCKET names another default socket. Exit codes: 0 success, 1 "
    "failure, "
    "2 wrong usage.";

static const struct argp_option options[] = {
    {"socket", 's', "PATH", 0, "socket of the daemon (default: $FEEDD_SOCKET, else " PROTO_DEFAULT_SOCKET ")",
     0},
    {0},
};

struct invocation {
    struct ctl ctl;
    int count; // arguments from the command's name on
    char **arguments;
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct invocation *invocation = state->input;
    switch (key) {
    case 's':
        invocation->ctl.socket = argument;
        return 0;
    case ARGP_KEY_ARG:
        // The command parses its own arguments.
        invocation->arguments = &state->argv[state->next - 1];
        invocation->count = state->argc - state->next + 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no command given");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int count, char **arguments) {
    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C"); // programs read the figures too
    argp_err_exit_status = CTL_USAGE;
    struct invocation invocation = {0};
    const struct argp argp = {options, parse, usage, text, NULL, NULL, NULL};
    argp_parse(&argp, count, arguments, ARGP_IN_ORDER, NULL, &invocation);
    invocation.ctl.socket = connect_path(invocation.ctl.socket);

    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (strcmp(commands[i].name, invocation.arguments[0]) == 0)
            return commands[i].run(&invocation.ctl, invocation.count, invocation.arguments);
    fprintf(stderr, "feedctl: there is no command %s: see feedctl --help\n", invocation.arguments[0]);
    return CTL_USAGE;
}
