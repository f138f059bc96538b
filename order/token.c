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

void resume_token_format(const struct resume_token *token, char text[RESUME_TOKEN_BYTES]) {
    char check[CHECK_DIGITS + 1];
    int length =
        snprintf(text, RESUME_TOKEN_BYTES, "feedd1.%u.%016" PRIx64 ".%" PRIu64 ".%" PRIu64 ".%" PRIu64,
                 (unsigned)token->version, token->fingerprint, token->seed, token->epoch, token->consumed);
    format_check(text, (size_t)length, check);
    snprintf(text + length, RESUME_TOKEN_BYTES - (size_t)length, ".%s", check);
}

static uint64_t take_number(const char **cursor, int base) {
    char *end;
    const uint64_t number = strtoull(*cursor, &end, base);
    *cursor = end + (*end == '.');
    return number;
}

// Takes what it finds; whether that is what the text says is for the caller to see by writing it again.
static struct resume_token take_fields(const char *cursor) {
    struct resume_token token;
    token.version = (enum order_version)take_number(&cursor, 10);
    token.fingerprint = take_number(&cursor, 16);
    token.seed = take_number(&cursor, 10);
    token.epoch = take_number(&cursor, 10);
    token.consumed = take_number(&cursor, 10);
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
        return error_set(error, -EINVAL, "this is no resume token: one begins with \"feedd1.\"");
    if (!check_fits(text))
        return error_set(error, -EINVAL,
                         "the resume token is damaged (its check word does not fit the rest): "
                         "pass the whole token, as one word, exactly as it was given out");
    if (strncmp(text, "feedd1.", 7) != 0)
        return error_set(error, -EINVAL,
                         "the resume token has a form that this feedd does not know "
                         "(it reads those that begin with \"feedd1.\"): use the version that made it");
    const struct resume_token found = take_fields(text + strlen("feedd1."));
    char again[RESUME_TOKEN_BYTES];
    resume_token_format(&found, again);
    // Fields that would be written in another way (a sign, a leading zero, an overflow) came from no feedd.
    if (strcmp(text, again) != 0)
        return error_set(error, -EINVAL,
                         "the resume token has a correct check word but fields that no feedd writes");
    if (found.version != ORDER_SEQUENTIAL && found.version != ORDER_FEISTEL_1)
        return error_set(error, -EINVAL,
                         "the resume token is of order version %u, and this feedd knows %u and %u: "
                         "use the version that made it",
                         (unsigned)found.version, ORDER_SEQUENTIAL, ORDER_FEISTEL_1);
    *token = found;
    return 0;
}
