// Files in folders: one sample each, as torchvision's ImageFolder has them, or as a CSV file lists them. What is in an
// index is described in folder_file.h.
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_FOLDER_H
#define FEEDD_DAEMON_SOURCE_SOURCE_FOLDER_H

#include "daemon/source/source_format.h"

extern const struct source_format source_folder;

#endif
