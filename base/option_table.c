#include "base/option_table.h"

#include <stdio.h>
#include <string.h>

bool option_table_wanted(int count, char **arguments) {
    return count == 2 && strcmp(arguments[1], "--describe-options") == 0;
}

void option_table_print(const struct argp *argp) {
    printf("arguments\t%s\n", argp->args_doc ? argp->args_doc : "");
    for (const struct argp_option *option = argp->options; option && (option->name || option->doc);
         option++) {
        if (!option->name || (option->flags & OPTION_HIDDEN))
            continue; // the title of a group, or not for users
        const char letter[] = {option->key > ' ' && option->key < 127 ? (char)option->key : '\0', '\0'};
        printf("option\t%s\t%s\t%s\t%s\n", option->name, letter, option->arg ? option->arg : "", option->doc);
    }
}
