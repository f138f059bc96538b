// Sentences with long paths: the paths are shortened, and what stands around them stays.
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/sentence.h"
#include "base/sizes.h"

#define REASON "found 7 bytes, wanted a multiple of 64; see feedd.conf(5)"

// "/first", `fill` as often as `length` allows, and "/NAME.npy".
static const char *path_of(char path[PATH_MAX], size_t length, const char *fill, const char *name) {
    size_t used = (size_t)snprintf(path, PATH_MAX, "/first"), end = strlen(name) + 5;
    const size_t step = strlen(fill);
    for (; used + step + end <= length; used += step)
        snprintf(path + used, PATH_MAX - used, "%s", fill);
    snprintf(path + used, PATH_MAX - used, "/%s.npy", name);
    return path;
}

static bool ends_with(const char *text, const char *end) {
    size_t all = strlen(text), length = strlen(end);
    return all >= length && strcmp(text + all - length, end) == 0;
}

static void short_sentences_stay_as_they_are(void **state) {
    char text[40];
    (void)state;
    sentence_write(text, sizeof text, "%s: %s", "/a/b", "no such file");
    assert_string_equal(text, "/a/b: no such file");
    sentence_write(text, sizeof text, "%s", "123456789012345678901234567890123456789");
    assert_string_equal(text, "123456789012345678901234567890123456789");
}

static void paths_are_shortened_and_reasons_are_not(void **state) {
    static const size_t lengths[] = {400, 480, 511, 512, 600, 1000, 2000, 4000};
    static const char *const fills[] = {
        "/folder", "/gr\303\274n", "/\360\237\230\200", "/\n\001", "/\377", "x", " y"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(lengths); i++)
        for (size_t j = 0; j < COUNT_OF(fills); j++) {
            char path[PATH_MAX];
            struct error error = {0};
            error_set(&error, -EINVAL, "dataset numbers: %s: %s", path_of(path, lengths[i], fills[j], "last"),
                      REASON);
            assert_true(strlen(error.text) < sizeof error.text);
            assert_memory_equal(error.text, "dataset numbers: /first", 23);
            assert_true(ends_with(error.text, "/last.npy: " REASON));
            assert_null(strstr(error.text, "\\x9f")); // no half of a character
            assert_null(strstr(error.text, "\\xbc"));
            if (lengths[i] > 511)
                assert_non_null(strstr(error.text, "..."));
        }
}

static void two_paths_share_the_room(void **state) {
    char first[PATH_MAX], second[PATH_MAX];
    struct error error = {0};
    (void)state;
    path_of(first, 4000, "/one", "first");
    path_of(second, 1500, "/two", "second");
    error_set(&error, -EXDEV, "%s leads to %s, which is outside", first, second);
    assert_true(strlen(error.text) < sizeof error.text && strlen(error.text) > 300);
    const char *between = strstr(error.text, "/first.npy leads to /first/two");
    assert_non_null(between);
    assert_true(between - error.text > 100 && strlen(between) > 100);
    assert_true(ends_with(error.text, "/second.npy, which is outside"));
}

static void prefixes_keep_the_reason(void **state) {
    char path[PATH_MAX];
    struct error error = {0};
    (void)state;
    path_of(path, 3000, "/folder", "data");
    error_set(&error, -EINVAL, "%s: %s", path, REASON);
    error_prefix(&error, "%s:%u: [feedd] include", path_of(path, 3000, "/other", "conf"), 12);
    error_prefix(&error, "reload");
    assert_memory_equal(error.text, "reload: /first/other", 20);
    assert_non_null(strstr(error.text, "/conf.npy:12: [feedd] include: /first"));
    assert_true(ends_with(error.text, "/data.npy: " REASON));
}

static void long_sentences_of_short_words_keep_their_end(void **state) {
    char words[2000] = "", text[64];
    (void)state;
    for (size_t used = 0; used + 8 < sizeof words;)
        used += (size_t)snprintf(words + used, sizeof words - used, "word ");
    sentence_write(text, sizeof text, "found %s: out of memory", words);
    assert_int_equal(strlen(text), sizeof text - 1);
    assert_memory_equal(text, "found word", 10);
    assert_non_null(strstr(text, "..."));
    assert_true(ends_with(text, "word : out of memory"));
}

// However little room there is, and whatever the bytes.
static void nothing_is_written_past_the_end(void **state) {
    char text[SENTENCE_BYTES_MOST + 1], *path = malloc(40000);
    (void)state;
    assert_non_null(path);
    uint32_t dice = 7;
    for (size_t bytes = 32; bytes <= SENTENCE_BYTES_MOST; bytes += bytes < 600 ? 1 : 499)
        for (size_t length = bytes / 2; length < 40000; length = length * 3 + 1) {
            for (size_t i = 0; i < length; i++)
                path[i] = (char)(1 + (dice = dice * 1664525 + 1013904223) / 256 % 255);
            path[length - 1] = '\0';
            text[bytes] = '#';
            sentence_write(text, bytes, "%s: %d", path, 7);
            assert_true(strlen(text) < bytes && text[bytes] == '#');
            for (const char *at = text; *at; at++)
                assert_true((unsigned char)*at >= ' ' && *at != 127);
        }
    free(path);
}

static void errno_is_kept(void **state) {
    char text[64];
    (void)state;
    errno = ENOSPC;
    sentence_write(text, sizeof text, "cannot write: %m");
    assert_string_equal(text, "cannot write: No space left on device");
    assert_int_equal(errno, ENOSPC);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_sentences_stay_as_they_are),
        cmocka_unit_test(paths_are_shortened_and_reasons_are_not),
        cmocka_unit_test(two_paths_share_the_room),
        cmocka_unit_test(prefixes_keep_the_reason),
        cmocka_unit_test(long_sentences_of_short_words_keep_their_end),
        cmocka_unit_test(nothing_is_written_past_the_end),
        cmocka_unit_test(errno_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
