#include "client/ctl/arguments.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/option_table.h"

void ctl_parse(const struct argp *argp, int count, char **arguments, void *input) {
    char name[64];
    if (option_table_wanted(count, arguments)) {
        option_table_print(argp);
        exit(EXIT_SUCCESS);
    }
    snprintf(name, sizeof name, "feedctl %s", arguments[0]);
    char *command = arguments[0];
    arguments[0] = name; // argp takes the program's name from there
    argp_parse(argp, count, arguments, 0, NULL, input);
    arguments[0] = command;
}

static error_t parse_json(int key, char *argument, struct argp_state *state) {
    (void)argument;
    if (key != 'j')
        return key == ARGP_KEY_ARG ? (argp_error(state, "too many arguments"), EINVAL) : ARGP_ERR_UNKNOWN;
    *(bool *)state->input = true;
    return 0;
}

bool ctl_parse_json(const char *summary, int count, char **arguments) {
    static const struct argp_option options[] = {{"json", 'j', NULL, 0, "print JSON", 0}, {0}};
    const struct argp argp = {options, parse_json, NULL, summary, NULL, NULL, NULL};
    bool json = false;
    ctl_parse(&argp, count, arguments, &json);
    return json;
}

// The number at the start of `text` and what follows it. False when there is none or it is too large.
static bool leading_number(const char *text, uint64_t *value, const char **rest) {
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    *rest = end;
    return *text >= '0' && *text <= '9' && errno == 0;
}

uint64_t ctl_parse_number(const struct argp_state *state, const char *what, const char *text, uint64_t least,
                          uint64_t most) {
    uint64_t value;
    const char *rest;
    if (leading_number(text, &value, &rest) && !*rest && value >= least && value <= most)
        return value;
    if (most == UINT64_MAX && least == 0)
        argp_error(state, "%s %s: a whole number is wanted", what, text);
    else
        argp_error(state, "%s %s: a whole number from %llu to %llu is wanted", what, text,
                   (unsigned long long)least, (unsigned long long)most);
    return value;
}

double ctl_parse_decimal(const struct argp_state *state, const char *what, const char *text, double least,
                         double most) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= most))
        argp_error(state, "%s %s: a number from %g to %g is wanted", what, text, least, most);
    return value;
}

uint64_t ctl_parse_size(const struct argp_state *state, const char *what, const char *text) {
    static const char units[] = "KMGT";
    uint64_t value;
    const char *rest;
    bool valid = leading_number(text, &value, &rest);
    const char *unit = valid && *rest ? strchr(units, *rest) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (!valid || (*rest && !unit) || (unit && rest[1]) || value > UINT64_MAX >> shift)
        argp_error(state, "%s %s: a size like 64M or 2G is wanted", what, text);
    return value << shift;
}

error_t ctl_parse_dataset(int key, char *argument, struct argp_state *state, const char **dataset) {
    switch (key) {
    case ARGP_KEY_ARG:
        if (*dataset)
            argp_error(state, "too many arguments");
        *dataset = argument;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which dataset? feedctl datasets lists them");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}
