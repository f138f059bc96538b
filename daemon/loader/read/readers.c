#include "daemon/loader/read/readers.h"

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/loader/read/reader_mapped.h"
#include "daemon/loader/read/reader_pread.h"
#include "daemon/loader/read/reader_uring.h"
#include "daemon/log.h"

static const struct {
    reader_open *open;
    reader_open *instead; // where it cannot be had; NULL: that is an error
    const char *warning;
} readers[] = {
    [IO_URING] = {reader_open_uring, reader_open_pread, "reading with threads instead"},
    [IO_MAPPED] = {.open = reader_open_mapped},
    [IO_PREAD] = {.open = reader_open_pread},
};

int readers_open(enum io_mode mode, const struct reader_options *options, struct reader **reader,
                 enum reader_reason *reason, struct error *error) {
    enum reader_reason unused = REASON_NONE;
    *reader = NULL;
    *reason = REASON_NONE;
    if ((size_t)mode >= COUNT_OF(readers) || !readers[mode].open)
        return error_set(error, -EINVAL, "there is no reader for io = %s", io_mode_name(mode));
    int err = readers[mode].open(options, reader, reason, error);
    if (!err || !readers[mode].instead)
        return err;
    log_warning("%s; %s", error->text, readers[mode].warning);
    return readers[mode].instead(options, reader, &unused, error);
}
