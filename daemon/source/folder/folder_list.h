// The samples of a folder that a CSV file lists: a row each, in the order of the rows.
#ifndef FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_LIST_H
#define FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_LIST_H

#include "daemon/source/folder/folder_roots.h"
#include "daemon/source/folder/folder_table.h"

int folder_list_read(struct builder *builder, const struct folder_roots *roots,
                     const struct source_file *file, struct folder_table *table);

#endif
