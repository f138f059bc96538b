#include "daemon/loader/read/reader.h"

uint8_t reader_scratch[READER_SCRATCH_BYTES];
