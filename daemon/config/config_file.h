// Files of text that make up a configuration.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_FILE_H
#define FEEDD_DAEMON_CONFIG_CONFIG_FILE_H

#include "base/error.h"

// The whole text, which the caller frees. Refused: too long, or a NUL byte.
int config_file_read(const char *path, char **text, struct error *error);

// The absolute path of the folder that the file is in, which the caller frees; NULL with errno: there is none.
char *config_file_folder(const char *path);

#endif
