// feedd --check: files in a folder of images that, by their names, are not images.
#ifndef FEEDD_DAEMON_CHECK_IMAGES_H
#define FEEDD_DAEMON_CHECK_IMAGES_H

#include "daemon/config/config.h"
#include "daemon/dataset/dataset.h"

// Prints a warning if there are any. Folders of images often hold a README or a list as well, and without `extensions`
// such files are samples. Reads only the first file without an image's extension: if it is an image, names say nothing
// about these files, and nothing is printed. If no file has such an extension, nothing is printed either.
void check_images(const struct dataset_config *config, const struct dataset *dataset);

#endif
