// feedctl: the command line and the table of commands.
#include <argp.h>
#include <locale.h>
#include <string.h>

#include "base/names.h"
#include "base/option_table.h"
#include "base/sizes.h"
#include "client/ctl/arguments.h"
#include "client/ctl/cmd_control.h"
#include "client/ctl/cmd_doctor.h"
#include "client/ctl/cmd_errors.h"
#include "client/ctl/cmd_index.h"
#include "client/ctl/cmd_list.h"
#include "client/ctl/cmd_metrics.h"
#include "client/ctl/cmd_pack.h"
#include "client/ctl/cmd_read.h"
#include "client/ctl/cmd_show.h"
#include "client/ctl/cmd_stats.h"
#include "client/ctl/cmd_status.h"
#include "client/ctl/cmd_top.h"
#include "client/ctl/cmd_trace.h"
#include "client/ctl/ctl.h"
#include "client/ctl/query.h"
#include "client/lib/connect.h"

__attribute__((visibility("default"))) const char *argp_program_version = "feedctl " FEEDD_VERSION;

// The help and the completion of shells come from this table too.
static const struct command {
    const char *name, *arguments, *summary;
    int (*run)(const struct ctl *ctl, int count, char **arguments);
} commands[] = {
    {"status", "", "the daemon, its processes and its last errors", cmd_status},
    {"datasets", "", "what can be read", cmd_datasets},
    {"feeds", "", "what is being read", cmd_feeds},
    {"clients", "", "who is connected", cmd_clients},
    {"stats", " [INTERVAL]", "live throughput, and the bottleneck of each feed", cmd_stats},
    {"top", " [INTERVAL]", "the same full-screen, with keys", cmd_top},
    {"trace", " [SECONDS]", "a timeline of all processes, for Perfetto", cmd_trace},
    {"metrics", "", "the statistics as OpenMetrics text", cmd_metrics},
    {"doctor", "", "find what slows feedd down on this machine", cmd_doctor},
    {"show", " DATASET", "samples: values, text and images", cmd_show},
    {"read", " DATASET", "be a consumer: measure, verify, compare", cmd_read},
    {"index", " DATASET", "check the index of a dataset, or build it", cmd_index},
    {"errors", " DATASET", "samples that could not be read", cmd_errors},
    {"pack", " DATASET FILE", "write a dataset into shards, the fastest to read", cmd_pack},
    {"loaders", " FEED N", "set the number of loaders of a feed", cmd_loaders},
    {"reload", "", "reload the configuration", cmd_reload},
    {"drain", "", "refuse new consumers, stop when the last one has left", cmd_drain},
};

static const char usage[] = "COMMAND [ARGUMENT...]";
static const char text[] = "Inspect a running feedd, read from it, and control it.\v";
static const char more[] =
    "\nfeedctl COMMAND --help prints more. FEEDD_SOCKET names another default socket. Exit "
    "codes: 0 success, 1 failure, 2 wrong usage.";

// What stands below the options: the commands.
static char *add_help(int key, const char *given, void *input) {
    char *help = NULL;
    size_t bytes;
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)given;
    FILE *out = open_memstream(&help, &bytes);
    if (!out)
        return NULL;
    fputs("Commands:\n", out);
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        const struct command *command = &commands[i];
        int width = 20 - (int)strlen(command->name);
        fprintf(out, "  %s%-*s %s\n", command->name, width, command->arguments, command->summary);
    }
    fputs(more, out);
    fclose(out);
    return help;
}

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

static int refuse_command(const char *wanted) {
    const char *names[COUNT_OF(commands)];
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        names[i] = commands[i].name;
    const char *near = name_nearest(wanted, names, COUNT_OF(names));
    fprintf(stderr, "feedctl: there is no command %s%s%s: see feedctl --help\n", wanted,
            near ? "; perhaps you mean " : "", near ? near : "");
    return CTL_USAGE;
}

int main(int count, char **arguments) {
    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C"); // programs read the figures too
    argp_err_exit_status = CTL_USAGE;
    struct invocation invocation = {0};
    const struct argp argp = {options, parse, usage, text, NULL, add_help, NULL};
    if (option_table_wanted(count, arguments)) {
        for (size_t i = 0; i < COUNT_OF(commands); i++)
            printf("command\t%s\t%s\n", commands[i].name, commands[i].summary);
        option_table_print(&argp);
        return CTL_OK;
    }
    argp_parse(&argp, count, arguments, ARGP_IN_ORDER, NULL, &invocation);
    invocation.ctl.socket = connect_path(invocation.ctl.socket);

    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (strcmp(commands[i].name, invocation.arguments[0]) == 0)
            return commands[i].run(&invocation.ctl, invocation.count, invocation.arguments);
    return refuse_command(invocation.arguments[0]);
}
