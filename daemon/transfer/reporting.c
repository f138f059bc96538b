#include "daemon/transfer/reporting.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/heritage.h"
#include "daemon/log.h"

void reporting_send(uint32_t kind, uint32_t pool, const struct error *error,
                    const struct transfer_report *more, int fd) {
    struct transfer_report message = more ? *more : (struct transfer_report){0};
    message.kind = kind;
    message.pool = pool;
    if (error) {
        message.code = error->code;
        snprintf(message.text, sizeof message.text, "%.*s", (int)sizeof message.text - 1, error->text);
    }
    // The socket blocks. A report that is lost would be waited for indefinitely; a process that ends is replaced.
    int err = control_send(HERITAGE_CONTROL, &message, sizeof message, &fd, fd >= 0);
    if (err) {
        log_error("cannot report to the supervisor: %s", strerror(-err));
        _exit(EXIT_FAILURE); // without the driver's exit handlers, as in transfer.c
    }
}
