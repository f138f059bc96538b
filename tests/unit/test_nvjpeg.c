// Which library is taken for nvJPEG, and what is said where there is none, or one that lacks a call.
#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/transfer/nvjpeg.h"

#define LIBRARY_MOST (1u << 20)

// In the order of the numbers that the fake ones return.
static const char *const calls[] = {
    "nvjpegCreateEx",
    "nvjpegDestroy",
    "nvjpegGetHardwareDecoderInfo",
    "nvjpegJpegStateCreate",
    "nvjpegJpegStateDestroy",
    "nvjpegDecodeParamsCreate",
    "nvjpegDecodeParamsDestroy",
    "nvjpegDecodeParamsSetOutputFormat",
    "nvjpegDecodeParamsSetROI",
    "nvjpegDecodeBatchedInitialize",
    "nvjpegDecodeBatchedEx",
};

// Beside this program.
static void path_of_fake(char path[PATH_MAX]) {
    char program[PATH_MAX - 32] = "";
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    snprintf(path, PATH_MAX, "%s/fake_nvjpeg.so", dirname(program));
}

static void says(const struct error *error, const char *word) {
    if (!strstr(error->text, word))
        fail_msg("\"%s\" is not in \"%s\"", word, error->text);
    assert_true(strlen(error->text) < 255); // is passed on in whole
}

static int load(const char *path, struct nvjpeg *nvjpeg, struct error *error) {
    setenv(NVJPEG_VARIABLE, path, 1);
    int err = nvjpeg_load(nvjpeg, error);
    unsetenv(NVJPEG_VARIABLE);
    return err;
}

static void each_call_is_that_of_its_name(void **state) {
    (void)state;
    char path[PATH_MAX];
    struct nvjpeg nvjpeg;
    struct error error = {0};
    path_of_fake(path);
    assert_int_equal(load(path, &nvjpeg, &error), 0);
    assert_int_equal(nvjpeg.CreateEx(0, NULL, NULL, 0, NULL), 1);
    assert_int_equal(nvjpeg.Destroy(NULL), 2);
    assert_int_equal(nvjpeg.GetHardwareDecoderInfo(NULL, NULL, NULL), 3);
    assert_int_equal(nvjpeg.JpegStateCreate(NULL, NULL), 4);
    assert_int_equal(nvjpeg.JpegStateDestroy(NULL), 5);
    assert_int_equal(nvjpeg.DecodeParamsCreate(NULL, NULL), 6);
    assert_int_equal(nvjpeg.DecodeParamsDestroy(NULL), 7);
    assert_int_equal(nvjpeg.DecodeParamsSetOutputFormat(NULL, 0), 8);
    assert_int_equal(nvjpeg.DecodeParamsSetROI(NULL, 0, 0, 0, 0), 9);
    assert_int_equal(nvjpeg.DecodeBatchedInitialize(NULL, NULL, 0, 0, 0), 10);
    assert_int_equal(nvjpeg.DecodeBatchedEx(NULL, NULL, NULL, NULL, NULL, NULL, NULL), 11);
}

// The fake library with another letter in the name of one call, in memory.
static int library_without(const char *call) {
    static uint8_t bytes[LIBRARY_MOST];
    char path[PATH_MAX];
    path_of_fake(path);
    int file AUTO_CLOSE = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t size = read(file, bytes, sizeof bytes);
    assert_true(size > 0 && size < (ssize_t)sizeof bytes);
    for (uint8_t *at = bytes; (at = memmem(at, (size_t)(bytes + size - at), call, strlen(call) + 1)); at++)
        *at = 'N';
    int fd = memfd_create("nvjpeg", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, (size_t)size), size);
    return fd;
}

static void a_library_that_lacks_a_call_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        char path[64];
        struct nvjpeg nvjpeg;
        struct error error = {0};
        int fd AUTO_CLOSE = library_without(calls[i]);
        // By a number that no earlier one had: the linker takes one of the same name for the same library.
        int other AUTO_CLOSE = fcntl(fd, F_DUPFD_CLOEXEC, (int)(100 + i));
        snprintf(path, sizeof path, "/proc/self/fd/%d", other);
        assert_int_equal(load(path, &nvjpeg, &error), -ENOTSUP);
        says(&error, calls[i]);
        says(&error, "libnvjpeg-13-0");
    }
}

static void a_path_that_names_no_library_is_named(void **state) {
    (void)state;
    struct nvjpeg nvjpeg;
    struct error error = {0};
    assert_int_equal(load("/nonexistent/libnvjpeg.so.13", &nvjpeg, &error), -ENOTSUP);
    says(&error, "FEEDD_NVJPEG is not the path of nvJPEG: /nonexistent/libnvjpeg.so.13: ");
    assert_int_equal(load("/proc/self/maps", &nvjpeg, &error), -ENOTSUP);
    says(&error, "/proc/self/maps");
}

static bool is_installed(void) {
    return dlopen("libnvjpeg.so.13", RTLD_LAZY) || dlopen("libnvjpeg.so.12", RTLD_LAZY) ||
           access("/usr/local/cuda/lib64/libnvjpeg.so.13", F_OK) == 0 ||
           access("/usr/local/cuda/lib64/libnvjpeg.so.12", F_OK) == 0;
}

// An empty variable is none.
static void without_a_library_it_says_what_to_install(void **state) {
    (void)state;
    if (is_installed()) {
        print_message("skip: this machine has nvJPEG\n");
        skip();
    }
    for (int set = 0; set <= 1; set++) {
        struct nvjpeg nvjpeg;
        struct error error = {0};
        assert_int_equal(set ? load("", &nvjpeg, &error) : nvjpeg_load(&nvjpeg, &error), -ENOTSUP);
        says(&error, "libnvjpeg.so.13");
        says(&error, "libnvjpeg-13-0");
        says(&error, "wheel nvidia-nvjpeg");
        says(&error, "FEEDD_NVJPEG");
    }
}

// That no descriptor is free says nothing about the library.
static void a_lack_of_descriptors_is_not_taken_for_its_absence(void **state) {
    (void)state;
    char path[PATH_MAX];
    struct nvjpeg nvjpeg;
    struct rlimit usual, none;
    int file AUTO_CLOSE = library_without("nothing");
    int other AUTO_CLOSE = fcntl(file, F_DUPFD_CLOEXEC, 99); // as above
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = usual.rlim_max};
    for (int named = 0; named <= 1; named++) {
        struct error error = {0};
        snprintf(path, sizeof path, named ? "/proc/self/fd/%d" : "", other);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        int err = load(path, &nvjpeg, &error);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
        assert_int_equal(err, -EMFILE);
        says(&error, "now");
    }
    assert_int_equal(load(path, &nvjpeg, NULL), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_is_that_of_its_name),
        cmocka_unit_test(a_library_that_lacks_a_call_is_refused),
        cmocka_unit_test(a_path_that_names_no_library_is_named),
        cmocka_unit_test(a_lack_of_descriptors_is_not_taken_for_its_absence),
        cmocka_unit_test(without_a_library_it_says_what_to_install),
    };
    unsetenv(NVJPEG_VARIABLE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
