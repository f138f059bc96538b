// The simulated GPU: its memory is a memfd, its streams are threads.
#include "gpu/gpu_host.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/sizes.h"
#include "gpu/gpu_host_faults.h"
#include "gpu/gpu_host_finish.h"
#include "gpu/gpu_host_marks.h"
#include "gpu/gpu_host_range.h"
#include "gpu/gpu_host_stream.h"

#define PAGE 4096u

struct open_stream {
    LIST_ENTRY(open_stream) link;
    struct host_stream *stream;
};

struct host_gpu {
    struct gpu gpu;
    uint32_t ordinal;
    struct host_faults faults;
    bool lost;
    struct host_ranges memory;
    LIST_HEAD(, open_stream) streams;
};

static uint64_t allocated[GPU_HOST_MOST]; // bytes, by GPU; atomic

static struct host_gpu *host_of(struct gpu *gpu) {
    return (struct host_gpu *)gpu; // its first member
}

static int check_alive(const struct host_gpu *host, struct error *error) {
    return host->lost ? error_set(error, -EIO, "the GPU is lost") : 0;
}

// ---- Memory -------------------------------------------------------------------------------------------------

static int check_word(const struct host_gpu *host, uint64_t address, bool to_write, struct error *error) {
    if (host_ranges_hold(&host->memory, address, sizeof(uint64_t), to_write) ||
        host_registrations_hold(address, sizeof(uint64_t), to_write))
        return 0;
    return error_set(error, -EIO, "invalid argument: a word is where the GPU cannot %s",
                     to_write ? "write" : "read");
}

static int host_register(struct gpu *gpu, void *memory, uint64_t bytes, bool read_only, uint64_t *address,
                         struct error *error) {
    struct host_gpu *host = host_of(gpu);
    int err = check_alive(host, error);
    if (err == 0)
        err = host_faults_register(&host->faults, bytes, error);
    if (err == 0)
        err = host_registration_add(memory, bytes, !read_only, error);
    if (err == 0)
        *address = (uint64_t)(uintptr_t)memory;
    return err;
}

static void host_unregister(struct gpu *gpu, void *memory) {
    host_faults_delay(&host_of(gpu)->faults, host_of(gpu)->faults.unregister_ms);
    host_registration_remove(memory);
}

static uint64_t host_round_up(struct gpu *gpu, uint64_t bytes) {
    (void)gpu;
    return align_up(bytes, PAGE);
}

static uint64_t unused(const struct host_gpu *host) {
    uint64_t used = __atomic_load_n(&allocated[host->ordinal], __ATOMIC_RELAXED);
    return used < host->faults.memory ? host->faults.memory - used : 0;
}

static int host_free_bytes(struct gpu *gpu, uint64_t *bytes, struct error *error) {
    struct host_gpu *host = host_of(gpu);
    *bytes = unused(host);
    return check_alive(host, error);
}

// Maps the object and records it with the handle.
static int map(struct host_gpu *host, int fd, uint64_t bytes, bool writable, struct gpu_memory *memory,
               struct host_range **mapped, struct error *error) {
    struct host_range *range = calloc(1, sizeof *range);
    if (!range)
        return error_set(error, -ENOMEM, "no memory for a mapping");
    void *begin = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (begin == MAP_FAILED) {
        free(range);
        return error_set(error, -EIO, "cannot map memory of the simulated GPU: %s", strerror(errno));
    }
    *range = (struct host_range){.begin = begin, .bytes = bytes, .writable = writable};
    LIST_INSERT_HEAD(&host->memory, range, link);
    *memory = (struct gpu_memory){
        .address = (uint64_t)(uintptr_t)begin, .bytes = bytes, .handle = (uint64_t)(uintptr_t)range};
    *mapped = range;
    return 0;
}

static int host_create(struct gpu *gpu, uint64_t bytes, struct gpu_memory *memory, int *fd,
                       struct error *error) {
    struct host_gpu *host = host_of(gpu);
    int err = check_alive(host, error);
    if (err < 0)
        return err;
    host_faults_create(&host->faults, bytes);
    if (bytes > unused(host))
        return error_set(error, -ENOMEM, "%llu MiB of GPU memory are needed on %s; %llu MiB are free",
                         (unsigned long long)divide_up(bytes, 1u << 20), gpu->uuid,
                         (unsigned long long)unused(host) >> 20);
    AUTO_CLOSE int made = memfd_create("simulated-gpu", MFD_CLOEXEC);
    if (made < 0 || ftruncate(made, (off_t)bytes) < 0)
        return error_set(error, -ENOMEM, "no memory for the simulated GPU: %s", strerror(errno));
    struct host_range *range = NULL;
    err = map(host, made, bytes, true, memory, &range, error);
    if (err < 0)
        return err;
    range->allocated = true;
    __atomic_fetch_add(&allocated[host->ordinal], bytes, __ATOMIC_RELAXED);
    *fd = made;
    made = -1;
    return 0;
}

static int host_import(struct gpu *gpu, int fd, uint64_t bytes, bool writable, struct gpu_memory *memory,
                       struct error *error) {
    struct host_gpu *host = host_of(gpu);
    int err = check_alive(host, error);
    if (err < 0)
        return err;
    host_faults_delay(&host->faults, host->faults.import_ms);
    struct stat about;
    if (fstat(fd, &about) < 0 || (uint64_t)about.st_size < bytes)
        return error_set(error, -EIO, "invalid argument: this is not %llu bytes of a simulated GPU's memory",
                         (unsigned long long)bytes);
    struct host_range *range = NULL;
    return map(host, fd, bytes, writable, memory, &range, error);
}

static void host_free(struct gpu *gpu, struct gpu_memory *memory) {
    struct host_gpu *host = host_of(gpu);
    struct host_range *range;
    LIST_FOREACH(range, &host->memory, link) {
        if ((uint64_t)(uintptr_t)range == memory->handle)
            break;
    }
    if (!range)
        return;
    if (range->allocated)
        __atomic_fetch_sub(&allocated[host->ordinal], range->bytes, __ATOMIC_RELAXED);
    LIST_REMOVE(range, link);
    munmap(range->begin, range->bytes);
    free(range);
}

static int host_copy_out(struct gpu *gpu, void *to, uint64_t from, uint64_t bytes, struct error *error) {
    struct host_gpu *host = host_of(gpu);
    int err = check_alive(host, error);
    if (err < 0)
        return err;
    if (!host_ranges_hold(&host->memory, from, bytes, false))
        return error_set(error, -EIO, "invalid argument: the copy's source is not memory of this GPU");
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

// ---- Streams ------------------------------------------------------------------------------------------------

static struct open_stream *find_stream(struct host_gpu *host, gpu_stream stream) {
    struct open_stream *open;
    LIST_FOREACH(open, &host->streams, link) {
        if ((gpu_stream)open->stream == stream)
            break;
    }
    return open;
}

static int check_stream(struct host_gpu *host, gpu_stream stream, struct error *error) {
    int err = check_alive(host, error);
    if (err == 0 && stream && !find_stream(host, stream))
        return error_set(error, -EIO, "invalid argument: this is not a stream of this GPU");
    return err;
}

static int host_stream_create(struct gpu *gpu, gpu_stream *stream, struct error *error) {
    struct host_gpu *host = host_of(gpu);
    int err = check_alive(host, error);
    if (err < 0)
        return err;
    struct open_stream *open = calloc(1, sizeof *open);
    if (!open)
        return error_set(error, -ENOMEM, "no memory for a stream");
    err = host_stream_start(&open->stream, error);
    if (err < 0) {
        free(open);
        return err;
    }
    LIST_INSERT_HEAD(&host->streams, open, link);
    *stream = open->stream;
    return 0;
}

static void host_stream_destroy(struct gpu *gpu, gpu_stream stream) {
    struct open_stream *open = find_stream(host_of(gpu), stream);
    if (!open)
        return;
    host_stream_end(open->stream);
    LIST_REMOVE(open, link);
    free(open);
}

static int queue(gpu_stream stream, struct host_work *work, struct error *error) {
    if (!work)
        return error_set(error, -ENOMEM, "no memory for work in a stream");
    host_stream_queue(stream, work);
    return 0;
}

static int host_copy_in(struct gpu *gpu, gpu_stream stream, uint64_t to, const void *from, uint64_t bytes,
                        struct error *error) {
    struct host_gpu *host = host_of(gpu);
    int err = check_stream(host, stream, error);
    if (err < 0)
        return err;
    if (!host_registrations_hold((uint64_t)(uintptr_t)from, bytes, false))
        return error_set(error, -EIO,
                         "invalid argument: the copy's source is not within one registered range");
    if (!host_ranges_hold(&host->memory, to, bytes, true))
        return error_set(error, -EIO,
                         "invalid argument: the copy's target is not writable memory of this GPU");
    host->lost = host_faults_copy(&host->faults);
    err = check_alive(host, error);
    if (err < 0)
        return err;
    struct host_work *work =
        host_work_new(host->faults.copies == host->faults.stall_copy ? HOST_STALL : HOST_COPY, 0);
    if (work) {
        work->delay_us = host->faults.copy_us;
        work->to = (void *)(uintptr_t)to;
        work->from = from;
        work->bytes = bytes;
    }
    return queue(stream, work, error);
}

static int host_write_words(struct gpu *gpu, gpu_stream stream, const struct gpu_word *words, uint32_t count,
                            struct error *error) {
    struct host_gpu *host = host_of(gpu);
    int err = check_stream(host, stream, error);
    for (uint32_t i = 0; err == 0 && i < count; i++)
        err = check_word(host, words[i].address, true, error);
    if (err < 0)
        return err;
    struct host_work *work = host_work_new(HOST_WRITE, count);
    if (work)
        memcpy(work->words, words, count * sizeof *words);
    return queue(stream, work, error);
}

// A word that is written when every stream has reached its position at the time of the call.
struct last_write {
    _Atomic uint32_t streams;
    struct gpu_word word;
};

static void get_there(void *argument) {
    struct last_write *write = argument;
    if (atomic_fetch_sub(&write->streams, 1) != 1)
        return;
    __atomic_store_n((uint64_t *)(uintptr_t)write->word.address, write->word.value, __ATOMIC_RELEASE);
    free(write);
}

static int host_write_word_last(struct gpu *gpu, const struct gpu_word *word, struct error *error) {
    struct host_gpu *host = host_of(gpu);
    int err = check_alive(host, error);
    if (err == 0)
        err = check_word(host, word->address, true, error);
    struct last_write *write = err == 0 ? calloc(1, sizeof *write) : NULL;
    if (!write)
        return err < 0 ? err : error_set(error, -ENOMEM, "no memory for work in a stream");
    write->word = *word;
    atomic_store(&write->streams, 1);
    struct open_stream *open;
    LIST_FOREACH(open, &host->streams, link) {
        atomic_fetch_add(&write->streams, 1);
        // If memory runs out here the word is never written, as with a stream that never gets there.
        if (err == 0)
            err = gpu_host_stream_call(gpu, open->stream, get_there, write, error);
    }
    get_there(write);
    return err;
}

static int host_wait_word(struct gpu *gpu, gpu_stream stream, uint64_t address, uint64_t value,
                          struct error *error) {
    struct host_gpu *host = host_of(gpu);
    int err = check_stream(host, stream, error);
    if (err == 0)
        err = check_word(host, address, false, error);
    if (err < 0)
        return err;
    struct host_work *work = host_work_new(HOST_WAIT, 1);
    if (work)
        work->words[0] = (struct gpu_word){address, value};
    return queue(stream, work, error);
}

int gpu_host_stream_call(struct gpu *gpu, gpu_stream stream, void (*function)(void *), void *argument,
                         struct error *error) {
    int err = check_stream(host_of(gpu), stream, error);
    if (err < 0)
        return err;
    struct host_work *work = host_work_new(HOST_CALL, 0);
    if (work) {
        work->call = function;
        work->argument = argument;
    }
    return queue(stream, work, error);
}

static int host_call(struct gpu *gpu, void (*function)(void *), void *argument, struct error *error) {
    int err = check_alive(host_of(gpu), error);
    if (!err)
        function(argument);
    return err;
}

static int host_synchronize(struct gpu *gpu, gpu_stream stream, struct error *error) {
    struct host_gpu *host = host_of(gpu);
    struct open_stream *open;
    int err = check_stream(host, stream, error);
    if (err < 0)
        return err;
    LIST_FOREACH(open, &host->streams, link) {
        if (!stream || (gpu_stream)open->stream == stream)
            host_stream_drain(open->stream);
    }
    return 0;
}

// ---- Opening ------------------------------------------------------------------------------------------------

static void host_close(struct gpu *gpu) {
    free(host_of(gpu));
}

static const struct gpu_operations host_operations = {.close = host_close,
                                                      .round_up = host_round_up,
                                                      .create = host_create,
                                                      .import = host_import,
                                                      .free = host_free,
                                                      .host_register = host_register,
                                                      .host_unregister = host_unregister,
                                                      .stream_create = host_stream_create,
                                                      .stream_destroy = host_stream_destroy,
                                                      .copy_in = host_copy_in,
                                                      .copy_out = host_copy_out,
                                                      .write_words = host_write_words,
                                                      .write_word_last = host_write_word_last,
                                                      .wait_word = host_wait_word,
                                                      .synchronize = host_synchronize,
                                                      .free_bytes = host_free_bytes,
                                                      .urgent_stream_create = host_stream_create,
                                                      .call = host_call,
                                                      .mark_create = host_mark_create,
                                                      .mark_destroy = host_mark_destroy,
                                                      .mark_put = host_mark_put,
                                                      .mark_span = host_mark_span,
                                                      .finish = host_finish};

int gpu_host_open(struct gpu **gpu, uint32_t ordinal, struct error *error) {
    struct host_faults faults;
    int err = host_faults_read(&faults, error);
    if (err < 0)
        return err;
    if (faults.no_export)
        return error_set(error, -ENOTSUP, "HOST-%u (simulated) cannot export memory to other processes",
                         ordinal);
    struct host_gpu *host = calloc(1, sizeof *host);
    if (!host)
        return error_set(error, -ENOMEM, "no memory for a simulated GPU");
    host_faults_delay(&faults, faults.open_ms);
    host->ordinal = ordinal;
    host->faults = faults;
    LIST_INIT(&host->memory);
    LIST_INIT(&host->streams);
    host->gpu = (struct gpu){
        .operations = &host_operations, .name = "simulated GPU", .memory_bytes = faults.memory, .number = -1};
    snprintf(host->gpu.uuid, sizeof host->gpu.uuid, "HOST-%u", ordinal);
    *gpu = &host->gpu;
    return 0;
}
