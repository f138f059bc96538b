// Everything is split in place. A value of several lines is moved together there: it never needs more bytes than it has
// in the text.
#include "daemon/config/config_reader.h"

#include <stdbool.h>
#include <string.h>

static const char blanks[] = " \t\r";

// A line without its end, its indentation and the blanks behind it.
struct line {
    char *whole; // with its indentation
    char *text;
    size_t length; // of `text`
    char *next;
};

static struct line split_line(char *at) {
    const size_t whole = strcspn(at, "\n");
    const size_t indent = strspn(at, " \t");
    struct line line = {.whole = at, .text = at + indent, .next = at + whole + (at[whole] == '\n')};
    line.length = whole > indent ? whole - indent : 0;
    while (line.length && strchr(blanks, line.text[line.length - 1]))
        line.length--;
    return line;
}

static bool says_nothing(const struct line *line) {
    return line->length == 0 || *line->text == ';' || *line->text == '#';
}

// The end of what precedes a comment, without the blanks before that.
static size_t find_comment(const char *text, size_t length) {
    for (size_t i = 1; i < length; i++)
        if (text[i] == ';' && strchr(blanks, text[i - 1]))
            length = i;
    while (length && strchr(blanks, text[length - 1]))
        length--;
    return length;
}

// Where the key ends; `length` if the line is not a pair.
static size_t find_separator(const struct line *line) {
    const size_t said = find_comment(line->text, line->length);
    const size_t at = strcspn(line->text, "=:\n");
    return at < said ? at : line->length;
}

// What a line may not be, whatever it says.
static enum config_item check_line(struct config_reader *reader, const struct line *line) {
    reader->bytes = line->length;
    if (line->length > CONFIG_MAX_LINE)
        return CONFIG_ITEM_LONG_LINE;
    for (size_t i = 0; i < line->length; i++) {
        reader->bytes = (unsigned char)line->text[i];
        if (reader->bytes < ' ' && reader->bytes != '\t')
            return CONFIG_ITEM_CONTROL_BYTE;
    }
    return CONFIG_ITEM_END;
}

// An indented line continues the value above, unless it is a heading or a pair.
static bool continues(const struct line *line) {
    return line->text > line->whole && *line->text != '[' && find_separator(line) == line->length;
}

// Moves the lines that continue the value behind it; `end` is its end. Stops before a line that is wrong: that is the
// next item.
static void read_more(struct config_reader *reader, char *end) {
    while (*reader->next) {
        const struct line line = split_line(reader->next);
        if (!says_nothing(&line)) {
            if (!continues(&line) || check_line(reader, &line) != CONFIG_ITEM_END)
                break;
            const size_t length = find_comment(line.text, line.length);
            if (end > reader->value && length)
                *end++ = ' ';
            memmove(end, line.text, length);
            end += length;
        }
        reader->next = line.next;
        reader->next_line++;
    }
    *end = '\0';
}

static enum config_item read_pair(struct config_reader *reader, struct line *line, size_t separator) {
    char *value = line->text + separator + 1;
    size_t length = find_comment(line->text, line->length);
    size_t key = separator;
    while (key && strchr(blanks, line->text[key - 1]))
        key--;
    line->text[key] = '\0';
    char *end = line->text + length;
    while (value < end && strchr(blanks, *value))
        value++;
    reader->text = line->text;
    reader->value = value;
    read_more(reader, end);
    return CONFIG_ITEM_PAIR;
}

void config_reader_begin(struct config_reader *reader, char *text) {
    *reader = (struct config_reader){.next = text, .next_line = 1};
}

enum config_item config_reader_next(struct config_reader *reader) {
    struct line line;
    do {
        if (*reader->next == '\0')
            return CONFIG_ITEM_END;
        line = split_line(reader->next);
        reader->next = line.next;
        reader->line = reader->next_line++;
    } while (says_nothing(&line));
    const enum config_item wrong = check_line(reader, &line);
    if (wrong != CONFIG_ITEM_END)
        return wrong;
    const size_t separator = find_separator(&line);
    if (*line.text != '[' && separator < line.length)
        return read_pair(reader, &line, separator);
    line.text[line.length] = '\0';
    reader->text = *line.text == '[' ? line.text : line.whole;
    return *line.text == '[' ? CONFIG_ITEM_SECTION : CONFIG_ITEM_WRONG;
}
