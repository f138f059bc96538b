// Resume tokens as text. The check word catches slips of copying; it is no protection against forgery, and
// none is needed: a token grants nothing.
#define XXH_INLINE_ALL // so that libfeed's users need not link libxxhash
#include <xxhash.h>

#include <inttypes.h>
#include <string.h>

#include "order/order.h"
#include "order/token.h"

enum {
    CHECK_DIGITS = 16
};

static void format_check(const char *body, size_t length, char check[CHECK_DIGITS + 1]) {
    snprintf(check, CHECK_DIGITS + 1, "%016" PRIx64, (uint64_t)XXH64(body, length, 0));
}

// Returns the length of what was added.
static size_t format_mix(const struct mix_run *mix, char *text, size_t room) {
    size_t length = (size_t)snprintf(text, room, ".%" PRIu32 ".%" PRIu64 ".", mix->version, mix->base.start);
    for (uint32_t i = 0; i < mix->sources; i++)
        length += (size_t)snprintf(text + length, room - length, "%s%" PRIu32 ":%" PRIu64, i ? "," : "",
                                   mix->weights[i], mix->base.drawn[i]);
    return length;
}

void resume_token_format(const struct resume_token *token, char text[RESUME_TOKEN_BYTES]) {
    char check[CHECK_DIGITS + 1];
    size_t length = (size_t)snprintf(text, RESUME_TOKEN_BYTES,
                                     "feedd%d.%u.%016" PRIx64 ".%" PRIu64 ".%" PRIu64 ".%" PRIu64,
                                     token->mix.version ? 2 : 1, (unsigned)token->version, token->fingerprint,
                                     token->seed, token->epoch, token->consumed);
    if (token->mix.version)
        length += format_mix(&token->mix, text + length, RESUME_TOKEN_BYTES - length);
    format_check(text, length, check);
    snprintf(text + length, RESUME_TOKEN_BYTES - length, ".%s", check);
}

static uint64_t take_number(const char **cursor, int base) {
    char *end;
    const uint64_t number = strtoull(*cursor, &end, base);
    *cursor = end + (*end == '.');
    return number;
}

static void take_mix(const char *cursor, struct mix_run *mix) {
    mix->version = (uint32_t)take_number(&cursor, 10);
    mix->base.start = take_number(&cursor, 10);
    do {
        char *end;
        mix->weights[mix->sources] = (uint32_t)strtoull(cursor, &end, 10);
        cursor = end + (*end == ':');
        mix->base.drawn[mix->sources++] = strtoull(cursor, &end, 10);
        cursor = end;
    } while (*cursor++ == ',' && mix->sources < MIX_MAX_SOURCES);
}

// Takes what it finds; whether that is what the text says is for the caller to see by writing it again.
static struct resume_token take_fields(const char *cursor, bool mixed) {
    struct resume_token token = {0};
    token.version = (enum order_version)take_number(&cursor, 10);
    token.fingerprint = take_number(&cursor, 16);
    token.seed = take_number(&cursor, 10);
    token.epoch = take_number(&cursor, 10);
    token.consumed = take_number(&cursor, 10);
    if (mixed)
        take_mix(cursor, &token.mix);
    return token;
}

static bool check_fits(const char *text) {
    const char *dot = strrchr(text, '.');
    if (!dot)
        return false;
    char check[CHECK_DIGITS + 1];
    format_check(text, (size_t)(dot - text), check);
    return strcmp(dot + 1, check) == 0;
}

int resume_token_parse(const char *text, struct resume_token *token, struct error *error) {
    if (!text || strncmp(text, "feedd", 5) != 0)
        return error_set(error, -EINVAL,
                         "this is not a resume token: one begins with \"feedd1.\", or, for a mix, with"
                         " \"feedd2.\"");
    if (!check_fits(text))
        return error_set(error, -EINVAL,
                         "the resume token is damaged (its check word does not fit the rest): "
                         "pass the whole token, as one word, exactly as it was given out");
    bool mixed = strncmp(text, "feedd2.", 7) == 0;
    if (strncmp(text, "feedd1.", 7) != 0 && !mixed)
        return error_set(error, -EINVAL,
                         "the resume token has a form that this feedd does not know "
                         "(it reads those that begin with \"feedd1.\" or \"feedd2.\"): use the version that"
                         " made it");
    const struct resume_token found = take_fields(text + strlen("feedd1."), mixed);
    char again[RESUME_TOKEN_BYTES];
    resume_token_format(&found, again);
    // Fields that would be written in another way (a sign, a leading zero, an overflow) came from no feedd.
    if (strcmp(text, again) != 0)
        return error_set(error, -EINVAL,
                         "the resume token has a correct check word but fields that no feedd writes");
    const enum order_version latest = mixed ? ORDER_FEISTEL_1 : ORDER_WINDOW_1;
    if ((unsigned)found.version > latest)
        return error_set(error, -EINVAL,
                         "the resume token is of order version %u, and this feedd knows 0 to %u: "
                         "use the version that made it",
                         (unsigned)found.version, latest);
    if (mixed && found.mix.version != MIX_1)
        return error_set(error, -EINVAL,
                         "the resume token is of version %u of mixes, and this feedd knows %u: use the"
                         " version that made it",
                         found.mix.version, MIX_1);
    struct error cause = {0};
    if (mixed && mix_run_check(&found.mix, &cause) < 0)
        return error_set(error, -EINVAL, "the resume token is of an invalid mix: %s", cause.text);
    *token = found;
    return 0;
}
