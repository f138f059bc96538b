// feedd-exporter: the daemon's statistics for Prometheus, over HTTP. The daemon itself has no network.
#include <argp.h>
#include <limits.h>
#include <locale.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/option_table.h"
#include "client/exporter/confine.h"
#include "client/exporter/http.h"
#include "client/lib/connect.h"
#include "proto/limits.h"
#include "shm/stats.h"
#include "shm/stats_read.h"

#define DEFAULT_LISTEN "127.0.0.1:9743"
#define BACKLOG        16
#define WAIT_MS        500

__attribute__((visibility("default"))) const char *argp_program_version = "feedd-exporter " FEEDD_VERSION;

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

struct options {
    const char *socket, *listen;
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 's':
        options->socket = argument;
        return 0;
    case 'l':
        options->listen = argument;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "too many arguments");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

// getaddrinfo would take -1 and 75279 as well, modulo 65536.
static bool is_port(const char *text) {
    size_t digits = strspn(text, "0123456789");
    unsigned long port = strtoul(text, NULL, 10);
    return digits && !text[digits] && port >= 1 && port <= UINT16_MAX;
}

// "127.0.0.1:9743" or "[::1]:9743". Only numbers: nothing is asked of a name server.
static int find_address(const char *text, struct addrinfo **found, struct error *error) {
    char host[128];
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;
    bool brackets = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    if (!length || length >= sizeof host)
        return error_set(error, -EINVAL, "found %s, wanted an address and a port, such as " DEFAULT_LISTEN,
                         text);
    if (!is_port(colon + 1))
        return error_set(error, -EINVAL, "%s: found port \"%s\", wanted a number from 1 to 65535", text,
                         colon + 1);
    snprintf(host, sizeof host, "%.*s", (int)(length - 2 * brackets), text + brackets);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    int code = getaddrinfo(host, colon + 1, &hints, found);
    return code ? error_set(error, -EINVAL, "%s: %s; wanted an address and a port, such as " DEFAULT_LISTEN,
                            text, gai_strerror(code))
                : 0;
}

static int listen_on(const char *text, int *result, struct error *error) {
    struct addrinfo *address = NULL;
    int err = find_address(text, &address, error);
    if (err < 0)
        return err;
    AUTO_CLOSE int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int yes = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0 ||
        bind(fd, address->ai_addr, address->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        err = error_set(error, -errno, "cannot listen on %s: %m", text);
    freeaddrinfo(address);
    if (err < 0)
        return err;
    *result = fd;
    fd = -1;
    return 0;
}

// The folder must be there: by it the kernel is told what may be read. A missing file in it is an answer; one that
// may not be read never will be.
static int check_statistics(const char *path, char folder[PATH_MAX], struct error *error) {
    const struct stats_region *region = NULL;
    struct stat status;
    snprintf(folder, PATH_MAX, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    else
        snprintf(folder, PATH_MAX, ".");
    if (stat(folder, &status) < 0)
        return error_set(error, -errno, "cannot look at the folder of the daemon's socket, %s: %m", folder);
    int err = stats_open(path, &region, error);
    stats_close(region);
    return err == -EACCES ? err : 0;
}

static int run(const struct options *options, struct error *error) {
    static char statistics[PATH_MAX], folder[PATH_MAX];
    int fd = -1;
    struct http *http = NULL;
    int err = stats_path(options->socket, statistics, sizeof statistics);
    if (err < 0)
        return error_set(error, err, "the path of the socket is too long: %s", options->socket);
    err = check_statistics(statistics, folder, error);
    if (err == 0)
        err = listen_on(options->listen, &fd, error);
    if (err == 0)
        err = http_open(fd, statistics, &http, error);
    if (err < 0)
        return err;
    err = confine_exporter(folder, error);
    while (err == 0 && !interrupted) {
        err = http_serve(http, WAIT_MS);
        if (err < 0)
            error_set(error, err, "the server on %s has failed", options->listen);
    }
    http_close(http);
    return err;
}

int main(int count, char **arguments) {
    static const struct argp_option table[] = {
        {"socket", 's', "PATH", 0,
         "socket of the daemon, next to its statistics file (default: $FEEDD_SOCKET, "
         "else " PROTO_DEFAULT_SOCKET ")",
         0},
        {"listen", 'l', "ADDRESS:PORT", 0, "where to serve (default " DEFAULT_LISTEN ")", 0},
        {0},
    };
    const struct argp argp = {table,
                              parse,
                              NULL,
                              "Serve the statistics of a feedd as OpenMetrics text at /metrics, over HTTP. "
                              "They are read from the file beside its socket, without asking the daemon.",
                              NULL,
                              NULL,
                              NULL};
    struct options options = {.listen = DEFAULT_LISTEN};
    struct error error = {0};
    setlocale(LC_ALL, "C.UTF-8");
    argp_err_exit_status = 2;
    if (option_table_wanted(count, arguments)) {
        option_table_print(&argp);
        return EXIT_SUCCESS;
    }
    argp_parse(&argp, count, arguments, 0, NULL, &options);
    options.socket = connect_path(options.socket);
    const struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (run(&options, &error) == 0)
        return 0;
    fprintf(stderr, "feedd-exporter: %s\n", error.text);
    return 1;
}
