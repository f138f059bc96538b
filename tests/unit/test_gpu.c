// GPUs by their names, and what is said where there is none.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "base/error.h"
#include "base/sizes.h"
#include "gpu/gpu.h"

static void assert_said(const struct error *error, int code, const char *word) {
    assert_int_equal(error->code, code);
    if (!strstr(error->text, word))
        fail_msg("\"%s\" is not in \"%s\"", word, error->text);
}

static void assert_unresolved(const char *name, int code, const char *word) {
    char uuid[GPU_UUID_BYTES] = "untouched";
    struct error error = {0};
    if (gpu_resolve(name, uuid, &error) != code)
        fail_msg("\"%s\": %d, \"%s\"", name, error.code, error.text);
    assert_said(&error, code, word);
    assert_string_equal(uuid, "untouched");
    assert_int_equal(gpu_resolve(name, uuid, NULL), code);
}

static void assert_resolved(const char *name, const char *wanted) {
    char uuid[GPU_UUID_BYTES];
    struct error error = {0};
    if (gpu_resolve(name, uuid, &error) < 0)
        fail_msg("\"%s\": %s", name, error.text);
    assert_string_equal(uuid, wanted);
}

static void test_simulated_gpus_have_names(void **state) {
    (void)state;
    assert_resolved("host:0", "HOST-0");
    assert_resolved("host:15", "HOST-15");
    assert_resolved("HOST-7", "HOST-7");
    assert_resolved("host-7", "HOST-7");
    assert_unresolved("host:16", -ENODEV, "host:0 to host:15");
    assert_unresolved("HOST-99", -ENODEV, "HOST-99");
}

static void test_what_is_no_gpu(void **state) {
    (void)state;
    static const char *const names[] = {
        "",        "cpu",     "gpu",    "cuda:",           "cuda:x", "cuda:-1", "cuda:0 ",
        "cuda: 1", "cuda:1x", "CUDA:0", "cuda:4294967296", "0",      "UUID-5"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_unresolved(names[i], -EINVAL, "is not a GPU");
    assert_unresolved("host:", -EINVAL, "simulated");
    assert_unresolved("host:1x", -EINVAL, "host:1x");
    assert_unresolved("host:18446744073709551616", -EINVAL, "simulated");
}

static void test_opening_takes_uuids_alone(void **state) {
    (void)state;
    static const char *const names[] = {"", "cuda", "cuda:0", "host:0",
                                        "53ce3473-78b4-0a9f-482c-b0ec960d2263"};
    struct error error = {0};
    struct gpu *gpu = (struct gpu *)&error;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_int_equal(gpu_open(&gpu, names[i], &error), -EINVAL);
        assert_said(&error, -EINVAL, "is not the UUID");
        assert_null(gpu);
    }
    assert_int_equal(gpu_open(&gpu, "HOST-16", &error), -ENODEV);
    assert_int_equal(gpu_open(&gpu, "HOST-1x", &error), -EINVAL);
    assert_int_equal(gpu_open(&gpu, "HOST-15", &error), 0);
    assert_string_equal(gpu->uuid, "HOST-15");
    assert_string_equal(gpu->name, "simulated GPU");
    gpu_close(gpu);
    gpu_close(NULL);
}

static void assert_unexpected(const char *uuid, int code, const char *word) {
    struct error error = {0};
    int simulated = 0;
    if (gpu_expect(uuid, &simulated, &error) != code)
        fail_msg("\"%s\": %d, \"%s\"", uuid, error.code, error.text);
    assert_said(&error, code, word);
    assert_int_equal(simulated, -1);
}

// A process is started for what is expected: one for each GPU, by whatever name it is asked for.
static void test_what_is_expected_has_one_spelling(void **state) {
    (void)state;
    static const char *const names[] = {
        "",       "cpu",     "cuda:0",  "host:0",   "host-0",  "MIG-0",   "gpu-0",   "HOST-",
        "HOST-x", "HOST-00", "HOST-01", "HOST-0x0", "HOST--1", "HOST- 1", "HOST-1 ", "HOST-4294967296"};
    struct error error = {0};
    int simulated = -1;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_unexpected(names[i], -EINVAL, names[i]);
    assert_unexpected("HOST-01", -EINVAL, "\"HOST-1\"");
    assert_unexpected("HOST-16", -ENODEV, "host:0 to host:15");
    assert_int_equal(gpu_expect("HOST-0", &simulated, &error), 0);
    assert_int_equal(simulated, 0);
    assert_int_equal(gpu_expect("HOST-15", &simulated, &error), 0);
    assert_int_equal(simulated, 15);
    int err = gpu_expect("GPU-00000000-0000-0000-0000-000000000000", &simulated, &error);
    assert_true(err == 0 || err == -ENODEV || err == -ENOTSUP);
    assert_int_equal(simulated, -1);
}

// Errors that apply to every GPU are found before the implementation is called.
static void test_calls_that_are_wrong_on_any_gpu(void **state) {
    (void)state;
    static _Alignas(4096) uint8_t page[4096];
    struct gpu *gpu = NULL;
    struct gpu_memory memory = {.address = 1};
    struct error error = {0};
    uint64_t address = 0;
    int fd = 0;
    assert_int_equal(gpu_open(&gpu, "HOST-0", &error), 0);
    assert_int_equal(gpu_round_up(gpu, 1), 4096);
    assert_int_equal(gpu_round_up(gpu, 8192), 8192);
    assert_int_equal(gpu_create(gpu, 4097, &memory, &fd, &error), -EINVAL);
    assert_said(&error, -EINVAL, "multiples of 4096");
    assert_int_equal(memory.address, 0);
    assert_int_equal(fd, -1);
    assert_int_equal(gpu_create(gpu, 0, &memory, &fd, &error), -EINVAL);
    assert_int_equal(gpu_create(gpu, UINT64_MAX, &memory, &fd, &error), -EINVAL);
    assert_int_equal(gpu_import(gpu, 0, 100, true, &memory, &error), -EINVAL);
    assert_int_equal(gpu_host_register(gpu, page + 8, 64, false, &address, &error), -EINVAL);
    assert_said(&error, -EINVAL, "start on a page");
    assert_int_equal(gpu_host_register(gpu, page, 0, false, &address, &error), -EINVAL);
    assert_int_equal(gpu_host_register(gpu, page, GPU_REGISTER_MOST + 1ull, false, &address, &error),
                     -EINVAL);
    assert_said(&error, -EINVAL, "268435456");
    assert_int_equal(gpu_host_register(gpu, page, sizeof page, false, &address, &error), 0);
    struct gpu_word words[GPU_WORDS_MOST + 1];
    for (uint32_t i = 0; i <= GPU_WORDS_MOST; i++)
        words[i] = (struct gpu_word){address + 8ull * i, i + 1};
    assert_int_equal(gpu_write_words(gpu, NULL, words, GPU_WORDS_MOST + 1, &error), -EINVAL);
    assert_said(&error, -EINVAL, "the limit is 64");
    assert_int_equal(gpu_write_words(gpu, NULL, words, 0, &error), 0);
    words[1].address += 4;
    assert_int_equal(gpu_write_words(gpu, NULL, words, 2, &error), -EINVAL);
    assert_int_equal(page[0], 0); // none is written when one is wrong
    assert_int_equal(gpu_wait_word(gpu, NULL, address + 4, 0, &error), -EINVAL);
    gpu_host_unregister(gpu, page);
    gpu_close(gpu);
}

static void ends_with(const char *text, const char *end) {
    size_t bytes = strlen(text), wanted = strlen(end);
    if (bytes < wanted || strcmp(text + bytes - wanted, end) != 0)
        fail_msg("\"%s\" does not end with \"%s\"", text, end);
}

static void test_simulated_gpus_are_support_too(void **state) {
    (void)state;
    char text[512], none[512];
    gpu_support(0, none, sizeof none);
    assert_null(strstr(none, "simulated"));
    gpu_support(1, text, sizeof text);
    assert_memory_equal(text, none, strlen(none));
    ends_with(text, "; 1 simulated GPU (host:0)");
    gpu_describe(3, text, sizeof text);
    ends_with(text, "; 3 simulated GPUs (host:0 to host:2)");
    gpu_simulated(0, text, sizeof text);
    assert_string_equal(text, "no simulated GPU");
}

static void test_without_a_driver_cuda_is_refused_in_a_sentence(void **state) {
    (void)state;
#ifdef HAVE_CUDA
    const char *sentence = "there is no NVIDIA driver on this machine";
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (library) {
        dlclose(library);
        print_message("this machine has an NVIDIA driver\n");
        skip();
    }
#else
    const char *sentence = "this build has no GPU support: it was built without CUDA's headers";
#endif
    char text[512];
    struct gpu *gpu = NULL;
    struct error error = {0};
    for (int time = 0; time < 2; time++) {
        gpu_describe(0, text, sizeof text);
        if (strncmp(text, sentence, strlen(sentence)) != 0)
            fail_msg("\"%s\" does not begin with \"%s\"", text, sentence);
        assert_null(strstr(text, "libcuda")); // dlopen's own words help nobody
        assert_unresolved("cuda", -ENOTSUP, sentence);
        assert_unresolved("cuda:1", -ENOTSUP, sentence);
        assert_unresolved("GPU-53ce3473-78b4-0a9f-482c-b0ec960d2263", -ENOTSUP, sentence);
        assert_int_equal(gpu_open(&gpu, "GPU-53ce3473-78b4-0a9f-482c-b0ec960d2263", &error), -ENOTSUP);
        assert_said(&error, -ENOTSUP, sentence);
        assert_null(gpu);
    }
    char little[12];
    gpu_describe(2, little, sizeof little);
    assert_int_equal(strlen(little), sizeof little - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulated_gpus_have_names),
        cmocka_unit_test(test_what_is_expected_has_one_spelling),
        cmocka_unit_test(test_what_is_no_gpu),
        cmocka_unit_test(test_opening_takes_uuids_alone),
        cmocka_unit_test(test_calls_that_are_wrong_on_any_gpu),
        cmocka_unit_test(test_simulated_gpus_are_support_too),
        cmocka_unit_test(test_without_a_driver_cuda_is_refused_in_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
