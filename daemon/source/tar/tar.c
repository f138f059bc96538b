#include "daemon/source/tar/tar.h"

#include <inttypes.h>
#include <string.h>

#include "base/read_at.h"
#include "base/sizes.h"

#define BLOCK 512u
// A pax header holds a path and a few numbers; some programs add extended attributes.
#define PAX_BYTES (1u << 20)
// How many windows are read in full after one of which more than the first block was needed.
#define WIDE_READS 16u

// As in POSIX.1-2017, pax, "ustar Interchange Format".
struct header {
    char name[100];
    char mode[8], owner[8], group[8];
    char size[12];
    char changed[12];
    char checksum[8];
    char type;
    char target[100];
    char magic[6];
    char version[2];
    char owner_name[32], group_name[32];
    char major[8], minor[8];
    char prefix[155];
    char rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

// What extended headers say of the next member.
struct extension {
    bool name, size, sparse;
    uint64_t bytes;
};

void tar_start(struct tar *tar, int fd, uint64_t bytes) {
    tar->fd = fd;
    tar->bytes = bytes;
    tar->at = tar->window_at = tar->window_bytes = 0;
    tar->wide = 0;
}

static int refuse_read(struct error *error, ssize_t got, uint64_t count, uint64_t offset) {
    if (got < 0)
        return error_set(error, (int)got, "%" PRIu64 " bytes at offset %" PRIu64 " cannot be read: %s", count,
                         offset, strerror((int)-got));
    return error_set(error, -ENODATA,
                     "found the end of the file at byte %" PRIu64 ", wanted %" PRIu64
                     " bytes at offset %" PRIu64,
                     offset + (uint64_t)got, count, offset);
}

// Of large members, only the block of the header is needed, and bytes that are not in the processor's cache are slow to
// copy. Where members are small, or headers extended, what follows is needed soon.
static uint64_t choose_window(struct tar *tar, uint64_t offset, uint64_t count) {
    if (offset > tar->window_at && offset + count <= tar->window_at + TAR_WINDOW)
        tar->wide = WIDE_READS;
    else if (tar->wide)
        tar->wide--;
    return tar->wide ? TAR_WINDOW : max_u64(count, BLOCK);
}

const uint8_t *tar_bytes(struct tar *tar, uint64_t offset, uint64_t count, struct error *error) {
    const uint64_t bytes = choose_window(tar, offset, count);
    if (offset >= tar->window_at && offset + count <= tar->window_at + tar->window_bytes)
        return tar->window + (offset - tar->window_at);
    ssize_t got = read_at(tar->fd, tar->window, bytes, offset);
    tar->window_at = offset;
    tar->window_bytes = got > 0 ? (uint64_t)got : 0;
    if (tar->window_bytes >= count)
        return tar->window;
    refuse_read(error, got, count, offset);
    return NULL;
}

// ---- One header --------------------------------------------------------------------------------------------

// Octal digits between blanks, or a binary number whose first bit is set.
static bool take_number(const char *field, size_t bytes, uint64_t *number) {
    size_t at = 0;
    *number = 0;
    if ((uint8_t)field[0] == 0x80) {
        for (at = 1; at < bytes; at++) {
            if (*number >> 55)
                return false;
            *number = *number << 8 | (uint8_t)field[at];
        }
        return true;
    }
    while (at < bytes && field[at] == ' ')
        at++;
    size_t first = at;
    for (; at < bytes && field[at] >= '0' && field[at] <= '7'; at++)
        *number = *number << 3 | (uint64_t)(field[at] - '0');
    return at > first && (at == bytes || field[at] == ' ' || field[at] == '\0');
}

// Four sums at a time, of 128 bytes each.
static uint64_t sum_of(const uint8_t bytes[BLOCK]) {
    const uint64_t even = UINT64_C(0x00ff00ff00ff00ff);
    uint64_t sums = 0;
    for (size_t i = 0; i < BLOCK; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof word);
        sums += (word & even) + (word >> 8 & even);
    }
    return (sums & 0xffff) + (sums >> 16 & 0xffff) + (sums >> 32 & 0xffff) + (sums >> 48);
}

// Some old programs added up signed bytes: 256 less for each negative one.
static uint64_t negative_bytes(const uint8_t bytes[BLOCK]) {
    uint64_t count = 0;
    for (size_t i = 0; i < BLOCK; i++)
        count += bytes[i] >> 7;
    return count;
}

// Of all bytes, those of the sum itself counted as blanks.
static bool sum_is_right(const struct header *header) {
    uint64_t wanted;
    if (!take_number(header->checksum, sizeof header->checksum, &wanted))
        return false;
    uint64_t sum = sum_of((const uint8_t *)header);
    for (size_t i = 0; i < sizeof header->checksum; i++)
        sum += (uint64_t)' ' - (uint8_t)header->checksum[i];
    if (wanted == sum)
        return true;
    struct header blank = *header;
    memset(blank.checksum, ' ', sizeof blank.checksum);
    return wanted + 256 * negative_bytes((const uint8_t *)&blank) == sum;
}

static bool is_zero(const struct header *header) {
    static const struct header zeros;
    return memcmp(header, &zeros, sizeof zeros) == 0;
}

static bool is_ustar(const struct header *header) {
    return memcmp(header->magic, "ustar", 6) == 0; // with its 0; GNU tar writes a blank there
}

// The name that the header itself holds.
static void set_name(struct tar *tar, const struct header *header) {
    const size_t prefix = is_ustar(header) ? strnlen(header->prefix, sizeof header->prefix) : 0;
    const size_t name = strnlen(header->name, sizeof header->name);
    char *to = tar->name;
    if (prefix) {
        memcpy(to, header->prefix, prefix);
        to[prefix] = '/';
        to += prefix + 1;
    }
    memcpy(to, header->name, name);
    to[name] = '\0';
}

// ---- Extended headers --------------------------------------------------------------------------------------

static int refuse_long(struct error *error, uint64_t header_at) {
    return error_set(error, -ENAMETOOLONG,
                     "the header at offset %" PRIu64
                     " has a longer name than this version takes, wanted at most %u"
                     " bytes",
                     header_at, TAR_NAME - 1);
}

static int take_long_name(struct tar *tar, uint64_t offset, uint64_t bytes, struct error *error) {
    if (bytes > TAR_NAME)
        return refuse_long(error, offset - BLOCK);
    ssize_t got = read_at(tar->fd, tar->name, bytes, offset);
    if (got < 0 || (uint64_t)got != bytes)
        return refuse_read(error, got, bytes, offset);
    tar->name[min_u64(bytes, TAR_NAME - 1)] = '\0';
    return 0;
}

static bool has_key(const char *record, const char *key, const char **value) {
    size_t length = strlen(key);
    *value = record + length + 1;
    return strncmp(record, key, length) == 0 && record[length] == '=';
}

// "KEY=VALUE" without its newline. False: a number that is none.
static bool take_record(struct tar *tar, const char *record, struct extension *extension, bool *fits) {
    const char *value;
    if (has_key(record, "path", &value)) {
        *fits = strlen(value) < sizeof tar->name;
        snprintf(tar->name, sizeof tar->name, "%s", value);
        extension->name = true;
    } else if (has_key(record, "size", &value)) {
        char *end;
        errno = 0;
        extension->bytes = strtoull(value, &end, 10);
        extension->size = true;
        return *value >= '0' && *value <= '9' && *end == '\0' && errno == 0;
    } else if (strncmp(record, "GNU.sparse.", 11) == 0) {
        extension->sparse = true;
    }
    return true;
}

// Records of the form "LENGTH KEY=VALUE\n", where LENGTH counts the whole record.
static int take_records(struct tar *tar, char *text, size_t bytes, uint64_t header_at,
                        struct extension *extension, struct error *error) {
    for (size_t at = 0; at < bytes;) {
        char *end;
        bool fits = true;
        unsigned long length = text[at] >= '1' && text[at] <= '9' ? strtoul(text + at, &end, 10) : 0;
        if (length == 0 || length > bytes - at || *end != ' ' || end + 1 >= text + at + length ||
            text[at + length - 1] != '\n')
            return error_set(error, -EINVAL, "the pax header at offset %" PRIu64 " is damaged", header_at);
        text[at + length - 1] = '\0';
        if (!take_record(tar, end + 1, extension, &fits))
            return error_set(error, -EINVAL, "the pax header at offset %" PRIu64 " gives no valid size",
                             header_at);
        if (!fits)
            return refuse_long(error, header_at);
        at += length;
    }
    return 0;
}

static int take_pax(struct tar *tar, uint64_t offset, uint64_t bytes, struct extension *extension,
                    struct error *error) {
    if (bytes > PAX_BYTES)
        return error_set(error, -EFBIG,
                         "found a pax header of %" PRIu64 " bytes at offset %" PRIu64 ", wanted at most %u",
                         bytes, offset - BLOCK, PAX_BYTES);
    AUTO_FREE char *text = malloc(bytes + 1);
    if (!text)
        return error_set(error, -ENOMEM, "out of memory");
    ssize_t got = read_at(tar->fd, text, bytes, offset);
    if (got < 0 || (uint64_t)got != bytes)
        return refuse_read(error, got, bytes, offset);
    text[bytes] = '\0'; // ends the last number, whatever it is
    return take_records(tar, text, bytes, offset - BLOCK, extension, error);
}

// ---- The archive -------------------------------------------------------------------------------------------

// Reads the header at tar->at, which stays in the window until the next one is read. 1; 0 at the end.
static int read_header(struct tar *tar, const struct header **header, uint64_t *bytes, struct error *error) {
    // Some programs leave out the two blocks of zeros at the end, but an archive that was cut between members lacks
    // them, too.
    if (tar->at == tar->bytes) {
        tar->simply_ends = true;
        return 0;
    }
    const uint8_t *block = tar_bytes(tar, tar->at, BLOCK, error);
    if (!block)
        return error->code < 0 ? error->code : -EIO;
    *header = (const struct header *)block;
    if (is_zero(*header))
        return 0;
    if (!sum_is_right(*header))
        return error_set(error, -EINVAL, "found no tar header at offset %" PRIu64 ", wanted one", tar->at);
    if (!take_number((*header)->size, sizeof(*header)->size, bytes))
        return error_set(error, -EINVAL, "the tar header at offset %" PRIu64 " gives no valid size", tar->at);
    return 1;
}

// Moves behind the bytes of the header at tar->at.
static int pass(struct tar *tar, uint64_t bytes, struct error *error) {
    uint64_t offset = tar->at + BLOCK;
    if (offset > tar->bytes || bytes > tar->bytes - offset)
        return error_set(error, -ENODATA,
                         "found %" PRIu64 " bytes in the file, wanted the member of %" PRIu64
                         " bytes at offset %" PRIu64 "; the file is truncated or damaged",
                         tar->bytes, bytes, offset);
    // The last block may be cut off: nothing reads the rest of it.
    tar->at = min_u64(align_up(offset + bytes, BLOCK), tar->bytes);
    return 0;
}

// Links, devices, folders; GNU's names of volumes and lists of folders. What else there is, is to be taken as a regular
// file, says the standard.
static bool is_passed_over(char type) {
    return (type >= '1' && type <= '6') || type == 'V' || type == 'D';
}

int tar_next(struct tar *tar, struct tar_member *member, struct error *error) {
    struct extension extension = {0};
    for (;;) {
        const struct header *header;
        uint64_t bytes, header_at = tar->at;
        int err = read_header(tar, &header, &bytes, error);
        if (err <= 0)
            return err;
        bool extends =
            header->type == 'x' || header->type == 'L' || header->type == 'K' || header->type == 'g';
        if (!extends && extension.size)
            bytes = extension.bytes;
        // Links and the like have no bytes, whatever their size says.
        bool empty = header->type >= '1' && header->type <= '6';
        err = pass(tar, empty ? 0 : bytes, error);
        if (!err && header->type == 'L')
            err = take_long_name(tar, header_at + BLOCK, bytes, error);
        else if (!err && header->type == 'x')
            err = take_pax(tar, header_at + BLOCK, bytes, &extension, error);
        if (err)
            return err;
        extension.name |= header->type == 'L';
        if (extends)
            continue;
        bool sparse = extension.sparse || header->type == 'S';
        if (is_passed_over(header->type)) {
            extension = (struct extension){0};
            continue;
        }
        if (!extension.name)
            set_name(tar, header);
        if (sparse || header->type == 'M')
            return error_set(error, -EOPNOTSUPP, "%s is stored as %s, wanted a plain file", tar->name,
                             sparse ? "a sparse file" : "a part of a file");
        size_t length = strlen(tar->name);
        if (length && tar->name[length - 1] == '/') { // a folder, in old archives
            extension = (struct extension){0};
            continue;
        }
        *member = (struct tar_member){tar->name, header_at + BLOCK, bytes};
        return 1;
    }
}
