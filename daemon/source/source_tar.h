// WebDataset shards: tar archives in which neighbouring members of one key are a sample.
//
// A member's key is its name up to the first dot of its last component, its extension what follows that dot. Members
// without either, and those whose last component begins with a dot, are passed over. A field is
//   bytes @ EXTENSION|...   the member's bytes, as u8, with the length that pad.NAME gives
//   length @ EXTENSION|...  how many bytes the member has, as i64
//   DTYPE @ EXTENSION|...   the number written in the member, read when the archive is indexed
// and "@ ..." may be left out where the extension is the field's name. Extensions are compared without case.
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_TAR_H
#define FEEDD_DAEMON_SOURCE_SOURCE_TAR_H

#include "daemon/source/source_format.h"

extern const struct source_format source_tar;

#endif
