#include "base/step_reader.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t"

static void turn_to(struct step_reader *reader, const char *at) {
    at += strspn(at, BLANKS);
    reader->step = reader->at = at;
    reader->end = at + strcspn(at, ",");
    reader->length = (int)(reader->end - at);
    while (reader->length && strchr(BLANKS, at[reader->length - 1]))
        reader->length--;
    reader->number++;
    reader->word = at;
    reader->word_length = 0;
}

void step_reader_begin(struct step_reader *reader, const char *text) {
    reader->number = 0;
    turn_to(reader, text);
}

bool step_reader_next(struct step_reader *reader) {
    if (*reader->end == '\0')
        return false;
    turn_to(reader, reader->end + 1);
    return true;
}

bool step_reader_word(struct step_reader *reader) {
    while (reader->at < reader->end && strchr(BLANKS, *reader->at))
        reader->at++;
    reader->word = reader->at;
    while (reader->at < reader->end && !strchr(BLANKS, *reader->at))
        reader->at++;
    reader->word_length = (int)(reader->at - reader->word);
    return reader->word_length > 0;
}

bool step_reader_is(const struct step_reader *reader, const char *wanted) {
    const size_t length = strlen(wanted);
    return length == (size_t)reader->word_length && memcmp(reader->word, wanted, length) == 0;
}

// No words like inf, and no hexadecimal.
static const char *parse_decimal(const char *at, double *number) {
    char *end;
    const char *digits = at + (*at == '-' || *at == '+');
    if (!isdigit((unsigned char)*digits) && *digits != '.')
        return NULL;
    if (strspn(at, "+-.0123456789eE") < strcspn(at, "/"))
        return NULL;
    *number = strtod(at, &end); // the daemon's locale is C
    return end == at ? NULL : end;
}

bool step_reader_value(const struct step_reader *reader, float *value) {
    char text[64];
    double number, divisor = 1;
    const size_t length = (size_t)reader->word_length;
    if (length >= sizeof text)
        return false;
    memcpy(text, reader->word, length);
    text[length] = '\0';
    const char *at = parse_decimal(text, &number);
    if (at && *at == '/')
        at = parse_decimal(at + 1, &divisor);
    if (!at || *at || divisor == 0)
        return false;
    *value = (float)(number / divisor);
    return isfinite(*value);
}

bool step_reader_whole(const struct step_reader *reader, uint32_t *value) {
    *value = 0;
    if (reader->word_length < 1 || reader->word_length > 9)
        return false;
    for (int i = 0; i < reader->word_length; i++) {
        if (!isdigit((unsigned char)reader->word[i]))
            return false;
        *value = *value * 10 + (uint32_t)(reader->word[i] - '0');
    }
    return true;
}
