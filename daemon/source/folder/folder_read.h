// One directory of a folder_tree.
#ifndef FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_READ_H
#define FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_READ_H

#include "daemon/source/folder/folder_tree.h"

// Fills the folder's files, sorted by name, and its status. What is in it to be read next is linked into *found.
int folder_read(const struct folder_tree *tree, struct tree_folder *folder, struct tree_folder **found,
                struct error *error);

// Whether a file's name ends with one of "jpg|jpeg", after a dot, whatever its case.
bool folder_takes(const char *extensions, const char *name);

#endif
