#include "daemon/source/tar_scan.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/source.h"
#include "daemon/source/tar.h"
#include "daemon/source/text_value.h"

#define MAX_THREADS  8u
#define NUMBER_BYTES 256u // of a member that holds a number
#define ROW_BYTES    (RING_MAX_FIELDS * sizeof(struct index_extent))

// One archive at work.
struct scan {
    const struct tar_fields *fields;
    struct tar_archive *archive;
    struct tar tar;
    char key[TAR_NAME]; // of the sample that the row belongs to; "": none
    uint32_t found;     // bit i: field i is in the row
    _Alignas(8) uint8_t row[ROW_BYTES];
};

// "folder/000123.jpg" begins at "000123.jpg", where its extension is "jpg". NULL: no key or no extension.
static const char *find_extension(const char *name) {
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    const char *dot = strchr(base, '.');
    return dot && dot > base && dot[1] ? dot + 1 : NULL;
}

static int end_sample(struct scan *scan) {
    const struct tar_fields *fields = scan->fields;
    if (!scan->key[0])
        return 0;
    for (uint32_t i = 0; i < fields->count; i++)
        if (!(scan->found >> i & 1))
            return error_set(
                &scan->archive->error, -ENODATA,
                "found sample \"%s\" without a member for field %s, wanted one with extension %s", scan->key,
                fields->fields[i].name, fields->fields[i].extensions);
    scan->key[0] = '\0';
    scan->found = 0;
    if (scan->archive->rows.count == INDEX_MAX_SAMPLES)
        return error_set(&scan->archive->error, -EFBIG, "found too many samples, wanted at most %u",
                         INDEX_MAX_SAMPLES);
    if (!index_rows_add(&scan->archive->rows, scan->row, fields->row_bytes))
        return error_set(&scan->archive->error, -ENOMEM, "out of memory");
    return 0;
}

static int take_number(struct scan *scan, const struct tar_field *field, const struct tar_member *member,
                       uint8_t *entry) {
    struct error *error = &scan->archive->error;
    const uint8_t *text = NULL;
    if (member->bytes <= NUMBER_BYTES) {
        text = tar_bytes(&scan->tar, member->offset, member->bytes, error);
        if (!text)
            return error->code;
    }
    if (text && text_value((const char *)text, member->bytes, field->dtype, entry))
        return 0;
    return error_set(error, -EINVAL, "found \"%.*s\" in %s, wanted a number of type %s",
                     (int)(text ? min_u64(member->bytes, 40) : 3), text ? (const char *)text : "...",
                     member->name, dtype_name(field->dtype));
}

static int take_entry(struct scan *scan, const struct tar_field *field, const struct tar_member *member) {
    uint8_t *entry = scan->row + field->index.row_offset;
    if (field->kind == TAR_NUMBER)
        return take_number(scan, field, member, entry);
    if (field->kind == TAR_LENGTH) {
        memcpy(entry, &member->bytes, sizeof member->bytes);
        return 0;
    }
    if (member->bytes > UINT32_MAX)
        return error_set(&scan->archive->error, -EFBIG,
                         "found %s of %" PRIu64 " bytes, wanted members of less than 4 GiB", member->name,
                         member->bytes);
    const struct index_extent extent = {member->offset, scan->archive->file, (uint32_t)member->bytes};
    memcpy(entry, &extent, sizeof extent);
    return 0;
}

static int take_member(struct scan *scan, const struct tar_member *member) {
    const struct tar_fields *fields = scan->fields;
    const char *extension = find_extension(member->name);
    if (!extension)
        return 0;
    size_t length = (size_t)(extension - member->name) - 1;
    if (strncmp(scan->key, member->name, length) != 0 || scan->key[length] != '\0') {
        int err = end_sample(scan);
        if (err)
            return err;
        memcpy(scan->key, member->name, length);
        scan->key[length] = '\0';
    }
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct tar_field *field = &fields->fields[i];
        if (!tar_field_takes(field, extension))
            continue;
        if (scan->found >> i & 1)
            return error_set(&scan->archive->error, -EEXIST,
                             "found a second member for field %s in sample \"%s\": %s", field->name,
                             scan->key, member->name);
        int err = take_entry(scan, field, member);
        if (err)
            return err;
        scan->found |= 1u << i;
    }
    return 0;
}

static int scan_archive(struct scan *scan) {
    struct tar_archive *archive = scan->archive;
    struct tar_member member;
    int got;
    scan->key[0] = '\0';
    scan->found = 0;
    tar_start(&scan->tar, archive->fd, archive->bytes);
    // Or the kernel, reading ahead of each header, reads all of a cold archive.
    posix_fadvise(archive->fd, 0, 0, POSIX_FADV_RANDOM);
    while ((got = tar_next(&scan->tar, &member, &archive->error)) > 0) {
        int err = take_member(scan, &member);
        if (err)
            return err;
        atomic_fetch_add_explicit(&source_progress, 1, memory_order_relaxed);
    }
    posix_fadvise(archive->fd, 0, 0, POSIX_FADV_NORMAL);
    if (got == 0)
        got = end_sample(scan);
    if (got == 0 && archive->rows.count == 0)
        got = error_set(&archive->error, -ENODATA, "found no samples, wanted members named KEY.EXTENSION");
    return got;
}

// ---- Threads -----------------------------------------------------------------------------------------------

struct crew {
    const struct tar_fields *fields;
    struct tar_archive *archives;
    uint32_t count;
    _Atomic uint32_t next;
    _Atomic bool failed;
};

static void *work(void *argument) {
    struct crew *crew = argument;
    AUTO_FREE struct scan *scan = calloc(1, sizeof *scan);
    uint32_t i;
    // Archives are begun in order, so that the first one that fails is always among those that are finished.
    while (!atomic_load_explicit(&crew->failed, memory_order_relaxed) &&
           (i = atomic_fetch_add_explicit(&crew->next, 1, memory_order_relaxed)) < crew->count) {
        struct tar_archive *archive = &crew->archives[i];
        int err = scan ? 0 : error_set(&archive->error, -ENOMEM, "out of memory");
        if (!err) {
            scan->fields = crew->fields;
            scan->archive = archive;
            err = scan_archive(scan);
        }
        if (err)
            atomic_store_explicit(&crew->failed, true, memory_order_relaxed);
    }
    return NULL;
}

void tar_scan(const struct tar_fields *fields, struct tar_archive *archives, uint32_t count) {
    struct crew crew = {.fields = fields, .archives = archives, .count = count};
    pthread_t threads[MAX_THREADS];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t wanted = min_u64(min_u64(max_u64((uint64_t)processors, 1), MAX_THREADS), count);
    uint32_t helpers = 0;
    // This thread works too, and alone if no other can be started.
    while (helpers + 1 < wanted && pthread_create(&threads[helpers], NULL, work, &crew) == 0)
        helpers++;
    work(&crew);
    for (uint32_t i = 0; i < helpers; i++)
        pthread_join(threads[i], NULL);
}
