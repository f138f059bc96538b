// From Arrow files to the rows of their samples.
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_SCAN_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_SCAN_H

#include "daemon/source/arrow/arrow_dataset.h"

arrow_scan_file_t arrow_scan_file;

#endif
