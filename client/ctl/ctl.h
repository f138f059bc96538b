// What feedctl's commands share: the dispatch table, questions to the daemon, and numbers for people.
#ifndef FEEDD_CLIENT_CTL_CTL_H
#define FEEDD_CLIENT_CTL_CTL_H

#include <argp.h>
#include <jansson.h>

#include "base/error.h"
#include "client/lib/connection.h"

// Exit codes of every command.
enum {
    CTL_OK = 0,
    CTL_FAILED = 1,
    CTL_USAGE = 2
};

#define CTL_TIMEOUT_MS 10000 // for a daemon to answer a question

struct ctl {
    const char *socket; // chosen by --socket, $FEEDD_SOCKET or the default
};

// Each gets its own name as arguments[0].
int cmd_status(const struct ctl *ctl, int count, char **arguments);
int cmd_datasets(const struct ctl *ctl, int count, char **arguments);
int cmd_feeds(const struct ctl *ctl, int count, char **arguments);
int cmd_clients(const struct ctl *ctl, int count, char **arguments);
int cmd_stats(const struct ctl *ctl, int count, char **arguments);
int cmd_read(const struct ctl *ctl, int count, char **arguments);
int cmd_reload(const struct ctl *ctl, int count, char **arguments);
int cmd_drain(const struct ctl *ctl, int count, char **arguments);

// "feedctl: " and the sentence, on standard error. Returns CTL_FAILED.
int ctl_complain(const struct error *error);

// argp_parse under the name "feedctl COMMAND".
void ctl_parse(const struct argp *argp, int count, char **arguments, void *input);

// Parses the arguments of a command that knows --json or nothing.
bool ctl_parse_json(const char *summary, int count, char **arguments);

// Numbers of options. They end the program with a usage message when `text` is none in the range.
uint64_t ctl_parse_number(const struct argp_state *state, const char *what, const char *text, uint64_t least,
                          uint64_t most);
double ctl_parse_decimal(const struct argp_state *state, const char *what, const char *text, double least,
                         double most);
uint64_t ctl_parse_size(const struct argp_state *state, const char *what, const char *text); // 64M, 2G, ...

// ---- Questions -------------------------------------------------------------------------------------

// Connects for questions. 0, or negative with the error filled.
int query_open(struct connection *connection, const struct ctl *ctl, struct error *error);

// Asks, and hands every page of the answer to `take`.
int query_ask(struct connection *connection, Feedd__Query__Kind kind, const char *name,
              int (*take)(const Feedd__Answer *page, void *context, struct error *error), void *context,
              struct error *error);

// Sends a command and copies what the daemon says to `text`.
int query_command(struct connection *connection, Feedd__Command__Kind kind, char *text, size_t bytes,
                  struct error *error);

// ---- Text ------------------------------------------------------------------------------------------

#define CTL_TEXT 32

// "1.5 GiB", "640 B": powers of 1024, as memory is measured.
void ctl_format_bytes(uint64_t bytes, char text[CTL_TEXT]);
// "12.3k", "4.56M": powers of 1000, three digits.
void ctl_format_count(double value, char text[CTL_TEXT]);
// "0.3 s", "5 min 2 s", "3 h 12 min", "4 d 1 h".
void ctl_format_duration(uint64_t ns, char text[CTL_TEXT]);

// Columns of the terminal that standard output is; elsewhere what COLUMNS says, if it is in the environment; or 0.
uint32_t ctl_terminal_width(void);

// Puts a JSON value on standard output, in one line or (`pretty`) indented, and releases it.
void ctl_print_json(json_t *value, bool pretty);
// A JSON string, also of bytes that are not UTF-8.
json_t *ctl_json_text(const char *text);
// Numbers beyond what JSON's integers hold here (63 bits) and fingerprints are texts.
json_t *ctl_json_word(uint64_t value);

#endif
