// The tables of options of our programs, for tools/make-completions.py.
#ifndef FEEDD_BASE_OPTION_TABLE_H
#define FEEDD_BASE_OPTION_TABLE_H

#include <argp.h>
#include <stdbool.h>

// Whether the table is wanted in place of anything else.
bool option_table_wanted(int count, char **arguments);

// A line for the arguments and one for each option, except hidden ones.
void option_table_print(const struct argp *argp);

#endif
