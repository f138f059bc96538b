#include "client/ctl/text.h"

#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/ctl.h"
#include "client/ctl/render.h"

int ctl_complain(const struct error *error) {
    fprintf(stderr, "feedctl: %s\n", error->text);
    return CTL_FAILED;
}

// Three significant digits.
static void format_scaled(double value, const char *unit, char text[CTL_TEXT]) {
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(text, CTL_TEXT, "%.*f%s", decimals, value, unit);
}

void ctl_format_bytes(uint64_t bytes, char text[CTL_TEXT]) {
    static const char *const units[] = {" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    if (bytes < 1024) {
        snprintf(text, CTL_TEXT, "%" PRIu64 " B", bytes);
        return;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    for (; value >= 1023.5 && unit + 1 < COUNT_OF(units); unit++)
        value /= 1024;
    if (value == (double)(uint64_t)value)
        snprintf(text, CTL_TEXT, "%.0f%s", value, units[unit]);
    else
        format_scaled(value, units[unit], text);
}

void ctl_format_count(double value, char text[CTL_TEXT]) {
    static const char *const units[] = {"k", "M", "G", "T"};
    if (value < 999.5) {
        snprintf(text, CTL_TEXT, "%.*f", value == (double)(uint64_t)value || value >= 99.95 ? 0 : 1, value);
        return;
    }
    value /= 1000;
    size_t unit = 0;
    for (; value >= 999.5 && unit + 1 < COUNT_OF(units); unit++)
        value /= 1000;
    format_scaled(value, units[unit], text);
}

void ctl_format_duration(uint64_t ns, char text[CTL_TEXT]) {
    uint64_t seconds = ns / NS_PER_S;
    if (seconds < 60)
        snprintf(text, CTL_TEXT, "%.1f s", (double)ns / 1e9);
    else if (seconds < 3600)
        snprintf(text, CTL_TEXT, "%" PRIu64 " min %" PRIu64 " s", seconds / 60, seconds % 60);
    else if (seconds < 86400)
        snprintf(text, CTL_TEXT, "%" PRIu64 " h %" PRIu64 " min", seconds / 3600, seconds / 60 % 60);
    else
        snprintf(text, CTL_TEXT, "%" PRIu64 " d %" PRIu64 " h", seconds / 86400, seconds / 3600 % 24);
}

uint32_t ctl_terminal_width(void) {
    struct winsize size;
    if (isatty(STDOUT_FILENO))
        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    const char *columns = getenv("COLUMNS");
    unsigned long width = columns ? strtoul(columns, NULL, 10) : 0;
    return width <= UINT16_MAX ? (uint32_t)width : 0;
}

static uint32_t line_width(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : UINT32_MAX;
}

bool ctl_fits_line(const char *text) {
    return text[text_prefix(text, line_width() - 1)] == '\0'; // the cursor takes the last column
}

void ctl_overwrite(const char *text) {
    fprintf(stderr, "\r\033[K%.*s", (int)text_prefix(text, line_width() - 1), text);
    fflush(stderr);
}

static void print_json(json_t *value, size_t flags) {
    json_dumpf(value, stdout, flags);
    putchar('\n');
    fflush(stdout);
    json_decref(value);
}

void ctl_print_json(json_t *value, bool pretty) {
    print_json(value, JSON_REAL_PRECISION(9) | (pretty ? JSON_INDENT(2) : JSON_COMPACT));
}

void ctl_print_json_exact(json_t *value) {
    print_json(value, JSON_REAL_PRECISION(17) | JSON_COMPACT);
}

json_t *ctl_json_text(const char *text) {
    json_t *value = json_string(text);
    return value ? value : json_string("(not UTF-8)");
}

json_t *ctl_json_word(uint64_t value) {
    return json_sprintf("%" PRIu64, value);
}
