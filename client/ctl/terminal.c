// The cursor stays visible and the screen is not switched, so a SIGKILL leaves nothing to repair.
#include "client/ctl/terminal.h"

#include "base/sizes.h"
#include "client/ctl/render.h" // before term.h, which makes common words macros

#include <string.h>
#include <sys/ioctl.h>
#include <term.h>

static const char *ability(const char *name) {
    const char *code = tigetstr(name);
    return code == (const char *)-1 ? NULL : code;
}

static void emit(const char *name) {
    const char *code = ability(name);
    if (code)
        putp(code);
}

bool terminal_open(void) {
    int found;
    if (!isatty(STDOUT_FILENO) || setupterm(NULL, STDOUT_FILENO, &found) != 0 || found != 1)
        return false;
    if (!ability("home") || !ability("el") || !ability("ed") || !ability("clear"))
        return false;
    emit("clear");
    return true;
}

void terminal_size(uint32_t *width, uint32_t *height) {
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row;
    *width = known ? size.ws_col : 80;
    *height = known ? size.ws_row : 24;
}

void terminal_draw(const char *text) {
    uint32_t width, height;
    terminal_size(&width, &height);
    emit("home");
    for (uint32_t line = 1; *text && line < height; line++) {
        size_t length = strcspn(text, "\n");
        fwrite(text, 1, min_u64(length, text_prefix(text, width)), stdout);
        emit("el");
        putchar('\n');
        text += length + (text[length] != 0);
    }
    emit("ed");
    fflush(stdout);
}

void terminal_close(void) {
    putchar('\r'); // over the ^C that the terminal may show
    emit("el");
    fflush(stdout);
}
