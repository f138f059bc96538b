// What nobody who maps a ring may believe: words of its header that are not as they were.
#ifndef FEEDD_TESTS_UNIT_RING_LIES_H
#define FEEDD_TESTS_UNIT_RING_LIES_H

#include <string.h>
#include <unistd.h>

#include "tests/unit/ring_fixture.h"

struct lie {
    const char *word; // of the sentence that says so
    uint32_t offset, bytes;
    uint64_t value;
};

#define LIE(word, member, value)                                                                             \
    { word, offsetof(struct ring_header, member), sizeof(((struct ring_header *)0)->member), value }

static inline void check_lies(int fd, const struct lie *lies, size_t count) {
    static const enum ring_access ways[] = {RING_READ, RING_CONTROL, RING_FILL};
    struct ring_header honest;
    assert_int_equal(pread(fd, &honest, sizeof honest, 0), sizeof honest);
    for (size_t i = 0; i < count; i++) {
        const struct lie *lie = &lies[i];
        // Little-endian: the low bytes come first.
        assert_int_equal(pwrite(fd, &lie->value, lie->bytes, lie->offset), lie->bytes);
        for (size_t way = 0; way < COUNT_OF(ways); way++) {
            struct ring ring;
            struct error error = {0};
            if (ring_map(&ring, fd, ways[way], &error) != -EPROTO)
                fail_msg("lie %zu (offset %u, value %#lx) was taken", i, lie->offset, lie->value);
            assert_null(ring.header);
            if (!strstr(error.text, lie->word))
                fail_msg("lie %zu: \"%s\" is not in \"%s\"", i, lie->word, error.text);
        }
        assert_int_equal(pwrite(fd, &honest, sizeof honest, 0), sizeof honest);
    }
}

#endif
