// Memory for blocks that loaders share.
#ifndef FEEDD_TESTS_UNIT_BLOCK_SHARE_FIXTURE_H
#define FEEDD_TESTS_UNIT_BLOCK_SHARE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/error.h"
#include "shm/block_share.h"

#define BLOCKS 8u
#define BYTES  4096u // of a block when decoded
#define ROOM   2u    // blocks in an arena
#define ARENAS 3u

static struct block_share_plan plan;
static int file = -1;

static inline void make_file(void) {
    struct error error = {0};
    assert_true(block_share_plan(&plan, BLOCKS, ARENAS, ROOM * BYTES));
    assert_int_equal(block_share_create(&plan, &file, &error), 0);
}

static inline struct block_share open_share(uint32_t arena) {
    struct block_share share;
    struct error error = {0};
    assert_int_equal(block_share_open(&share, &plan, arena, file, &error), 0);
    return share;
}

#endif
