#include "gpu/gpu.h"

#include <assert.h>
#include <glob.h>
#include <string.h>
#include <strings.h>

#include "gpu/gpu_cuda.h"
#include "gpu/gpu_cuda_finish.h"
#include "gpu/gpu_host.h"

#define PAGE           4096u
#define DRIVER_VERSION "/proc/driver/nvidia/version"

// A decimal number and nothing else.
static bool parse_number(const char *text, uint32_t *number) {
    uint64_t value = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
        if (value > UINT32_MAX)
            return false;
    }
    *number = (uint32_t)value;
    return true;
}

static bool begins_with(const char *text, const char *prefix) {
    return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

static int find_simulated(const char *text, uint32_t *ordinal, const char *name, struct error *error) {
    if (!parse_number(text, ordinal))
        return error_set(error, -EINVAL, "\"%s\" is not a GPU: simulated ones are host:0 to host:%u", name,
                         GPU_HOST_MOST - 1);
    if (*ordinal >= GPU_HOST_MOST)
        return error_set(error, -ENODEV, "there is no \"%s\": simulated GPUs are host:0 to host:%u", name,
                         GPU_HOST_MOST - 1);
    return 0;
}

// Extracts "580.159.04" from "NVRM version: NVIDIA UNIX ... Kernel Module  580.159.04  Release Build ..."; false: no
// driver.
static bool find_driver(char version[32]) {
    AUTO_FCLOSE FILE *file = fopen(DRIVER_VERSION, "re");
    char line[256], *word, *rest;
    snprintf(version, 32, "of unknown version");
    if (!file || !fgets(line, sizeof line, file))
        return access(DRIVER_VERSION, F_OK) == 0 || access("/dev/nvidiactl", F_OK) == 0;
    for (word = strtok_r(line, " \t\n", &rest); word; word = strtok_r(NULL, " \t\n", &rest))
        if (strspn(word, "0123456789.") == strlen(word) && strchr(word, '.')) {
            snprintf(version, 32, "%s", word);
            break;
        }
    return true;
}

void gpu_simulated(uint32_t count, char *text, size_t bytes) {
    if (count > 1)
        snprintf(text, bytes, "%u simulated GPUs (host:0 to host:%u)", count, count - 1);
    else
        snprintf(text, bytes, "%s", count ? "1 simulated GPU (host:0)" : "no simulated GPU");
}

static void append_simulated(uint32_t count, char *text, size_t bytes) {
    char simulated[64];
    size_t used = strlen(text);
    if (!count)
        return;
    gpu_simulated(count, simulated, sizeof simulated);
    snprintf(text + used, bytes - used, "; %s", simulated);
}

void gpu_support(uint32_t simulated, char *text, size_t bytes) {
    char version[32];
    int toolkit = gpu_cuda_toolkit();
    const char *lacks = cuda_can_finish() ? "" : ", without nvcc: loaders decode images";
    if (!toolkit)
        snprintf(text, bytes, "none: built without CUDA's headers");
    else if (find_driver(version))
        snprintf(text, bytes, "CUDA (built with %d.%d%s), NVIDIA driver %s", toolkit / 1000,
                 toolkit % 1000 / 10, lacks, version);
    else
        snprintf(text, bytes, "CUDA (built with %d.%d%s), but there is no NVIDIA driver on this machine",
                 toolkit / 1000, toolkit % 1000 / 10, lacks);
    append_simulated(simulated, text, bytes);
}

// Looks in the driver's list, which has a file per GPU with the line "GPU UUID:  GPU-53ce3473-...". *list: there is
// one, and all of it could be read. If not, for want of descriptors, say, it does not rule out any GPU.
static bool is_listed(const char *uuid, bool *list) {
    glob_t files;
    bool found = false;
    *list = glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &files) == 0;
    for (size_t i = 0; *list && !found && i < files.gl_pathc; i++) {
        AUTO_FCLOSE FILE *file = fopen(files.gl_pathv[i], "re");
        char line[256], name[GPU_UUID_BYTES];
        static_assert(sizeof name == 48, "the width in the format below");
        *list &= file != NULL;
        while (file && !found && fgets(line, sizeof line, file))
            found = sscanf(line, "GPU UUID: %47s", name) == 1 && strcmp(name, uuid) == 0;
    }
    globfree(&files);
    return found;
}

static int expect_simulated(const char *uuid, int *simulated, struct error *error) {
    char spelled[GPU_UUID_BYTES];
    uint32_t ordinal = 0;
    int err = find_simulated(uuid + 5, &ordinal, uuid, error);
    if (err < 0)
        return err;
    snprintf(spelled, sizeof spelled, "HOST-%u", ordinal);
    if (strcmp(spelled, uuid) != 0)
        return error_set(error, -EINVAL, "\"%s\" is not the UUID of a GPU: expected \"%s\"", uuid, spelled);
    *simulated = (int)ordinal;
    return 0;
}

int gpu_expect(const char *uuid, int *simulated, struct error *error) {
    char version[32];
    bool list;
    *simulated = -1;
    if (strncmp(uuid, "HOST-", 5) == 0)
        return expect_simulated(uuid, simulated, error);
    if (strncmp(uuid, "GPU-", 4) != 0)
        return error_set(error, -EINVAL, "\"%s\" is not the UUID of a GPU", uuid);
    if (!gpu_cuda_toolkit())
        return error_set(error, -ENOTSUP, GPU_CUDA_MISSING);
    if (!find_driver(version))
        return error_set(error, -ENOTSUP, "there is no NVIDIA driver on this machine");
    if (!is_listed(uuid, &list) && list)
        return error_set(error, -ENODEV, "there is no GPU %s on this machine", uuid);
    return 0;
}

void gpu_describe(uint32_t simulated, char *text, size_t bytes) {
    struct error error = {0};
    if (gpu_cuda_describe(text, bytes, &error) < 0)
        snprintf(text, bytes, "%s", error.text);
    append_simulated(simulated, text, bytes);
}

int gpu_resolve(const char *name, char uuid[GPU_UUID_BYTES], struct error *error) {
    uint32_t ordinal = 0;
    if (strcmp(name, "cuda") == 0)
        return gpu_cuda_uuid(0, uuid, error);
    if (strncmp(name, "cuda:", 5) == 0 && parse_number(name + 5, &ordinal))
        return gpu_cuda_uuid(ordinal, uuid, error);
    if (begins_with(name, "GPU-"))
        return gpu_cuda_find(name, uuid, error);
    if (strncmp(name, "host:", 5) == 0 || begins_with(name, "HOST-")) {
        int err = find_simulated(name + 5, &ordinal, name, error);
        if (err == 0)
            snprintf(uuid, GPU_UUID_BYTES, "HOST-%u", ordinal);
        return err;
    }
    return error_set(error, -EINVAL,
                     "\"%s\" is not a GPU: expected \"cuda\", \"cuda:1\", the UUID of a GPU (\"GPU-...\") or "
                     "\"host:0\" for a simulated one; for host memory, use \"cpu\"",
                     name);
}

int gpu_open(struct gpu **gpu, const char *uuid, struct error *error) {
    *gpu = NULL;
    if (begins_with(uuid, "GPU-"))
        return gpu_cuda_open(gpu, uuid, error);
    if (!begins_with(uuid, "HOST-"))
        return error_set(error, -EINVAL, "\"%s\" is not the UUID of a GPU", uuid);
    uint32_t ordinal = 0;
    int err = find_simulated(uuid + 5, &ordinal, uuid, error);
    return err < 0 ? err : gpu_host_open(gpu, ordinal, error);
}

void gpu_close(struct gpu *gpu) {
    if (gpu)
        gpu->operations->close(gpu);
}

uint64_t gpu_round_up(struct gpu *gpu, uint64_t bytes) {
    return gpu->operations->round_up(gpu, bytes);
}

static void begin(struct gpu *gpu) {
    if (gpu->watch)
        gpu->watch->begins(gpu->watch);
}

static int end(struct gpu *gpu, int err) {
    if (gpu->watch)
        gpu->watch->ended(gpu->watch);
    return err;
}

static int check_size(struct gpu *gpu, uint64_t bytes, struct error *error) {
    if (bytes && bytes == gpu_round_up(gpu, bytes))
        return 0;
    return error_set(error, -EINVAL, "memory of %s comes in multiples of %llu bytes, not in %llu bytes",
                     gpu->name, (unsigned long long)gpu_round_up(gpu, 1), (unsigned long long)bytes);
}

int gpu_create(struct gpu *gpu, uint64_t bytes, struct gpu_memory *memory, int *fd, struct error *error) {
    *memory = (struct gpu_memory){0};
    *fd = -1;
    int err = check_size(gpu, bytes, error);
    if (err < 0)
        return err;
    begin(gpu);
    return end(gpu, gpu->operations->create(gpu, bytes, memory, fd, error));
}

int gpu_import(struct gpu *gpu, int fd, uint64_t bytes, bool writable, struct gpu_memory *memory,
               struct error *error) {
    *memory = (struct gpu_memory){0};
    int err = check_size(gpu, bytes, error);
    if (err < 0)
        return err;
    begin(gpu);
    return end(gpu, gpu->operations->import(gpu, fd, bytes, writable, memory, error));
}

void gpu_free(struct gpu *gpu, struct gpu_memory *memory) {
    if (memory->bytes) {
        begin(gpu);
        gpu->operations->free(gpu, memory);
        end(gpu, 0);
    }
    *memory = (struct gpu_memory){0};
}

int gpu_host_register(struct gpu *gpu, void *memory, uint64_t bytes, bool read_only, uint64_t *address,
                      struct error *error) {
    *address = 0;
    if ((uintptr_t)memory % PAGE)
        return error_set(error, -EINVAL, "memory for a GPU must start on a page");
    if (bytes == 0 || bytes > GPU_REGISTER_MOST)
        return error_set(error, -EINVAL, "1 to %u bytes of memory can be registered at once, not %llu",
                         GPU_REGISTER_MOST, (unsigned long long)bytes);
    begin(gpu);
    return end(gpu, gpu->operations->host_register(gpu, memory, bytes, read_only, address, error));
}

void gpu_host_unregister(struct gpu *gpu, void *memory) {
    begin(gpu);
    gpu->operations->host_unregister(gpu, memory);
    end(gpu, 0);
}

int gpu_stream_create(struct gpu *gpu, gpu_stream *stream, struct error *error) {
    *stream = NULL;
    begin(gpu);
    return end(gpu, gpu->operations->stream_create(gpu, stream, error));
}

int gpu_urgent_stream_create(struct gpu *gpu, gpu_stream *stream, struct error *error) {
    *stream = NULL;
    begin(gpu);
    return end(gpu, gpu->operations->urgent_stream_create(gpu, stream, error));
}

int gpu_call(struct gpu *gpu, void (*function)(void *), void *argument, struct error *error) {
    return gpu->operations->call(gpu, function, argument, error);
}

void gpu_stream_destroy(struct gpu *gpu, gpu_stream stream) {
    if (!stream)
        return;
    begin(gpu);
    gpu->operations->stream_destroy(gpu, stream);
    end(gpu, 0);
}

int gpu_copy_in(struct gpu *gpu, gpu_stream stream, uint64_t to, const void *from, uint64_t bytes,
                struct error *error) {
    begin(gpu);
    return end(gpu, gpu->operations->copy_in(gpu, stream, to, from, bytes, error));
}

int gpu_copy_out(struct gpu *gpu, void *to, uint64_t from, uint64_t bytes, struct error *error) {
    return gpu->operations->copy_out(gpu, to, from, bytes, error);
}

int gpu_write_words(struct gpu *gpu, gpu_stream stream, const struct gpu_word *words, uint32_t count,
                    struct error *error) {
    if (count == 0)
        return 0;
    if (count > GPU_WORDS_MOST)
        return error_set(error, -EINVAL, "%u words in one write; the limit is %u", count, GPU_WORDS_MOST);
    for (uint32_t i = 0; i < count; i++)
        if (words[i].address % sizeof(uint64_t))
            return error_set(error, -EINVAL, "a word for a GPU must lie on a multiple of 8");
    begin(gpu);
    return end(gpu, gpu->operations->write_words(gpu, stream, words, count, error));
}

int gpu_wait_word(struct gpu *gpu, gpu_stream stream, uint64_t address, uint64_t value, struct error *error) {
    if (address % sizeof(uint64_t))
        return error_set(error, -EINVAL, "a word for a GPU must lie on a multiple of 8");
    return gpu->operations->wait_word(gpu, stream, address, value, error);
}

int gpu_write_word_last(struct gpu *gpu, const struct gpu_word *word, struct error *error) {
    if (word->address % sizeof(uint64_t))
        return error_set(error, -EINVAL, "a word for a GPU must lie on a multiple of 8");
    return gpu->operations->write_word_last(gpu, word, error);
}

int gpu_stream_synchronize(struct gpu *gpu, gpu_stream stream, struct error *error) {
    return gpu->operations->synchronize(gpu, stream, error);
}

int gpu_synchronize(struct gpu *gpu, struct error *error) {
    return gpu->operations->synchronize(gpu, NULL, error);
}

int gpu_free_bytes(struct gpu *gpu, uint64_t *bytes, struct error *error) {
    *bytes = 0;
    return gpu->operations->free_bytes(gpu, bytes, error);
}

int gpu_mark_create(struct gpu *gpu, gpu_mark *mark, struct error *error) {
    *mark = NULL;
    begin(gpu);
    return end(gpu, gpu->operations->mark_create(gpu, mark, error));
}

void gpu_mark_destroy(struct gpu *gpu, gpu_mark mark) {
    if (!mark)
        return;
    begin(gpu);
    gpu->operations->mark_destroy(gpu, mark);
    end(gpu, 0);
}

int gpu_mark_put(struct gpu *gpu, gpu_stream stream, gpu_mark mark, struct error *error) {
    begin(gpu);
    return end(gpu, gpu->operations->mark_put(gpu, stream, mark, error));
}

int gpu_mark_span(struct gpu *gpu, gpu_mark first, gpu_mark second, int64_t *ns, struct error *error) {
    *ns = 0;
    begin(gpu);
    return end(gpu, gpu->operations->mark_span(gpu, first, second, ns, error));
}
