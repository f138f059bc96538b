// Format tokens: flat files of token numbers. A sample is a window of length+1 tokens, so that it holds both inputs and
// targets. Windows start every `length` tokens, share one token with the next, and never cross files. With `offsets`, a
// sample is a document instead, or a window of packed ones (documents.h).
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_TOKENS_H
#define FEEDD_DAEMON_SOURCE_SOURCE_TOKENS_H

#include "daemon/source/source_format.h"

extern const struct source_format source_tokens;

#endif
