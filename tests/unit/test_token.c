// Resume tokens: golden texts, the way there and back, and that nothing mangled is taken.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <inttypes.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"
#include "base/sizes.h"
#include "order/order.h"
#include "order/token.h"
#include "tests/unit/order_vectors.h"

static const struct resume_token sample = {ORDER_FEISTEL_1, 0x0123456789abcdef, 7, 3, 25600, {0}};

static void assert_same(const struct resume_token *left, const struct resume_token *right) {
    assert_int_equal(left->version, right->version);
    assert_int_equal(left->fingerprint, right->fingerprint);
    assert_int_equal(left->seed, right->seed);
    assert_int_equal(left->epoch, right->epoch);
    assert_int_equal(left->consumed, right->consumed);
    assert_true(mix_run_same(&left->mix, &right->mix));
}

// Refused with a sentence that holds `word`, and the token stays as it was.
static void assert_refused(const char *text, const char *word) {
    struct resume_token token = sample;
    struct error error = {0};
    if (resume_token_parse(text, &token, &error) != -EINVAL)
        fail_msg("taken: %s", text);
    assert_int_equal(error.code, -EINVAL);
    if (!strstr(error.text, word))
        fail_msg("\"%s\" is not in \"%s\"", word, error.text);
    assert_same(&token, &sample);
    assert_int_equal(resume_token_parse(text, &token, NULL), -EINVAL);
}

static void test_golden(void **state) {
    (void)state;
    for (size_t at = 0; at < COUNT_OF(token_vectors); at++) {
        const struct resume_token token = {(enum order_version)token_vectors[at].version,
                                           token_vectors[at].fingerprint,
                                           token_vectors[at].seed,
                                           token_vectors[at].epoch,
                                           token_vectors[at].consumed,
                                           {0}};
        char text[RESUME_TOKEN_BYTES];
        struct resume_token back = {0};
        struct error error = {0};
        resume_token_format(&token, text);
        assert_string_equal(text, token_vectors[at].text);
        assert_int_equal(resume_token_parse(text, &back, &error), 0);
        assert_int_equal(error.code, 0);
        assert_same(&back, &token);
    }
}

static void test_golden_of_mixtures(void **state) {
    (void)state;
    for (size_t at = 0; at < COUNT_OF(mix_token_vectors); at++) {
        struct resume_token token = {(enum order_version)mix_token_vectors[at].version,
                                     mix_token_vectors[at].fingerprint,
                                     mix_token_vectors[at].seed,
                                     mix_token_vectors[at].epoch,
                                     mix_token_vectors[at].consumed,
                                     {0}};
        token.mix.version = MIX_1;
        token.mix.sources = mix_token_vectors[at].sources;
        token.mix.base.start = mix_token_vectors[at].start;
        for (uint32_t i = 0; i < token.mix.sources; i++) {
            token.mix.weights[i] = (uint32_t)mix_token_vectors[at].pairs[i][0];
            token.mix.base.drawn[i] = mix_token_vectors[at].pairs[i][1];
        }
        char text[RESUME_TOKEN_BYTES];
        struct resume_token back = {0};
        resume_token_format(&token, text);
        assert_string_equal(text, mix_token_vectors[at].text);
        assert_int_equal(resume_token_parse(text, &back, NULL), 0);
        assert_same(&back, &token);
    }
}

static void test_round_trip(void **state) {
    (void)state;
    uint64_t word = 1;
    for (int round = 0; round < 10000; round++) {
        uint64_t fields[4];
        for (int at = 0; at < 4; at++) {
            word = word * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
            fields[at] = word >> (word >> 58);
        }
        const struct resume_token token = {
            (enum order_version)(round % 2), fields[0], fields[1], fields[2], fields[3], {0}};
        char text[RESUME_TOKEN_BYTES];
        struct resume_token back = {0};
        resume_token_format(&token, text);
        assert_null(strpbrk(text, " \t\n\"'$"));
        assert_int_equal(resume_token_parse(text, &back, NULL), 0);
        assert_same(&back, &token);
    }
}

static void test_fits_its_room(void **state) {
    (void)state;
    const struct resume_token token = {
        (enum order_version) - 1, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, {0}};
    char text[RESUME_TOKEN_BYTES];
    resume_token_format(&token, text);
    assert_true(strlen(text) < RESUME_TOKEN_BYTES - 1);
    assert_refused(text, "order version 4294967295"); // whole, so it was not cut
    struct resume_token largest = token;
    largest.mix =
        (struct mix_run){.version = UINT32_MAX, .sources = MIX_MAX_SOURCES, .base = {.start = UINT64_MAX}};
    memset(largest.mix.weights, 0xff, sizeof largest.mix.weights);
    memset(largest.mix.base.drawn, 0xff, sizeof largest.mix.base.drawn);
    resume_token_format(&largest, text);
    assert_true(strlen(text) < RESUME_TOKEN_BYTES - 1);
    assert_refused(text, "order version 4294967295");
}

// What a change at character `at` of a token is called.
static const char *refusal(size_t at) {
    return at < strlen("feedd") ? "not a resume token" : "damaged";
}

static void test_every_changed_character(void **state) {
    (void)state;
    char text[RESUME_TOKEN_BYTES], mangled[RESUME_TOKEN_BYTES];
    resume_token_format(&sample, text);
    for (size_t at = 0; text[at]; at++)
        for (int byte = 0; byte < 256; byte++) {
            if ((char)byte == text[at])
                continue;
            memcpy(mangled, text, sizeof text);
            mangled[at] = (char)byte;
            assert_refused(mangled, refusal(at));
        }
}

static void test_lost_added_and_swapped_characters(void **state) {
    (void)state;
    char text[RESUME_TOKEN_BYTES], mangled[RESUME_TOKEN_BYTES + 1];
    resume_token_format(&sample, text);
    const size_t length = strlen(text);
    for (size_t at = 0; at < length; at++) {
        snprintf(mangled, sizeof mangled, "%.*s%s", (int)at, text, text + at + 1);
        assert_refused(mangled, refusal(at));
        snprintf(mangled, sizeof mangled, "%.*s", (int)at, text);
        assert_refused(mangled, refusal(at));
        snprintf(mangled, sizeof mangled, "%s", text);
        mangled[at] = text[at + 1];
        mangled[at + 1] = text[at];
        if (strcmp(mangled, text) != 0)
            assert_refused(mangled, refusal(at));
    }
    for (size_t at = 0; at <= length; at++)
        for (const char *added = "0 .a\n+"; *added; added++) {
            snprintf(mangled, sizeof mangled, "%.*s%c%s", (int)at, text, *added, text + at);
            assert_refused(mangled, refusal(at));
        }
}

static void test_too_many_sources(void **state) {
    (void)state;
    char body[4000] = "feedd2.1.0123456789abcdef.7.3.25600.1.0.1:0", text[RESUME_TOKEN_BYTES];
    struct resume_token token;
    for (uint32_t i = 1; i <= MIX_MAX_SOURCES; i++) {
        snprintf(text, sizeof text, "%s.%016" PRIx64, body, (uint64_t)XXH64(body, strlen(body), 0));
        assert_int_equal(resume_token_parse(text, &token, NULL), 0);
        assert_int_equal(token.mix.sources, i);
        size_t used = strlen(body);
        snprintf(body + used, sizeof body - used, ",1:0");
    }
    snprintf(text, sizeof text, "%s.%016" PRIx64, body, (uint64_t)XXH64(body, strlen(body), 0));
    assert_refused(text, "fields");
}

// Texts whose check word is right but whose fields are not.
static void seal(const char *body, char text[RESUME_TOKEN_BYTES]) {
    snprintf(text, RESUME_TOKEN_BYTES, "%s.%016" PRIx64, body, (uint64_t)XXH64(body, strlen(body), 0));
}

static void test_sealed_nonsense(void **state) {
    (void)state;
    static const struct {
        const char *body, *word;
    } cases[] = {
        {"feedd1.3.0123456789abcdef.7.3.25600", "order version 3"},
        {"feedd2.2.0123456789abcdef.7.3.25600.1.0.1:0", "order version 2"},
        {"feedd1.99.0123456789abcdef.7.3.25600", "order version 99"},
        {"feedd3.1.0123456789abcdef.7.3.25600", "form"},
        {"feedd2.1.0123456789abcdef.7.3.25600", "fields"},
        {"feedd2.1.0123456789abcdef.7.3.25600.1.0.", "fields"},
        {"feedd2.1.0123456789abcdef.7.3.25600.0.0.1:0", "fields"},
        {"feedd2.1.0123456789abcdef.7.3.25600.1.0.1:0,", "fields"},
        {"feedd2.1.0123456789abcdef.7.3.25600.1.0.1:0,:", "fields"},
        {"feedd2.1.0123456789abcdef.7.3.25600.1.0.1", "fields"},
        {"feedd2.1.0123456789abcdef.7.3.25600.1.0.01:0", "fields"},
        {"feedd2.1.0123456789abcdef.7.3.25600.1.0.4294967297:0", "fields"},
        {"feedd2.1.0123456789abcdef.7.3.25600.1.-1.1:0", "fields"},
        {"feedd1.1.0123456789abcdef.7.3.25600.1.0.1:0", "fields"},
        {"feedd2.1.0123456789abcdef.7.3.25600.2.0.1:0", "version 2 of mixes"},
        {"feedd2.1.0123456789abcdef.7.3.25600.1.0.0:0", "invalid mix"},
        {"feedd2.1.0123456789abcdef.7.3.25600.1.0.2:0,4:0", "invalid mix"},
        {"feedd2.1.0123456789abcdef.7.3.25600.1.9.3:5,1:5", "invalid mix"},
        {"feedd11.0123456789abcdef.7.3.25600", "form"},
        {"feedd1.1.0123456789ABCDEF.7.3.25600", "fields"},
        {"feedd1.1.123456789abcdef.7.3.25600", "fields"},
        {"feedd1.1.0123456789abcdef.07.3.25600", "fields"},
        {"feedd1.1.0123456789abcdef.-7.3.25600", "fields"},
        {"feedd1.1.0123456789abcdef.+7.3.25600", "fields"},
        {"feedd1.1.0123456789abcdef. 7.3.25600", "fields"},
        {"feedd1.1.0123456789abcdef.7.3.18446744073709551616", "fields"},
        {"feedd1.1.0123456789abcdef.7.3.25600.1", "fields"},
        {"feedd1.1.0123456789abcdef.7.3", "fields"},
        {"feedd1.1.0123456789abcdef.7.3.", "fields"},
        {"feedd1.4294967297.0123456789abcdef.7.3.25600", "fields"},
        {"feedd1.", "fields"},
    };
    for (size_t at = 0; at < COUNT_OF(cases); at++) {
        char text[RESUME_TOKEN_BYTES];
        seal(cases[at].body, text);
        assert_refused(text, cases[at].word);
    }
    struct resume_token token;
    char text[RESUME_TOKEN_BYTES];
    seal("feedd1.1.0123456789abcdef.7.3.25600", text); // seal itself is right
    assert_int_equal(resume_token_parse(text, &token, NULL), 0);
}

static void test_no_token(void **state) {
    (void)state;
    assert_refused(NULL, "not a resume token");
    assert_refused("", "not a resume token");
    assert_refused("epoch 3", "one begins with \"feedd1.\", or, for a mix, with \"feedd2.\"");
    assert_refused("feed", "not a resume token");
    assert_refused("feedd", "damaged");
    assert_refused("feedd1", "damaged");
    assert_refused("feedd1..", "damaged");
    char longer[1000];
    memset(longer, '1', sizeof longer);
    memcpy(longer, "feedd1.", 7);
    longer[sizeof longer - 1] = '\0';
    assert_refused(longer, "damaged");
    longer[sizeof longer - 18] = '.';
    assert_refused(longer, "damaged");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_golden_of_mixtures),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_fits_its_room),
        cmocka_unit_test(test_every_changed_character),
        cmocka_unit_test(test_lost_added_and_swapped_characters),
        cmocka_unit_test(test_sealed_nonsense),
        cmocka_unit_test(test_too_many_sources),
        cmocka_unit_test(test_no_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
