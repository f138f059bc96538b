// Resume tokens: a place in the order as text.
#ifndef FEEDD_ORDER_TOKEN_H
#define FEEDD_ORDER_TOKEN_H

#include "base/error.h"
#include "order/mix_run.h"
#include "order/order.h"

// Where a consumer stands, as text that a training script can keep in a checkpoint: one printable word,
// feedd1.<order version>.<fingerprint>.<seed>.<epoch>.<consumed>.<check>, numbers in decimal, the fingerprint
// and the check (XXH64 of all before its dot) as 16 hexadecimal digits.
//
// That of a mixture has a part more: which weights it has, from which position on, and how many samples each source had
// given before. How far the sources are at the token's own place follows from that. The form is
// feedd2.<order version>.<fingerprint>.<seed>.<epoch>.<consumed>.<mix version>.<start>.<sources>.<check>, where
// <sources> is a <weight>:<drawn> for each of them, with commas in between.
struct resume_token {
    enum order_version version; // of a mixture: of its sources
    uint64_t fingerprint;       // of the dataset
    uint64_t seed;
    uint64_t epoch;
    uint64_t consumed;  // global samples of that epoch
    struct mix_run mix; // zeros: not of a mixture
};

#define RESUME_TOKEN_BYTES 8448 // room for any token's text, NUL included

void resume_token_format(const struct resume_token *token, char text[RESUME_TOKEN_BYTES]);

// Takes only what resume_token_format writes, to the letter: -EINVAL with a sentence for text that is no
// token, is damaged, or is of a token form or order version that this build does not know; `token` is
// untouched then. Whether the dataset has that many samples is for the caller to check.
int resume_token_parse(const char *text, struct resume_token *token, struct error *error);

#endif
