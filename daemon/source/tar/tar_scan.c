#include "daemon/source/tar/tar_scan.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/dtype.h"
#include "base/sentence.h"
#include "base/sizes.h"
#include "daemon/source/build/text_value.h"
#include "daemon/source/index/crew.h"
#include "daemon/source/source.h"
#include "daemon/source/tar/tar.h"

#define NUMBER_BYTES 256u // of a member that holds a number
#define ROW_BYTES    (RING_MAX_FIELDS * sizeof(struct index_extent))

#define EXTENSIONS_TEXT 120u

// One archive at work.
struct scan {
    const struct tar_fields *fields;
    struct tar_archive *archive;
    struct tar tar;
    char key[TAR_NAME];               // of the sample that the row belongs to; "": none
    char extensions[EXTENSIONS_TEXT]; // of its members, for messages: "jpg, cls"
    size_t extensions_length;         // sizeof extensions: some have no room
    uint32_t found;                   // bit i: field i is in the row
    bool listed;                      // incomplete samples are
    char why[512];                    // the sample is incomplete; "": it is not, as far as is known
    struct index_progress *progress;
    _Alignas(8) uint8_t row[ROW_BYTES];
};

// "folder/000123.jpg" begins at "000123.jpg", where its extension is "jpg". NULL: no key or no extension.
static const char *find_extension(const char *name) {
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    const char *dot = strchr(base, '.');
    return dot && dot > base && dot[1] ? dot + 1 : NULL;
}

// The sample cannot be served. Returns `code` if none may be like that.
static int spoil(struct scan *scan, int code, const char *format, ...) PRINTF_LIKE(3, 4);
static int spoil(struct scan *scan, int code, const char *format, ...) {
    char why[sizeof scan->why];
    va_list arguments;
    va_start(arguments, format);
    sentence_format(why, sizeof why, format, arguments);
    va_end(arguments);
    if (!scan->listed)
        return error_set(&scan->archive->error, code, "%s", why);
    if (!scan->why[0]) // the first reason
        memcpy(scan->why, why, sizeof why);
    return 0;
}

// A row without bytes.
static void blank(struct scan *scan) {
    const struct tar_fields *fields = scan->fields;
    const struct index_extent nothing = {.file = scan->archive->file};
    memset(scan->row, 0, fields->row_bytes);
    for (uint32_t i = 0; i < fields->count; i++)
        if (fields->fields[i].value.kind == VALUE_BYTES)
            memcpy(value_field_entry(&fields->fields[i].value, scan->row), &nothing, sizeof nothing);
}

static int note_incomplete(struct scan *scan) {
    struct tar_archive *archive = scan->archive;
    if (!incomplete_add(&archive->incomplete, archive->rows.count, scan->why))
        return error_set(&archive->error, -ENOMEM, "out of memory");
    blank(scan);
    scan->why[0] = '\0';
    return 0;
}

// It runs for every member, so it formats nothing. "..." stands for those that have no room.
static void note_extension(struct scan *scan, const char *extension) {
    const size_t used = scan->extensions_length, most = sizeof scan->extensions;
    const char *comma = used ? ", " : "";
    const bool fits = used + strlen(comma) + strlen(extension) + sizeof ", ..." <= most;
    if (used == most)
        return;
    char *end = stpcpy(stpcpy(scan->extensions + used, comma), fits ? extension : "...");
    scan->extensions_length = fits ? (size_t)(end - scan->extensions) : most;
}

static int end_sample(struct scan *scan) {
    const struct tar_fields *fields = scan->fields;
    int err = 0;
    if (!scan->key[0])
        return 0;
    for (uint32_t i = 0; i < fields->count && !err; i++)
        if (!(scan->found >> i & 1))
            err = spoil(
                scan, -ENODATA,
                "found sample \"%s\" without a member for field %s, wanted one with extension %s; it has %s",
                scan->key, fields->fields[i].value.name, fields->fields[i].extensions, scan->extensions);
    if (!err && scan->why[0])
        err = note_incomplete(scan);
    if (err)
        return err;
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
    if (text && text_value((const char *)text, member->bytes, field->value.dtype, entry))
        return 0;
    return spoil(scan, -EINVAL, "found \"%.*s\" in %s, wanted a number of type %s",
                 (int)(text ? min_u64(member->bytes, 40) : 3), text ? (const char *)text : "...",
                 member->name, dtype_name(field->value.dtype));
}

static int take_entry(struct scan *scan, const struct tar_field *field, const struct tar_member *member) {
    uint8_t *entry = value_field_entry(&field->value, scan->row);
    if (field->value.kind == VALUE_NUMBER)
        return take_number(scan, field, member, entry);
    if (field->value.kind == VALUE_LENGTH) {
        memcpy(entry, &member->bytes, sizeof member->bytes);
        return 0;
    }
    if (member->bytes > UINT32_MAX)
        return spoil(scan, -EFBIG, "found %s of %" PRIu64 " bytes, wanted members of less than 4 GiB",
                     member->name, member->bytes);
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
        scan->extensions_length = 0;
    }
    note_extension(scan, extension);
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct tar_field *field = &fields->fields[i];
        if (!tar_field_takes(field, extension))
            continue;
        int err = scan->found >> i & 1
                      ? spoil(scan, -EEXIST, "found a second member for field %s in sample \"%s\": %s",
                              field->value.name, scan->key, member->name)
                      : take_entry(scan, field, member);
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
    scan->key[0] = scan->why[0] = '\0';
    scan->found = 0;
    tar_start(&scan->tar, archive->fd, archive->bytes);
    // Or the kernel, reading ahead of each header, reads all of a cold archive.
    posix_fadvise(archive->fd, 0, 0, POSIX_FADV_RANDOM);
    uint64_t told = 0;
    while ((got = tar_next(&scan->tar, &member, &archive->error)) > 0) {
        int err = take_member(scan, &member);
        if (err)
            return err;
        index_progress_bytes(scan->progress, scan->tar.at - told);
        told = scan->tar.at;
        atomic_fetch_add_explicit(&source_progress, 1, memory_order_relaxed);
    }
    posix_fadvise(archive->fd, 0, 0, POSIX_FADV_NORMAL);
    index_progress_bytes(scan->progress, archive->bytes - told);
    index_progress_file(scan->progress);
    archive->simply_ends = scan->tar.simply_ends;
    if (got == 0)
        got = end_sample(scan);
    if (got == 0 && archive->rows.count == 0)
        got = error_set(&archive->error, -ENODATA, "found no samples, wanted members named KEY.EXTENSION");
    return got;
}

// ---- Threads -----------------------------------------------------------------------------------------------

struct scan_all {
    const struct tar_fields *fields;
    bool listed;
    struct tar_archive *archives;
    struct index_progress *progress;
};

static int scan_one(void *context, uint32_t index) {
    const struct scan_all *all = context;
    struct tar_archive *archive = &all->archives[index];
    AUTO_FREE struct scan *scan = calloc(1, sizeof *scan);
    if (!scan)
        return error_set(&archive->error, -ENOMEM, "out of memory");
    scan->fields = all->fields;
    scan->listed = all->listed;
    scan->archive = archive;
    scan->progress = all->progress;
    return scan_archive(scan);
}

void tar_scan(const struct tar_fields *fields, bool listed, struct tar_archive *archives, uint32_t count,
              struct index_progress *progress) {
    struct scan_all all = {fields, listed, archives, progress};
    crew_work(scan_one, &all, count);
}
