#include "client/ctl/top/screen.h"

#include <string.h>

#include "base/time.h"
#include "client/ctl/top/page.h" // before curses.h, which makes common words macros

#include <curses.h>

static SCREEN *terminal;

int screen_open(struct error *error) {
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return error_set(error, -ENOTTY, "top needs a terminal: feedctl stats prints the same figures");
    terminal = newterm(NULL, stdout, stdin);
    if (!terminal)
        return error_set(error, -ENOTTY,
                         "this terminal is not known (TERM is %s): feedctl stats prints the same figures",
                         getenv("TERM") ? getenv("TERM") : "not set");
    set_term(terminal);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    set_escdelay(100);
    curs_set(0);
    if (has_colors()) {
        start_color();
        use_default_colors();
        init_pair(1, COLOR_RED, -1);
        init_pair(2, COLOR_CYAN, -1);
    }
    return 0;
}

void screen_size(uint32_t *width, uint32_t *height) {
    int rows, columns;
    getmaxyx(stdscr, rows, columns);
    *width = columns > 0 ? (uint32_t)columns : 1;
    *height = rows > 0 ? (uint32_t)rows : 1;
}

static int attributes(char kind) {
    switch ((enum page_line)kind) {
    case PAGE_DAEMON:
        return A_BOLD;
    case PAGE_TITLE:
        return A_BOLD | COLOR_PAIR(2);
    case PAGE_PICKED:
        return A_REVERSE;
    case PAGE_NOTE:
        return COLOR_PAIR(1);
    case PAGE_KEYS:
        return A_DIM;
    default:
        return A_NORMAL;
    }
}

void screen_show(const char *lines) {
    uint32_t width, height, line = 0;
    screen_size(&width, &height);
    erase();
    for (size_t length; *lines && line < height; lines += length + (lines[length] == '\n'), line++) {
        length = strcspn(lines, "\n");
        // The keys stand at the bottom.
        uint32_t at = *lines == PAGE_KEYS ? height - 1 : line;
        int style = attributes(*lines);
        attron(style);
        mvaddnstr((int)at, 0, lines + 1, (int)length - 1);
        attroff(style);
    }
    refresh();
}

static enum screen_key translate(int key) {
    switch (key) {
    case 'q':
    case 'Q':
    case 27: // Escape
        return SCREEN_QUIT;
    case KEY_RESIZE:
        return SCREEN_RESIZED;
    case KEY_UP:
    case 'k':
        return SCREEN_UP;
    case KEY_DOWN:
    case 'j':
        return SCREEN_DOWN;
    case KEY_PPAGE:
        return SCREEN_PAGE_UP;
    case KEY_NPAGE:
        return SCREEN_PAGE_DOWN;
    case '\t':
    case KEY_RIGHT:
        return SCREEN_TAB;
    case KEY_BTAB:
    case KEY_LEFT:
        return SCREEN_BACKTAB;
    case '\r':
    case '\n':
    case KEY_ENTER:
        return SCREEN_ENTER;
    case 's':
        return SCREEN_SORT;
    case 'r':
        return SCREEN_REVERSE;
    default:
        return SCREEN_OTHER;
    }
}

enum screen_key screen_wait(uint64_t until_ns) {
    uint64_t now = monotonic_ns();
    timeout(until_ns > now ? (int)((until_ns - now) / NS_PER_MS) + 1 : 0);
    int key = getch();
    return key == ERR ? SCREEN_NONE : translate(key);
}

void screen_close(void) {
    endwin();
    delscreen(terminal);
    terminal = NULL;
}
