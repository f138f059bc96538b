// Tokenised text as Megatron-LM keeps it: NAME.idx says where the documents of NAME.bin begin and of which type its
// tokens are. A sample is a document: the ragged field `tokens`. With `pack = LENGTH`, the documents of a pair are laid
// end to end, and a sample is a window of LENGTH+1 tokens of them; the next window begins LENGTH tokens later, as in
// format tokens. Its fields are
//   tokens    [LENGTH+1], of the pair's type
//   position  i32[LENGTH+1]: the token's place in its document
//   document  i32[LENGTH+1]: the document's number in the dataset
// Windows do not extend across pairs.
//
// NAME.idx is little-endian: "MMIDIDX\0\0", u64 version 1, u8 type, u64 sequences, u64 documents + 1, then
// i32[sequences] lengths in tokens, i64[sequences] offsets in bytes, and i64[documents + 1]: the sequence that each
// document begins with.
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_MEGATRON_H
#define FEEDD_DAEMON_SOURCE_SOURCE_MEGATRON_H

#include "daemon/source/source_format.h"

extern const struct source_format source_megatron;

#endif
