// Reads a list of steps such as "resize 256, scale 1/255, cast f16": steps with commas between them, each of words with
// blanks between them. Nothing is copied: words point into the text, and have no NUL at their end.
#ifndef FEEDD_BASE_STEP_READER_H
#define FEEDD_BASE_STEP_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a number of a step may look like, for messages.
#define STEP_NUMBER_WORDS "a number like 0.5, -2e-3 or 1/255 that f32 can hold"

struct step_reader {
    const char *step; // the step that is being read
    int length;       // ... without the blanks around it: for "%.*s"
    uint32_t number;  // ... from 1
    const char *at;   // how far its words have been read
    const char *end;  // of the step, in the text
    const char *word; // the last word
    int word_length;  // 0: there was none
};

// Turns to the first step of `text`, which must outlive the reader. An empty text has one step, an empty one.
void step_reader_begin(struct step_reader *reader, const char *text);

// Turns to the next step; false if there is none.
bool step_reader_next(struct step_reader *reader);

// Takes the next word of the step; false at its end.
bool step_reader_word(struct step_reader *reader);

// Whether the last word is `wanted`.
bool step_reader_is(const struct step_reader *reader, const char *wanted);

// Whether the last word is NUMBER or NUMBER/NUMBER: decimal, with an optional point and exponent. It is divided as
// float64 and rounded to float32, which must be finite.
bool step_reader_value(const struct step_reader *reader, float *value);

// Whether the last word is a whole number of 1 to 9 digits.
bool step_reader_whole(const struct step_reader *reader, uint32_t *value);

#endif
