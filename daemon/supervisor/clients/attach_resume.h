// Where a consumer begins: at the start, or at the place that its resume token names.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_ATTACH_RESUME_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_ATTACH_RESUME_H

#include "base/error.h"
#include "daemon/supervisor/feeds/attach_request.h"

// Without a token.
void attach_resume_begin(struct attach_request *request);

// With one. The rest of the shape is known. -EINVAL: not a token; -ESTALE: of other data, or of another order.
int attach_resume_check(const char *text, struct attach_request *request, struct error *error);

// Gives a mix, whose request->mix_changes is set, the weights of the configuration. Takes up to some ten
// milliseconds, so the caller limits how often a user may ask for it.
int attach_resume_change(struct attach_request *request, struct error *error);

#endif
