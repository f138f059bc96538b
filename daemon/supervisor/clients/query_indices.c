#include "daemon/supervisor/clients/query_indices.h"

#include <unistd.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/source/dataset.h"
#include "daemon/supervisor/clients/admission.h"

#define PAGE_INDICES 4096u

void query_indices(struct session *session, const char *name, uint32_t start,
                   void (*send)(struct session *session, Feedd__Answer *answer)) {
    const struct dataset *dataset;
    uint64_t samples[PAGE_INDICES];
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    struct error error = {0};
    int err = admission_find(session, name, &dataset, &error);
    if (err) {
        session_refuse(session, err, error.text);
        return;
    }
    const struct selection *selection = &dataset->layout->selection;
    uint64_t count = selection->kind == SELECTION_LIST ? selection->count : 0;
    uint64_t here = min_u64(count - min_u64(start, count), PAGE_INDICES);
    uint64_t offset = sizeof(struct dataset_list) + start * sizeof *samples;
    if (here && pread(dataset->list_fd, samples, here * sizeof *samples, (off_t)offset) !=
                    (ssize_t)(here * sizeof *samples)) {
        session_refuse(session, -EIO, "the view's sample numbers cannot be read");
        return;
    }
    answer.n_indices = here;
    answer.indices = samples;
    answer.next = start + here < count ? start + PAGE_INDICES : 0;
    send(session, &answer);
}
