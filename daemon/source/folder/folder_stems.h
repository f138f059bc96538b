// Puts the paths of a folder's samples into the form that its index has (base/path_text.h), which stores once what many
// of them have in common.
#ifndef FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_STEMS_H
#define FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_STEMS_H

#include "daemon/source/build/builder_index.h"
#include "daemon/source/folder/folder_text.h"

// Moves paths into the index's text, and completes the text. Each row has a struct index_extent at each of `entries`,
// all for one path. On entry, `offset` is where the path begins in `paths`; afterwards, it locates the path in the
// text. 0 or -ENOMEM.
int folder_stems_put(const struct folder_text *paths, struct index_rows *rows, size_t row_bytes,
                     const uint32_t *entries, uint32_t entry_count, struct folder_text *text);

// Completes a text in which all paths are whole.
int folder_stems_none(struct folder_text *text);

#endif
