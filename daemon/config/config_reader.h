// Splits the text of a configuration into section headings and pairs of a key and a value. A line has at most
// CONFIG_MAX_LINE bytes, without its indentation. Comments and blank lines are skipped, also between the lines of a
// value.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_READER_H
#define FEEDD_DAEMON_CONFIG_CONFIG_READER_H

#include <stddef.h>
#include <stdint.h>

#define CONFIG_MAX_LINE 8192u

enum config_item {
    CONFIG_ITEM_END,
    CONFIG_ITEM_SECTION,     // `text` is its line, from the bracket on
    CONFIG_ITEM_PAIR,        // `text` is the key, `value` the value; either may be ""
    CONFIG_ITEM_WRONG,       // `text` is a line that is neither
    CONFIG_ITEM_LONG_LINE,   // of `bytes` bytes
    CONFIG_ITEM_CONTROL_BYTE // `bytes` is the byte
};

struct config_reader {
    char *next;         // what has not been read yet
    uint32_t next_line; // its number
    uint32_t line;      // of the last item: where it begins, or what is wrong with it
    const char *text, *value;
    size_t bytes;
};

// `text` is changed while it is read, and must outlive the items.
void config_reader_begin(struct config_reader *reader, char *text);

enum config_item config_reader_next(struct config_reader *reader);

#endif
