// The one place that includes what flatcc generated from Arrow's description of its metadata, and verifies it.
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_FORMAT_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_FORMAT_H

#include <nanoarrow/ipc/flatcc_generated.h>

#define ns(name) org_apache_arrow_flatbuf_##name

// 0, or a number for flatcc_verify_error_string. Only what was verified may be read.
int arrow_verify_message(const void *bytes, size_t count);
int arrow_verify_footer(const void *bytes, size_t count);

#endif
