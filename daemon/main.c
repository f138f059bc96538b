// The program: its arguments, and the role of this process.
#include <argp.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>

#include "base/error.h"
#include "base/option_table.h"
#include "daemon/check.h"
#include "daemon/config/config_print.h"
#include "daemon/loader/loader.h"
#include "daemon/log.h"
#include "daemon/source/source.h"
#include "daemon/supervisor/run.h"
#include "daemon/transfer/transfer.h"

// libc looks this symbol up by name, so it must not be hidden like everything else.
__attribute__((visibility("default"))) const char *argp_program_version = "feedd " FEEDD_VERSION;

enum {
    KEY_ROLE = 256,
    KEY_UNTIL_EOF,
    KEY_USER,
    KEY_HELP_CONFIG,
    KEY_HELP_CONFIG_MAN
};

struct arguments {
    const char *config;
    const char *role;
    const char *user; // to check as
    bool check, until_eof;
    bool help_config, help_config_man;
};

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0, "Read this configuration (default " CHECK_SYSTEM_CONFIG ")", 0},
    {"check", 'n', NULL, 0,
     "Check the configuration and the files that it names, print what would be served, and exit", 0},
    {"user", KEY_USER, "NAME", 0,
     "With --check: check as this user; by default root checks " CHECK_SYSTEM_CONFIG
     " as user " CHECK_SYSTEM_USER,
     0},
    {"until-eof", KEY_UNTIL_EOF, NULL, 0,
     "Stop when standard input, a pipe, ends: for programs that start their own daemon", 0},
    {"help-config", KEY_HELP_CONFIG, NULL, 0, "Print every configuration option", 0},
    {"help-config-man", KEY_HELP_CONFIG_MAN, NULL, OPTION_HIDDEN, NULL, 0},
    {"role", KEY_ROLE, "ROLE", OPTION_HIDDEN, NULL, 0},
    {0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct arguments *arguments = state->input;
    switch (key) {
    case 'c':
        arguments->config = argument;
        return 0;
    case 'n':
        arguments->check = true;
        return 0;
    case KEY_UNTIL_EOF:
        arguments->until_eof = true;
        return 0;
    case KEY_USER:
        arguments->user = argument;
        return 0;
    case KEY_ROLE:
        arguments->role = argument;
        return 0;
    case KEY_HELP_CONFIG:
        arguments->help_config = true;
        return 0;
    case KEY_HELP_CONFIG_MAN:
        arguments->help_config_man = true;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->role)
            return 0; // shown by ps
        argp_error(state, "unexpected argument \"%s\": name a configuration with --config %s", argument,
                   argument);
        return EINVAL;
    case ARGP_KEY_END:
        if (arguments->user && !arguments->check)
            argp_error(state, "--user goes with --check; the daemon runs as the user that starts it");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .doc = "Keeps GPUs fed: reads samples of datasets into shared memory and hands batches to training "
           "processes.\vRuns in the foreground. SIGHUP reloads the configuration, SIGTERM stops the daemon "
           "cleanly.",
};

// Every file of a dataset is a descriptor, here and in each loader.
static void raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

// Children get descriptors by number, so 0 to 2 must not be files of ours.
static int hold_standard_descriptors(void) {
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
        if (fd < 0)
            return -errno;
    } while (fd <= STDERR_FILENO);
    close(fd);
    return 0;
}

// Like any command in a terminal; as an error in the journal.
static void complain(const struct error *error) {
    if (log_is_journal())
        log_error("%s", error->text);
    else
        fprintf(stderr, "feedd: %s\n", error->text);
}

static int run_check(const struct arguments *arguments) {
    struct error error = {0};
    log_open("feedd", LOG_LEVEL_INFO);
    int status = check_config(arguments->config, arguments->user, &error);
    if (status != EXIT_SUCCESS)
        complain(&error);
    return status;
}

// The loop unblocks it when it listens for it: a reload that is asked for earlier must not end the daemon.
static void postpone_reload(void) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
}

static int run_supervisor(const struct arguments *arguments) {
    struct error error = {0};
    struct config *config = NULL;
    postpone_reload();
    log_open("feedd", LOG_LEVEL_INFO);
    int err = config_load(arguments->config, &config, &error);
    if (!err)
        err = source_check_config(config, &error);
    if (err < 0) {
        complain(&error);
        config_free(config);
        // For the service manager: starting again changes nothing, unless a directory service did not answer, or the
        // machine lacked something.
        return err == -EAGAIN || error_is_lack(err) ? EXIT_FAILURE : EX_CONFIG;
    }
    log_open("feedd", (enum log_level)config->log_level);
    return supervisor_run(config, arguments->until_eof);
}

int main(int argc, char **argv) {
    struct arguments arguments = {.config = CHECK_SYSTEM_CONFIG};
    // A log whose reader has gone, or whose file has reached RLIMIT_FSIZE, kills no process. A ring that
    // exceeds the limit is refused, with the numbers.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    argp_err_exit_status = 2; // as feedctl's, instead of sysexits' 64
    if (option_table_wanted(argc, argv)) {
        option_table_print(&argp);
        return EXIT_SUCCESS;
    }
    int err = argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (err) { // it is out of memory, and has not read them
        fprintf(stderr, "feedd: cannot read the arguments: %s\n", strerror(err));
        return EXIT_FAILURE;
    }
    if (arguments.role && strcmp(arguments.role, "loader") == 0)
        return loader_run(NULL);
    if (arguments.role && strcmp(arguments.role, "loader-prepared") == 0)
        return loader_run(argv);
    if (arguments.role && strcmp(arguments.role, "transfer") == 0)
        return transfer_run();
    if (arguments.role) {
        fprintf(stderr, "feedd: there is no role \"%s\"\n", arguments.role);
        return EXIT_FAILURE;
    }
    if (arguments.help_config || arguments.help_config_man) {
        (arguments.help_config ? config_print_options : config_print_options_man)(stdout);
        return EXIT_SUCCESS;
    }
    if (hold_standard_descriptors() < 0) {
        fprintf(stderr, "feedd: cannot open /dev/null\n");
        return EXIT_FAILURE;
    }
    raise_descriptor_limit();
    return arguments.check ? run_check(&arguments) : run_supervisor(&arguments);
}
