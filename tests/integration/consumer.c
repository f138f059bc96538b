// A consumer for tests: attaches as its options say and prints one JSON object per line for each event.
//
// Without --step it takes batches until the end, holding --hold of them while it takes the next. With --step it does
// what it reads from standard input, a command a line:
//   next MS           take a batch, waiting at most MS (as feed_next)
//   release NUMBER    give the batch with this number back
//   rehash NUMBER     print its hashes once more, to see whether the bytes have stayed as they were
//   token             print the resume token
//   close             close the handle and exit
//
// On a GPU batches are waited for and released on the default stream, and fetched to be hashed. FEEDD_TEST_DEVICE is
// the device where --device says none.
//
// Lines: {"event": "attached" | "batch" | "token" | "released" | "hashes" | "end" | "error", ...}
// Exit status: 0 after the end or close, 1 after an error, 2 for wrong options.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/feed.h"
#include "tests/integration/feed_arguments.h"
#include "tests/integration/view_argument.h"

#define HELD_MOST 4096

struct consumer {
    struct feed_options options;
    const char *view_text;
    struct feed_view view;
    uint64_t batches; // stop after this many; 0: at the end
    uint64_t hold;    // batches kept while the next is taken
    uint64_t sleep_us;
    int timeout_ms;
    bool step, quiet, samples, token;

    struct feed *feed;
    struct feed_batch held[HELD_MOST]; // oldest first
    uint64_t numbers[HELD_MOST];       // of them: how many were taken before
    size_t held_count;
    uint64_t taken, taken_samples, taken_bytes;
    uint64_t digest; // of everything in every batch
};

// ---- Printing ----------------------------------------------------------------------------------------------

static void print_text(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        if ((unsigned char)*text < ' ')
            printf("\\u%04x", *text);
        else
            putchar(*text);
    }
    putchar('"');
}

static void end_line(void) {
    puts("}");
    fflush(stdout);
}

static int fail(const struct consumer *consumer, const char *what, int code) {
    printf("{\"event\": \"error\", \"at\": \"%s\", \"code\": \"%s\", \"text\": ", what,
           strerrorname_np(-code));
    print_text(feed_strerror(consumer->feed));
    end_line();
    return EXIT_FAILURE;
}

// The CRC-32 of zlib.crc32, so that tests can compute it.
static uint32_t crc32(uint32_t crc, const uint8_t *bytes, size_t count) {
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t word = i;
            for (int bit = 0; bit < 8; bit++)
                word = word >> 1 ^ (word & 1 ? 0xedb88320u : 0);
            table[i] = word;
        }
    crc = ~crc;
    for (size_t i = 0; i < count; i++)
        crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 255];
    return ~crc;
}

// Of host memory it looks at the bytes where they are.
static uint32_t hash_values(const struct consumer *consumer, const struct feed_batch *batch, uint32_t field) {
    const struct feed_array *array = &batch->field[field];
    if (!consumer->options.device)
        return crc32(0, array->data, array->bytes);
    static uint8_t room[4 << 20]; // so that small arrays need no memory
    uint8_t *bytes = array->bytes <= sizeof room ? room : malloc(array->bytes);
    int err = bytes ? feed_batch_fetch(consumer->feed, batch, field, bytes) : -ENOMEM;
    if (err)
        fail(consumer, "fetch", err);
    uint32_t hash = err ? 0 : crc32(0, bytes, array->bytes);
    if (bytes != room)
        free(bytes);
    return hash;
}

// Of a ragged field, the offsets follow the values.
static uint32_t hash_field(const struct consumer *consumer, const struct feed_batch *batch, uint32_t field) {
    uint32_t hash = hash_values(consumer, batch, field);
    size_t bytes = (batch->count + 1) * sizeof(int64_t);
    if (!batch->field[field].ragged)
        return hash;
    static int64_t room[4096];
    int64_t *offsets = bytes <= sizeof room ? room : malloc(bytes);
    int err = offsets ? feed_batch_fetch_offsets(consumer->feed, batch, field, offsets) : -ENOMEM;
    if (err)
        fail(consumer, "fetch", err);
    else
        hash = crc32(hash, (const uint8_t *)offsets, bytes);
    if (offsets != room)
        free(offsets);
    return hash;
}

static void print_hashes(const struct consumer *consumer, const struct feed_batch *batch) {
    printf(", \"crc\": {");
    for (uint32_t i = 0; i < batch->field_count; i++)
        printf("%s\"%s\": %" PRIu32, i ? ", " : "", batch->field[i].name, hash_field(consumer, batch, i));
    putchar('}');
}

static void print_samples(const struct consumer *consumer, const struct feed_batch *batch) {
    printf(", \"samples\": [");
    for (uint64_t i = 0; i < batch->count; i++)
        printf("%s%" PRId64, i ? ", " : "", feed_batch_sample(consumer->feed, batch, i));
    putchar(']');
}

static void print_token(const struct consumer *consumer) {
    char token[FEED_TOKEN_BYTES];
    int err = feed_token(consumer->feed, token);
    printf(", \"token\": \"%s\"", err ? strerrorname_np(-err) : token);
}

static void print_batch(const struct consumer *consumer, const struct feed_batch *batch) {
    printf("{\"event\": \"batch\", \"number\": %" PRIu64 ", \"sequence\": %" PRIu64 ", \"epoch\": %" PRIu64
           ", \"index\": %" PRIu64 ", \"first\": %" PRIu64 ", \"count\": %" PRIu64 ", \"skipped\": %" PRIu64
           ", \"slot\": %" PRIu32 ", \"last\": %s",
           consumer->taken - 1, batch->sequence, batch->epoch, batch->index, batch->first_position,
           batch->count, batch->skipped, batch->slot, batch->last_of_epoch ? "true" : "false");
    print_hashes(consumer, batch);
    if (consumer->samples)
        print_samples(consumer, batch);
    if (consumer->token)
        print_token(consumer);
    end_line();
}

static void print_attached(const struct consumer *consumer) {
    const struct feed_description *description = feed_describe(consumer->feed);
    printf("{\"event\": \"attached\", \"samples\": %" PRIu64 ", \"batches_per_epoch\": %" PRIu64
           ", \"epoch\": %" PRIu64 ", \"consumed\": %" PRIu64 ", \"prefetch\": %" PRIu32
           ", \"slots\": %" PRIu32 ", \"ring_bytes\": %" PRIu64 ", \"device\": \"%s\", \"fields\": {",
           description->samples, description->batches_per_epoch, description->start_epoch,
           description->start_consumed, description->prefetch, description->slots, description->ring_bytes,
           description->device);
    for (uint32_t i = 0; i < description->field_count; i++) {
        const struct feed_array *array = &description->field[i];
        printf("%s\"%s\": [\"%s\"", i ? ", " : "", array->name, feed_dtype_name(array->dtype));
        for (uint32_t k = 0; k < array->dimensions; k++)
            printf(", %" PRIu64, array->shape[k]);
        putchar(']');
    }
    putchar('}');
    end_line();
}

static void print_end(const struct consumer *consumer) {
    printf("{\"event\": \"end\", \"batches\": %" PRIu64 ", \"samples\": %" PRIu64 ", \"bytes\": %" PRIu64
           ", \"digest\": \"%016" PRIx64 "\"",
           consumer->taken, consumer->taken_samples, consumer->taken_bytes, consumer->digest);
    if (consumer->token)
        print_token(consumer);
    end_line();
}

// ---- Batches -----------------------------------------------------------------------------------------------

static void mix(struct consumer *consumer, uint64_t value) {
    consumer->digest = (consumer->digest ^ value) * UINT64_C(0x100000001b3) + 1;
}

// 1 taken, 0 the end, or an error.
static int take(struct consumer *consumer, int timeout_ms) {
    struct feed_batch *batch = &consumer->held[consumer->held_count];
    int got = feed_next(consumer->feed, batch, timeout_ms);
    if (got == 1) {
        int err = feed_batch_wait(consumer->feed, batch, NULL);
        got = err ? err : got;
    }
    if (got != 1)
        return got;
    consumer->numbers[consumer->held_count++] = consumer->taken++;
    consumer->taken_samples += batch->count;
    mix(consumer, batch->epoch);
    mix(consumer, batch->index);
    for (uint32_t i = 0; i < batch->field_count; i++) {
        consumer->taken_bytes += batch->field[i].bytes;
        mix(consumer, hash_field(consumer, batch, i));
    }
    for (uint64_t i = 0; i < batch->count; i++)
        mix(consumer, (uint64_t)feed_batch_sample(consumer->feed, batch, i));
    if (!consumer->quiet)
        print_batch(consumer, batch);
    return 1;
}

static int release(struct consumer *consumer, size_t place) {
    int err = feed_batch_release(consumer->feed, &consumer->held[place], NULL);
    consumer->held_count--;
    size_t behind = consumer->held_count - place;
    memmove(&consumer->held[place], &consumer->held[place + 1], behind * sizeof consumer->held[0]);
    memmove(&consumer->numbers[place], &consumer->numbers[place + 1], behind * sizeof consumer->numbers[0]);
    return err;
}

static void nap(uint64_t microseconds) {
    struct timespec time = {.tv_sec = (time_t)(microseconds / 1000000),
                            .tv_nsec = (long)(microseconds % 1000000 * 1000)};
    if (microseconds)
        nanosleep(&time, NULL);
}

static int run(struct consumer *consumer) {
    while (!consumer->batches || consumer->taken < consumer->batches) {
        int got = take(consumer, consumer->timeout_ms);
        if (got < 0)
            return fail(consumer, "next", got);
        if (got == 0)
            break;
        nap(consumer->sleep_us);
        int err = consumer->held_count > consumer->hold ? release(consumer, 0) : 0;
        if (err)
            return fail(consumer, "release", err);
    }
    while (consumer->held_count) {
        int err = release(consumer, 0);
        if (err)
            return fail(consumer, "release", err);
    }
    print_end(consumer);
    return EXIT_SUCCESS;
}

// ---- Step by step ------------------------------------------------------------------------------------------

static void step_next(struct consumer *consumer, int timeout_ms) {
    int got = consumer->held_count < HELD_MOST ? take(consumer, timeout_ms) : -ENOBUFS;
    if (got == 0)
        print_end(consumer);
    else if (got < 0)
        fail(consumer, "next", got);
}

static size_t find(const struct consumer *consumer, uint64_t number) {
    size_t place = 0;
    while (place < consumer->held_count && consumer->numbers[place] != number)
        place++;
    return place;
}

static void step_release(struct consumer *consumer, uint64_t number) {
    size_t place = find(consumer, number);
    // One that is not held is given to the library all the same: it has to refuse it.
    struct feed_batch never = {.sequence = number};
    int err = place < consumer->held_count ? release(consumer, place)
                                           : feed_batch_release(consumer->feed, &never, NULL);
    if (err) {
        fail(consumer, "release", err);
        return;
    }
    printf("{\"event\": \"released\"");
    end_line();
}

static void step_rehash(const struct consumer *consumer, uint64_t number) {
    size_t place = find(consumer, number);
    printf("{\"event\": \"hashes\"");
    if (place < consumer->held_count)
        print_hashes(consumer, &consumer->held[place]);
    end_line();
}

static int step(struct consumer *consumer) {
    char line[256], word[16];
    while (fgets(line, sizeof line, stdin)) {
        long long value = 0;
        if (sscanf(line, "%15s %lld", word, &value) < 1)
            continue;
        if (!strcmp(word, "next"))
            step_next(consumer, (int)value);
        else if (!strcmp(word, "release"))
            step_release(consumer, (uint64_t)value);
        else if (!strcmp(word, "rehash"))
            step_rehash(consumer, (uint64_t)value);
        else if (!strcmp(word, "token")) {
            printf("{\"event\": \"token\"");
            print_token(consumer);
            end_line();
        } else
            break;
    }
    return EXIT_SUCCESS;
}

// ---- Options -----------------------------------------------------------------------------------------------

static const struct argument options[] = {
    FEED_ARGUMENTS(struct consumer),
    {"batches", ARGUMENT_U64, offsetof(struct consumer, batches)},
    {"view", ARGUMENT_TEXT, offsetof(struct consumer, view_text)},
    {"hold", ARGUMENT_U64, offsetof(struct consumer, hold)},
    {"sleep-us", ARGUMENT_U64, offsetof(struct consumer, sleep_us)},
    {"timeout", ARGUMENT_INT, offsetof(struct consumer, timeout_ms)},
    {"step", ARGUMENT_FLAG, offsetof(struct consumer, step)},
    {"quiet", ARGUMENT_FLAG, offsetof(struct consumer, quiet)},     // no line per batch
    {"samples", ARGUMENT_FLAG, offsetof(struct consumer, samples)}, // the list of them with each batch
    {"token", ARGUMENT_FLAG, offsetof(struct consumer, token)},     // with each batch and the end
};

static bool parse(struct consumer *consumer, const char *argument) {
    if (argument_take(options, sizeof options / sizeof options[0], consumer, argument))
        return true;
    fprintf(stderr, "consumer: unknown option %s\n", argument);
    return false;
}

int main(int argc, char **argv) {
    static struct consumer consumer = {.timeout_ms = 20000, .options.reconnect_timeout_ms = -1};
    for (int i = 1; i < argc; i++)
        if (!parse(&consumer, argv[i]))
            return 2;
    if (!consumer.options.device)
        consumer.options.device = getenv("FEEDD_TEST_DEVICE");
    if (!consumer.options.device_world_size && consumer.options.device)
        consumer.options.device_world_size = consumer.options.local_world_size
                                                 ? consumer.options.local_world_size
                                                 : consumer.options.world_size;
    if (!view_parse(consumer.view_text, &consumer.view)) {
        fprintf(stderr, "consumer: cannot read view %s\n", consumer.view_text);
        return 2;
    }
    int err = feed_open_view(&consumer.feed, &consumer.options, consumer.view_text ? &consumer.view : NULL);
    int status;
    if (err) {
        status = fail(&consumer, "open", err);
    } else {
        print_attached(&consumer);
        status = consumer.step ? step(&consumer) : run(&consumer);
    }
    feed_close(consumer.feed);
    return status;
}
