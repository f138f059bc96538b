#include "gpu/gpu_host_faults.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sizes.h"
#include "base/time.h"
#include "gpu/gpu_host.h"

#define MEMORY_DEFAULT (UINT64_C(1) << 30)

static int read_fault(struct host_faults *faults, char *word, struct error *error) {
    const struct {
        const char *name;
        uint64_t *value;
    } known[] = {{"memory", &faults->memory},
                 {"open_ms", &faults->open_ms},
                 {"slow_every", &faults->slow_every},
                 {"submit_ms", &faults->submit_ms},
                 {"register_ms", &faults->register_ms},
                 {"unregister_ms", &faults->unregister_ms},
                 {"create_ms", &faults->create_ms},
                 {"import_ms", &faults->import_ms},
                 {"copy_us", &faults->copy_us},
                 {"fail_copy", &faults->fail_copy},
                 {"stall_copy", &faults->stall_copy},
                 {"stall_register", &faults->stall_register},
                 {"pin_most", &faults->pin_most},
                 {"pin_lacks", &faults->pin_lacks},
                 {"crash_create", &faults->crash_create},
                 {"crash_bytes", &faults->crash_bytes},
                 {"no_engine_on", &faults->no_engine_on},
                 {"engine_at_ms", &faults->engine_at_ms},
                 {"first_image_ms", &faults->first_image_ms},
                 {"refuse_image", &faults->refuse_image},
                 {"crash_image", &faults->crash_image},
                 {"stall_image", &faults->stall_image}};
    if (strcmp(word, "no_export") == 0) {
        faults->no_export = 1;
        return 0;
    }
    if (strcmp(word, "no_engine") == 0) {
        faults->no_engine = 1;
        return 0;
    }
    const char *equals = strchr(word, '=');
    for (size_t i = 0; equals && i < COUNT_OF(known); i++) {
        size_t length = strlen(known[i].name);
        if ((size_t)(equals - word) != length || memcmp(word, known[i].name, length) != 0)
            continue;
        char *end = NULL;
        errno = 0;
        *known[i].value = strtoull(equals + 1, &end, 10);
        if (equals[1] >= '0' && equals[1] <= '9' && *end == 0 && errno == 0)
            return 0;
    }
    return error_set(error, -EINVAL, "%s: \"%s\" is not a fault that a simulated GPU knows", GPU_HOST_FAULTS,
                     word);
}

int host_faults_read(struct host_faults *faults, struct error *error) {
    *faults = (struct host_faults){.memory = MEMORY_DEFAULT};
    const char *text = getenv(GPU_HOST_FAULTS);
    AUTO_FREE char *copy = strdup(text ? text : "");
    if (!copy)
        return error_set(error, -ENOMEM, "no memory to read %s", GPU_HOST_FAULTS);
    int err = 0;
    char *rest = NULL;
    for (char *word = strtok_r(copy, ",", &rest); word && err == 0; word = strtok_r(NULL, ",", &rest))
        err = read_fault(faults, word, error);
    return err;
}

void host_faults_delay(struct host_faults *faults, uint64_t ms) {
    struct timespec left = timespec_of_ns(ms * NS_PER_MS);
    if (faults->slow_every && ++faults->slow_calls % faults->slow_every)
        return;
    while (ms && nanosleep(&left, &left) < 0)
        ;
}

int host_faults_register(struct host_faults *faults, uint64_t bytes, struct error *error) {
    host_faults_delay(faults, faults->register_ms);
    faults->registered++;
    while (faults->registered == faults->stall_register)
        pause();
    if (!faults->pin_most || bytes <= faults->pin_most)
        return 0;
    if (!faults->pin_lacks)
        return error_set(error, -EIO, "cannot pin %" PRIu64 " bytes of memory for the GPU", bytes);
    if (faults->lacked >= faults->pin_lacks)
        return 0;
    faults->lacked++;
    return error_set(error, -ENOMEM, "no memory to pin %" PRIu64 " bytes for the GPU", bytes);
}

void host_faults_create(struct host_faults *faults, uint64_t bytes) {
    host_faults_delay(faults, faults->create_ms);
    if (++faults->created == faults->crash_create || (faults->crash_bytes && bytes >= faults->crash_bytes))
        abort();
}

bool host_faults_copy(struct host_faults *faults) {
    host_faults_delay(faults, faults->submit_ms);
    return ++faults->copies == faults->fail_copy;
}
