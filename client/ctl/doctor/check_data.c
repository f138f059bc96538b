#include "client/ctl/doctor/check_data.h"

#include "client/ctl/text.h"

void check_dataset(const struct dataset_size *dataset, uint64_t room, struct findings *findings) {
    char bytes[CTL_TEXT], cache[CTL_TEXT], remedy[256];
    const char *about = dataset->about ? "about " : "";
    ctl_format_bytes(dataset->bytes, bytes);
    ctl_format_bytes(room, cache);
    if (!room) {
        findings_add(findings, FINDING_WARNING, "dataset", NULL,
                     "%s: %s%s; this kernel does not say what the page cache can hold", dataset->name, about,
                     bytes);
    } else if (dataset->direct) {
        findings_add(findings, FINDING_OK, "dataset", NULL,
                     "%s: %s%s, read without the page cache (io_direct): each epoch reads storage",
                     dataset->name, about, bytes);
    } else if (dataset->bytes <= room) {
        findings_add(findings, FINDING_OK, "dataset", NULL,
                     "%s: %s%s fit into the page cache, which can hold %s", dataset->name, about, bytes,
                     cache);
    } else {
        snprintf(remedy, sizeof remedy, "io_direct = yes in [dataset %s] of feedd.conf, then feedctl reload",
                 dataset->name);
        findings_add(
            findings, FINDING_WARNING, "dataset", remedy,
            "%s: %s%s do not fit into the page cache, which can hold %s: each epoch reads storage, and "
            "pushes other data out of the cache",
            dataset->name, about, bytes, cache);
    }
}
