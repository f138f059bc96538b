// feedd --check: files of a folder that its images are decoded from, and that are none, by their names.
#ifndef FEEDD_DAEMON_CHECK_IMAGES_H
#define FEEDD_DAEMON_CHECK_IMAGES_H

#include "daemon/config/config.h"
#include "daemon/dataset/dataset.h"

// Prints a warning if there are any. Folders of images often hold a README or a list as well, and without `extensions`
// such files are samples. Reads no file but the first that is not called like an image: if it is one, names say nothing
// about these files, and nothing is printed. Nor is it if no file is called like an image.
void check_images(const struct dataset_config *config, const struct dataset *dataset);

#endif
