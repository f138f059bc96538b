#include "client/ctl/sample_text.h"

#include <locale.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include "base/scope.h"

// ---- Characters ------------------------------------------------------------------------------------

// What the C library says of characters depends on the locale; samples do not.
struct unicode {
    locale_t ours, before;
};

static struct unicode unicode_begin(void) {
    struct unicode unicode = {.ours = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0)};
    if (unicode.ours)
        unicode.before = uselocale(unicode.ours);
    return unicode;
}

static void unicode_end(struct unicode *unicode) {
    if (!unicode->ours)
        return; // without that locale only ASCII is known
    uselocale(unicode->before);
    freelocale(unicode->ours);
}

// Bytes of the character at the start; 0 if there is none.
static size_t next_character(const uint8_t *bytes, size_t count, wchar_t *character) {
    mbstate_t state = {0};
    size_t taken = mbrtowc(character, (const char *)bytes, count, &state);
    return taken > count ? 0 : taken; // an error is (size_t)-1 or (size_t)-2
}

static bool turns_the_direction(wchar_t character) {
    return character == 0x61c || character == 0x200e || character == 0x200f ||
           (character >= 0x202a && character <= 0x202e) || (character >= 0x2066 && character <= 0x2069);
}

static const char *escape_of(wchar_t character) {
    switch (character) {
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    default:
        return NULL;
    }
}

static bool is_printable(wchar_t character) {
    return escape_of(character) || (iswprint((wint_t)character) && !turns_the_direction(character));
}

bool sample_text_is(const uint8_t *bytes, size_t count, size_t *length) {
    struct unicode unicode CLEANUP(unicode_end) = unicode_begin();
    while (count && bytes[count - 1] == 0)
        count--;
    *length = count;
    for (size_t at = 0, taken; at < count; at += taken) {
        wchar_t character;
        taken = next_character(bytes + at, count - at, &character);
        if (!taken || !is_printable(character))
            return false;
    }
    return count > 0;
}

// ---- Lines -----------------------------------------------------------------------------------------

struct lines {
    FILE *out;
    uint32_t at, width; // where lines begin and end
    uint32_t column;
};

static void new_line(struct lines *lines) {
    fprintf(lines->out, "\n%*s", (int)lines->at, "");
    lines->column = lines->at;
}

static bool passes(const struct lines *lines, uint32_t columns) {
    return lines->width && lines->column > lines->at && lines->column + columns > lines->width;
}

static void put(struct lines *lines, const char *bytes, size_t count, uint32_t columns) {
    if (passes(lines, columns))
        new_line(lines);
    fwrite(bytes, 1, count, lines->out);
    lines->column += columns;
}

static uint32_t columns_of(wchar_t character) {
    const char *escape = escape_of(character);
    int columns = escape ? (int)strlen(escape) : wcwidth(character);
    return columns > 0 ? (uint32_t)columns : 0;
}

// Of the word at the start, with the quote if the text ends there.
static uint32_t word_columns(const uint8_t *text, size_t length, uint32_t limit) {
    uint32_t columns = 0;
    wchar_t character;
    for (size_t at = 0, taken; at < length && text[at] != ' ' && text[at] != '\n' && columns <= limit;
         at += taken) {
        taken = next_character(text + at, length - at, &character);
        if (!taken)
            break;
        columns += columns_of(character);
    }
    return columns + 1;
}

void sample_text_print(const uint8_t *text, size_t length, uint32_t at, uint32_t width, FILE *out) {
    struct unicode unicode CLEANUP(unicode_end) = unicode_begin();
    struct lines lines = {.out = out, .at = at, .width = width, .column = at};
    put(&lines, "\"", 1, 1);
    for (size_t from = 0, taken; from < length; from += taken) {
        wchar_t character;
        taken = next_character(text + from, length - from, &character);
        if (!taken || !is_printable(character))
            break; // the bytes are no longer what they were
        bool begins = from && text[from - 1] == ' ' && character != ' ';
        if (begins && passes(&lines, word_columns(text + from, length - from, width)))
            new_line(&lines);
        const char *escape = escape_of(character);
        if (character == ' ' && passes(&lines, 1))
            new_line(&lines); // instead of the blank
        else if (escape)
            put(&lines, escape, strlen(escape), (uint32_t)strlen(escape));
        else
            put(&lines, (const char *)text + from, taken, columns_of(character));
        if (character == '\n' && from + taken < length)
            new_line(&lines);
    }
    put(&lines, "\"\n", 2, 1);
}
