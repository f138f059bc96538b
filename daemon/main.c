// The program: arguments, and which role this process has.
#include <argp.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sysexits.h>

#include "base/error.h"
#include "daemon/config/config_print.h"
#include "daemon/loader/loader.h"
#include "daemon/supervisor/supervisor.h"
#include "daemon/transfer/transfer.h"
#include "gpu/gpu.h"

#define DEFAULT_CONFIG "/etc/feedd/feedd.conf"

// libc looks this symbol up by name, so it must not be hidden as everything else is.
__attribute__((visibility("default"))) const char *argp_program_version = "feedd " FEEDD_VERSION;

enum {
    KEY_ROLE = 256,
    KEY_UNTIL_EOF,
    KEY_HELP_CONFIG,
    KEY_HELP_CONFIG_MAN
};

struct arguments {
    const char *config;
    const char *role;
    bool check, until_eof;
    bool help_config, help_config_man;
};

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0, "Read this configuration (default " DEFAULT_CONFIG ")", 0},
    {"check", 'n', NULL, 0,
     "Check the configuration and the files it names, say what would be served, and exit", 0},
    {"until-eof", KEY_UNTIL_EOF, NULL, 0,
     "Stop when standard input, a pipe, ends: for a program that starts its own", 0},
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
        argp_error(state, "unexpected argument \"%s\"", argument);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .doc = "Keeps GPUs fed: reads samples of datasets into shared memory and hands batches to training "
           "processes.\vRuns in the foreground. SIGHUP reads the configuration again, SIGTERM stops in good "
           "order.",
};

// Every file of a dataset is a descriptor, here and in each loader.
static void raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

// Descriptors 0 to 2 are given to children by number, so they must not be some file of ours.
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

// In a terminal like any command; in the journal as an error.
static void complain(const struct error *error) {
    if (log_is_journal())
        log_error("%s", error->text);
    else
        fprintf(stderr, "feedd: %s\n", error->text);
}

static int check(const struct config *config) {
    struct error error = {0};
    struct dataset **datasets;
    if (datasets_open(config, &datasets, &error) < 0) {
        complain(&error);
        return EXIT_FAILURE;
    }
    for (size_t i = 0; i < config->dataset_count; i++)
        dataset_print(stdout, datasets[i]);
    char gpus[512];
    gpu_describe((uint32_t)config->simulated_gpus, gpus, sizeof gpus);
    printf("delivery to GPUs: %s\n", gpus);
    printf("%s: all is well; %zu dataset%s would be served on %s\n", config->file, config->dataset_count,
           config->dataset_count == 1 ? "" : "s", config->socket);
    datasets_close(datasets, config->dataset_count);
    return EXIT_SUCCESS;
}

static int run_supervisor(const struct arguments *arguments) {
    struct error error = {0};
    struct config *config = NULL;
    log_open("feedd", LOG_LEVEL_INFO);
    if (config_load(arguments->config, &config, &error) < 0) {
        complain(&error);
        // For the service manager: starting again would change nothing.
        return arguments->check ? EXIT_FAILURE : EX_CONFIG;
    }
    if (arguments->check) {
        int status = check(config);
        config_free(config);
        return status;
    }
    log_open("feedd", (enum log_level)config->log_level);
    return supervisor_run(config, arguments->until_eof);
}

int main(int argc, char **argv) {
    struct arguments arguments = {.config = DEFAULT_CONFIG};
    argp_err_exit_status = 2; // as feedctl's, instead of sysexits' 64
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    if (arguments.role && strcmp(arguments.role, "loader") == 0)
        return loader_run();
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
    return run_supervisor(&arguments);
}
