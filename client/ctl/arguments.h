// Parsing what commands are given.
#ifndef FEEDD_CLIENT_CTL_ARGUMENTS_H
#define FEEDD_CLIENT_CTL_ARGUMENTS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

// argp_parse under the name "feedctl COMMAND".
void ctl_parse(const struct argp *argp, int count, char **arguments, void *input);

// Parses the arguments of a command whose only option is --json.
bool ctl_parse_json(const char *summary, int count, char **arguments);

// Of a command with one argument, the name of a dataset: what its parser makes of a key that is not an option of its
// own. Exits with a usage message if there is no name, or more than one.
error_t ctl_parse_dataset(int key, char *argument, struct argp_state *state, const char **dataset);

// Numbers of options. They exit with a usage message if `text` is not a number in the range.
uint64_t ctl_parse_number(const struct argp_state *state, const char *what, const char *text, uint64_t least,
                          uint64_t most);
double ctl_parse_decimal(const struct argp_state *state, const char *what, const char *text, double least,
                         double most);
uint64_t ctl_parse_size(const struct argp_state *state, const char *what, const char *text); // 64M, 2G, ...

#endif
