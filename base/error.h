// Errors are negative errno values. Functions whose failure a person has to understand also fill a struct error with
// one sentence. Libraries never log and never exit.
#ifndef FEEDD_BASE_ERROR_H
#define FEEDD_BASE_ERROR_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/scope.h"

// One sentence for people: what, where, what was found, what is wanted. No trailing newline or full stop, and no
// control characters: those of what it quotes are escaped. Long paths are shortened (base/sentence.h).
struct error {
    int code; // negative errno, 0 when empty
    char text[512];
};

// Fills `error` (which may be NULL) and yields `code`, so that `return error_set(...)` reads well. A macro,
// so that the compiler and its analyzers see which value comes back.
#define error_set(error, code, ...)                                                                          \
    ({                                                                                                       \
        int error_code = (code);                                                                             \
        error_write(error, error_code, __VA_ARGS__);                                                         \
        error_code;                                                                                          \
    })
void error_write(struct error *error, int code, const char *text, ...) PRINTF_LIKE(3, 4);

// Whether `code` means that memory, descriptors or space ran out. More may be free later, so it says nothing about the
// thing that was asked for.
static inline bool error_is_lack(int code) {
    return code == -ENOSPC || code == -ENOMEM || code == -EMFILE || code == -ENFILE;
}

// Puts "prefix: " before the sentence that `error` already holds; returns its code.
int error_prefix(struct error *error, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
