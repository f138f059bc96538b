#include "daemon/config/config_print.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/config/config_options.h"
#include "daemon/config/config_values.h"

#define PRINT_WIDTH 78

// Indents by eight columns and breaks lines between words.
static void print_wrapped(FILE *out, const char *text) {
    while (*text) {
        size_t length = strlen(text);
        if (length > PRINT_WIDTH - 8) {
            length = PRINT_WIDTH - 8;
            while (length && text[length] != ' ')
                length--;
        }
        fprintf(out, "        %.*s\n", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

static void print_option(FILE *out, const struct config_option *option) {
    char wanted[DESCRIPTION_TEXT], line[DESCRIPTION_TEXT + 64];
    fprintf(out, "    %s = %s\n", option->key, option->default_text);
    print_wrapped(out, option->text);
    snprintf(line, sizeof line, "Wanted: %s.", option_describe(option, wanted));
    print_wrapped(out, line);
    if (option->formats[0]) {
        snprintf(line, sizeof line, "With format: %s.", option->formats);
        print_wrapped(out, line);
    }
}

void config_print_options(FILE *out) {
    for (enum config_section section = SECTION_FEEDD; section < CONFIG_SECTIONS; section++) {
        fprintf(out, "%s%s\n", section == SECTION_FEEDD ? "" : "\n", section_title(section));
        for (size_t i = 0; i < CONFIG_OPTIONS; i++)
            if (config_options[i].section == section)
                print_option(out, &config_options[i]);
    }
}

// Backslashes, hyphens, and dots and quotes at the start of a line mean something to roff.
static void print_roff(FILE *out, const char *text) {
    if (*text == '.' || *text == '\'')
        fputs("\\&", out);
    for (; *text; text++)
        switch (*text) {
        case '\\':
            fputs("\\e", out);
            break;
        case '-':
            fputs("\\-", out);
            break;
        default:
            fputc(*text, out);
        }
}

static void print_option_man(FILE *out, const struct config_option *option) {
    char wanted[DESCRIPTION_TEXT];
    fputs(".TP\n\\fB", out);
    print_roff(out, option->key);
    fputs("\\fR = ", out);
    print_roff(out, option->default_text);
    fputc('\n', out);
    print_roff(out, option->text);
    fputs("\nWanted: ", out);
    print_roff(out, option_describe(option, wanted));
    fputs(".\n", out);
    if (option->formats[0])
        fprintf(out, "With format: %s.\n", option->formats);
}

void config_print_options_man(FILE *out) {
    for (enum config_section section = SECTION_FEEDD; section < CONFIG_SECTIONS; section++) {
        fprintf(out, ".SS %s\n", section_title(section));
        for (size_t i = 0; i < CONFIG_OPTIONS; i++)
            if (config_options[i].section == section)
                print_option_man(out, &config_options[i]);
    }
}
