// Every option of feedd.conf with its section, type, range, default and text.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_PRINT_H
#define FEEDD_DAEMON_CONFIG_CONFIG_PRINT_H

#include <stdio.h>

void config_print_options(FILE *out);     // for people: feedd --help-config
void config_print_options_man(FILE *out); // roff for feedd.conf(5)

#endif
