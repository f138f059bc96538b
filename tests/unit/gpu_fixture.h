// A simulated GPU with a pool on it, a stream, and three registered pages: two to copy from and one of words.
#ifndef FEEDD_TESTS_UNIT_GPU_FIXTURE_H
#define FEEDD_TESTS_UNIT_GPU_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "base/error.h"
#include "gpu/gpu.h"
#include "gpu/gpu_host.h"

#define PAGE       4096u
#define POOL_BYTES (4 * PAGE)

struct fixture {
    struct gpu *gpu;
    struct gpu_memory pool;
    int fd;
    uint8_t *staging;
    uint64_t *words;
    gpu_stream stream;
    bool gate_is_open;
};

static struct fixture fixture;
static struct error said;

static inline void assert_done(int code) {
    if (code < 0)
        fail_msg("%s", said.text);
}

static inline void assert_refused(int code, int wanted, const char *word) {
    assert_int_equal(code, wanted);
    assert_int_equal(said.code, wanted);
    if (!strstr(said.text, word))
        fail_msg("\"%s\" is not in \"%s\"", word, said.text);
}

static inline void nap_ms(uint32_t milliseconds) {
    const struct timespec span = {.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L};
    nanosleep(&span, NULL);
}

// A kernel that holds its stream until the gate is opened.
static inline void stand_at_gate(void *unused) {
    (void)unused;
    while (!__atomic_load_n(&fixture.gate_is_open, __ATOMIC_ACQUIRE))
        nap_ms(1);
}

static inline void open_gate(void) {
    __atomic_store_n(&fixture.gate_is_open, true, __ATOMIC_RELEASE);
}

static inline struct gpu *open_gpu(const char *uuid, const char *special) {
    struct gpu *gpu = NULL;
    assert_int_equal(setenv(GPU_HOST_FAULTS, special, 1), 0);
    assert_done(gpu_open(&gpu, uuid, &said));
    assert_int_equal(unsetenv(GPU_HOST_FAULTS), 0);
    return gpu;
}

static inline uint8_t *map_pages(uint32_t count) {
    void *pages = mmap(NULL, (size_t)count * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    return pages;
}

static inline void open_fixture(const char *special) {
    uint64_t address = 0;
    fixture = (struct fixture){.gpu = open_gpu("HOST-0", special)};
    assert_done(gpu_create(fixture.gpu, POOL_BYTES, &fixture.pool, &fixture.fd, &said));
    fixture.staging = map_pages(3);
    fixture.words = (uint64_t *)(fixture.staging + 2ul * PAGE);
    assert_done(gpu_host_register(fixture.gpu, fixture.staging, 2ul * PAGE, true, &address, &said));
    assert_int_equal(address, (uintptr_t)fixture.staging);
    assert_done(gpu_host_register(fixture.gpu, fixture.words, PAGE, false, &address, &said));
    assert_done(gpu_stream_create(fixture.gpu, &fixture.stream, &said));
}

static inline int close_fixture(void **state) {
    (void)state;
    if (!fixture.gpu)
        return 0;
    open_gate();
    gpu_stream_destroy(fixture.gpu, fixture.stream);
    gpu_host_unregister(fixture.gpu, fixture.words);
    gpu_host_unregister(fixture.gpu, fixture.staging);
    gpu_free(fixture.gpu, &fixture.pool);
    close_fd(&fixture.fd);
    gpu_close(fixture.gpu);
    munmap(fixture.staging, 3ul * PAGE);
    fixture = (struct fixture){0};
    return 0;
}

static inline int copy(uint64_t at, uint64_t from, uint64_t bytes) {
    return gpu_copy_in(fixture.gpu, fixture.stream, fixture.pool.address + at, fixture.staging + from, bytes,
                       &said);
}

static inline int write_word(uint32_t index, uint64_t value) {
    const struct gpu_word word = {(uint64_t)(uintptr_t)&fixture.words[index], value};
    return gpu_write_words(fixture.gpu, fixture.stream, &word, 1, &said);
}

static inline uint64_t read_word(uint32_t index) {
    return __atomic_load_n(&fixture.words[index], __ATOMIC_ACQUIRE);
}

static inline uint8_t pool_byte(uint64_t at) {
    uint8_t byte = 0;
    assert_done(gpu_copy_out(fixture.gpu, &byte, fixture.pool.address + at, 1, &said));
    return byte;
}

static inline int end_of(pid_t child) {
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

#endif
