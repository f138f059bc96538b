// Members of tar archives: sums of headers, and bytes that are read with them. The bare loop that indexing is measured
// against finds as many members, and as large ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "bench/tar_walk.h"
#include "daemon/source/tar/tar.h"

#define BLOCK TAR_WALK_BLOCK

static uint64_t at; // in the archive that is being written

static void write_block(int fd, const void *block) {
    assert_int_equal(pwrite(fd, block, BLOCK, (off_t)at), BLOCK);
    at += BLOCK;
}

static void seal(char header[BLOCK], int (*value_of)(char byte), int wrong) {
    int sum = wrong;
    memset(header + 148, ' ', 8);
    for (uint32_t i = 0; i < BLOCK; i++)
        sum += value_of(header[i]);
    snprintf(header + 148, 8, "%06o", (unsigned)sum & 0777777);
}

static int as_unsigned(char byte) {
    return (uint8_t)byte;
}

static int as_signed(char byte) {
    return (int8_t)byte;
}

static void add_member(int fd, char type, uint64_t bytes) {
    char header[BLOCK] = "000000.jpg";
    snprintf(header + 124, 12, "%011llo", (unsigned long long)bytes);
    header[156] = type;
    seal(header, as_unsigned, 0);
    write_block(fd, header);
    at += align_up(bytes, BLOCK);
}

static int new_archive(void) {
    int fd = memfd_create("archive", MFD_CLOEXEC);
    assert_true(fd >= 0);
    at = 0;
    return fd;
}

// Two blocks of zeros.
static void end_archive(int fd) {
    at += 2 * BLOCK;
    assert_int_equal(ftruncate(fd, (off_t)at), 0);
}

static void check(int fd, uint64_t members, uint64_t bytes) {
    static struct tar tar;
    struct tar_walk bare = {0}, found = {0};
    struct tar_member member;
    struct error error = {0};
    int got;
    tar_start(&tar, fd, at);
    while ((got = tar_next(&tar, &member, &error)) > 0) {
        found.members++;
        found.bytes += member.bytes;
    }
    assert_int_equal(got, 0);
    assert_int_equal(tar_walk(fd, &bare), 0);
    assert_int_equal(bare.members, found.members);
    assert_int_equal(bare.bytes, found.bytes);
    assert_int_equal(bare.members, members);
    assert_int_equal(bare.bytes, bytes);
}

static void test_members_of_all_sizes(void **state) {
    static const uint64_t sizes[] = {0, 1, 511, 512, 513, 110000, UINT64_C(1) << 32};
    uint64_t bytes = 0;
    (void)state;
    AUTO_CLOSE int fd = new_archive();
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        add_member(fd, i % 2 ? '0' : '\0', sizes[i]);
        bytes += sizes[i];
    }
    end_archive(fd);
    check(fd, COUNT_OF(sizes), bytes);
}

static void test_folders_and_links_do_not_count(void **state) {
    (void)state;
    AUTO_CLOSE int fd = new_archive();
    add_member(fd, '5', 0);
    add_member(fd, '0', 700);
    add_member(fd, '2', 0);
    add_member(fd, '0', 5);
    end_archive(fd);
    check(fd, 2, 705);
}

static void test_an_archive_without_an_end(void **state) {
    (void)state;
    AUTO_CLOSE int fd = new_archive();
    add_member(fd, '0', 1024);
    assert_int_equal(ftruncate(fd, (off_t)at), 0);
    check(fd, 1, 1024);
}

// Old programs added up signed bytes. The largest sum is that of a name and a prefix of bytes 0xff.
static void test_sums_of_headers(void **state) {
    static const struct {
        int (*value_of)(char byte);
        int wrong;
        bool taken;
    } sums[] = {
        {as_unsigned, 0, true}, {as_signed, 0, true},     {as_unsigned, 1, false},
        {as_signed, 1, false},  {as_unsigned, -1, false}, {as_signed, 256, false},
    };
    static struct tar tar;
    struct tar_member member;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sums); i++) {
        char header[BLOCK] = {0};
        struct error error = {0};
        AUTO_CLOSE int fd = new_archive();
        memset(header, 0xff, 100);
        memset(header + 345, 0xff, 155);
        memcpy(header + 124, "00000000000", 12);
        seal(header, sums[i].value_of, sums[i].wrong);
        write_block(fd, header);
        end_archive(fd);
        tar_start(&tar, fd, at);
        assert_int_equal(tar_next(&tar, &member, &error), sums[i].taken ? 1 : -EINVAL);
        assert_int_equal(strlen(tar.name), sums[i].taken ? 100 : 0);
        memset(&tar, 0, sizeof tar);
    }
}

// Large members and small ones take turns, and begin to: whatever was read with a header, the bytes are right.
static void test_bytes_of_small_members(void **state) {
    static const uint64_t sizes[] = {9000, 9000, 3, 9000, 3, 512, 513, 9000, 100, 1536, 7, 1, 9000, 9000};
    static struct tar tar;
    struct tar_member member;
    struct error error = {0};
    (void)state;
    AUTO_CLOSE int fd = new_archive();
    for (uint32_t i = 0; i < 20 * COUNT_OF(sizes); i++) {
        const uint64_t bytes = sizes[i % COUNT_OF(sizes)], from = at + BLOCK;
        add_member(fd, '0', bytes);
        assert_int_equal(pwrite(fd, &i, sizeof i < bytes ? sizeof i : bytes, (off_t)from) > 0, 1);
    }
    end_archive(fd);
    tar_start(&tar, fd, at);
    for (uint32_t i = 0; i < 20 * COUNT_OF(sizes); i++) {
        const uint64_t known = min_u64(sizes[i % COUNT_OF(sizes)], sizeof i);
        assert_int_equal(tar_next(&tar, &member, &error), 1);
        assert_int_equal(member.bytes, sizes[i % COUNT_OF(sizes)]);
        const uint8_t *found = i % 3 ? tar_bytes(&tar, member.offset, known, &error) : NULL;
        assert_true(i % 3 == 0 || (found && memcmp(found, &i, known) == 0));
    }
    assert_int_equal(tar_next(&tar, &member, &error), 0);
}

static void test_no_archive(void **state) {
    struct tar_walk walk = {0};
    (void)state;
    assert_int_equal(tar_walk(-1, &walk), -EBADF);
    assert_int_equal(walk.members, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_of_all_sizes),
        cmocka_unit_test(test_folders_and_links_do_not_count),
        cmocka_unit_test(test_an_archive_without_an_end),
        cmocka_unit_test(test_sums_of_headers),
        cmocka_unit_test(test_bytes_of_small_members),
        cmocka_unit_test(test_no_archive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
