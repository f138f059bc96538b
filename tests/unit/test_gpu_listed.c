// Which GPUs are expected on a machine with a driver: its files under /proc are made up here.
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "gpu/gpu.h"
#include "gpu/gpu_cuda.h"

#define FIRST  "GPU-00000000-0000-0000-0000-000000000001"
#define SECOND "GPU-00000000-0000-0000-0000-000000000002"
#define THIRD  "GPU-00000000-0000-0000-0000-000000000003"

static char first[] = "first", second[] = "second", *paths[] = {first, second, NULL};
static int opened, fails_at; // files of the list; fails_at 0: none fails

static FILE *made_up(const char *text) {
    return fmemopen((void *)(uintptr_t)text, strlen(text), "r");
}

// In place of libc's.
FILE *fopen(const char *path, const char *mode) {
    if (strcmp(path, "first") == 0 || strcmp(path, "second") == 0) {
        if (++opened == fails_at) {
            errno = ENFILE;
            return NULL;
        }
        return made_up(strcmp(path, "first") == 0 ? "Model: H\nGPU UUID:  " FIRST "\n"
                                                  : "Model: H\nGPU UUID:  " SECOND "\n");
    }
    if (strcmp(path, "/proc/driver/nvidia/version") == 0)
        return made_up("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.1  Release Build\n");
    int fd = open(path, *mode == 'r' ? O_RDONLY | O_CLOEXEC : O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return fd < 0 ? NULL : fdopen(fd, mode);
}

int glob(const char *pattern, int flags, int (*failed)(const char *path, int error), glob_t *found) {
    (void)flags, (void)failed;
    *found = (glob_t){.gl_pathc = 2, .gl_pathv = paths};
    return strcmp(pattern, "/proc/driver/nvidia/gpus/*/information") == 0 ? 0 : GLOB_NOMATCH;
}

void globfree(glob_t *found) {
    *found = (glob_t){0};
}

static int expect(const char *uuid, int fails) {
    int simulated;
    struct error error = {0};
    opened = 0;
    fails_at = fails;
    return gpu_expect(uuid, &simulated, &error);
}

static void need_cuda(void) {
    if (gpu_cuda_toolkit())
        return;
    print_message("skip: built without CUDA's headers\n");
    skip();
}

static void the_drivers_list_says_which_there_are(void **state) {
    (void)state;
    need_cuda();
    assert_int_equal(expect(FIRST, 0), 0);
    assert_int_equal(expect(SECOND, 0), 0);
    assert_int_equal(expect(THIRD, 0), -ENODEV);
}

// Its process finds out.
static void a_list_that_cannot_be_read_excludes_none(void **state) {
    (void)state;
    need_cuda();
    for (int fails = 1; fails <= 2; fails++) {
        assert_int_equal(expect(FIRST, fails), 0);
        assert_int_equal(expect(SECOND, fails), 0);
        assert_int_equal(expect(THIRD, fails), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_drivers_list_says_which_there_are),
        cmocka_unit_test(a_list_that_cannot_be_read_excludes_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
