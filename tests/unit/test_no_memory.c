// Decoders that find no memory, at each allocation in turn: they say so, and never that the bytes are damaged.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <lz4frame.h>
#include <png.h>
#include <webp/encode.h>
#include <zlib.h>
#include <zstd.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "block/block_decode.h"
#include "block/block_stream.h"
#include "daemon/image/codec.h"
#include "daemon/loader/block/block_cache.h"
#include "daemon/loader/stage/mask_size.h"
#include "tests/unit/encoded_jpeg.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAILS 0 // the sanitizer replaces the allocator
#elif defined(__has_feature)
#define FAILS (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer) && __GLIBC__)
#else
#define FAILS __GLIBC__
#endif

#define SIDE  120u
#define BYTES 300000u

static int64_t left = INT64_MAX; // allocations until one fails; those after it do not

// ---- In place of the C library's ---------------------------------------------------------------------------

#if FAILS
#define EXPORTED __attribute__((visibility("default")))
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

EXPORTED void *malloc(size_t bytes) {
    return left-- == 0 ? no_memory() : __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t count, size_t bytes) {
    return left-- == 0 ? no_memory() : __libc_calloc(count, bytes);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t bytes) {
    return left-- == 0 ? no_memory() : __libc_memalign(alignment, bytes);
}
#endif

static void skip_unless_it_fails(void) {
    if (FAILS)
        return;
    print_message("skip: a sanitizer replaces the allocator\n");
    skip();
}

// Runs it until no allocation fails any more. Returns how many did.
static uint32_t fail_each(int run(void *, struct error *), void *context) {
    skip_unless_it_fails();
    for (uint32_t failed = 0;; failed++) {
        struct error error = {0};
        left = failed;
        const int err = run(context, &error);
        const bool fired = left < 0;
        left = INT64_MAX;
        if (!fired && err)
            fail_msg("%s", error.text);
        if (!fired)
            return failed;
        if (err && err != -ENOMEM)
            fail_msg("allocation %u: %s", failed, error.text);
    }
}

// ---- Images ------------------------------------------------------------------------------------------------

struct picture {
    const char *what;
    struct bytes file;
};

static uint8_t drawn[SIDE * SIDE * 4];

static void draw(void) {
    for (uint32_t i = 0; i < sizeof drawn; i++)
        drawn[i] = (uint8_t)(i * 3 + i / SIDE * i / 7);
}

static void encode_jpeg(struct picture *to, bool progressive) {
    to->what = "JPEG";
    encode_sized(&to->file, SIDE, SIDE, 2, progressive);
}

static void encode_png(struct picture *to) {
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = SIDE, .height = SIDE, .format = PNG_FORMAT_RGBA};
    png_alloc_size_t count = sizeof to->file.at;
    assert_true(png_image_write_to_memory(&image, to->file.at, &count, 0, drawn, 0, NULL));
    to->what = "PNG";
    to->file.count = count;
}

// Neither lossless nor with transparency: libwebp 1.2 crashes if memory runs out meanwhile.
static void encode_webp(struct picture *to) {
    uint8_t *out = NULL;
    to->what = "WebP";
    to->file.count = WebPEncodeRGB(drawn, SIDE, SIDE, SIDE * 3, 80, &out);
    assert_in_range(to->file.count, 1, sizeof to->file.at);
    memcpy(to->file.at, out, to->file.count);
    WebPFree(out);
}

static const struct picture *images(uint32_t *count) {
    static struct picture all[4];
    draw();
    encode_jpeg(&all[0], false);
    encode_jpeg(&all[1], true);
    encode_png(&all[2]);
    encode_webp(&all[3]);
    *count = COUNT_OF(all);
    return all;
}

static int decode_image(void *context, struct error *error) {
    const struct bytes *bytes = &((const struct picture *)context)->file;
    struct image_request request = {.channels = 3, .rect = {8, 8, SIDE - 16, SIDE - 16}};
    struct image_decoder *decoder = NULL;
    struct image pixels;
    int err = image_read_header(bytes->at, bytes->count, &request.header, error);
    if (!err)
        err = image_decoder_open(&decoder, error);
    if (!err)
        err = image_decode(decoder, bytes->at, bytes->count, &request, &pixels, NULL, error);
    image_decoder_close(decoder);
    return err;
}

static void images_are_not_called_damaged(void **state) {
    uint32_t count;
    (void)state;
    const struct picture *all = images(&count);
    for (uint32_t i = 0; i < count; i++) {
        print_message("%s\n", all[i].what);
        assert_true(fail_each(decode_image, (void *)&all[i]) > 2);
    }
}

// The size of a mask cannot be compared without memory for its header.
static int check_mask(void *context, struct error *error) {
    const struct bytes *bytes = &((const struct picture *)context)->file;
    struct dataset_layout *layout = __builtin_alloca(sizeof *layout);
    const struct stage_sample mask = {.stored = bytes->at, .bytes = bytes->count};
    const struct stage_sample none = {.cached = {.pixels = drawn, .width = SIDE + 1, .height = SIDE}};
    memset(layout, 0, sizeof *layout);
    layout->images[0].stored.encoded = 1;
    int err = mask_size_check(layout, 0, &mask, 1, &none, error);
    return err == -EBADMSG ? 0 : err ? err : -EPROTO;
}

static void masks_are_compared_all_the_same(void **state) {
    uint32_t count;
    (void)state;
    const struct picture *all = images(&count);
    assert_true(fail_each(check_mask, (void *)&all[2]) > 2); // a PNG
}

// ---- Blocks ------------------------------------------------------------------------------------------------

struct coded {
    uint32_t codec;
    uint8_t stored[BYTES + 1000];
    size_t count;
    uint64_t decoded;
};

static uint8_t plain[BYTES];

static void encode_block(struct coded *coded, uint32_t codec) {
    const LZ4F_preferences_t linked = {.frameInfo = {.blockMode = LZ4F_blockLinked}};
    uLongf count = sizeof coded->stored;
    for (uint32_t i = 0; i < BYTES; i++)
        plain[i] = (uint8_t)(i * i >> 9);
    *coded = (struct coded){.codec = codec, .decoded = BYTES};
    if (codec == BLOCK_LZ4_FRAME)
        coded->count = LZ4F_compressFrame(coded->stored, sizeof coded->stored, plain, BYTES, &linked);
    else if (codec == BLOCK_ZSTD)
        coded->count = ZSTD_compress(coded->stored, sizeof coded->stored, plain, BYTES, 1);
    else if (compress(coded->stored, &count, plain, BYTES) == Z_OK)
        coded->count = count;
    assert_in_range(coded->count, 1, sizeof coded->stored);
}

static int decode_block(void *context, struct error *error) {
    const struct coded *coded = context;
    static uint8_t decoded[BYTES];
    struct block_decoder decoder;
    int err = block_decoder_open(&decoder, error);
    if (!err)
        err = block_decode_bytes(&decoder, coded->codec, coded->stored, coded->count, decoded, coded->decoded,
                                 error);
    block_decoder_close(&decoder);
    return err;
}

static int decode_stream(void *context, struct error *error) {
    const struct coded *coded = context;
    static uint8_t decoded[BYTES];
    struct block_stream *stream = NULL;
    size_t used = 0, made = 0;
    int err = block_stream_open(&stream, (enum block_codec)coded->codec, error);
    while (!err && made < BYTES) {
        size_t in = min_u64(coded->count - used, 1000), out = min_u64(BYTES - made, 777);
        err = block_stream_decode(stream, coded->stored + used, &in, decoded + made, &out, error);
        used += in;
        made += out;
    }
    block_stream_close(stream);
    return err;
}

static void blocks_are_not_called_damaged(void **state) {
    static const uint32_t codecs[] = {BLOCK_LZ4_FRAME, BLOCK_ZSTD, BLOCK_GZIP};
    static struct coded coded;
    (void)state;
    for (uint32_t i = 0; i < COUNT_OF(codecs); i++) {
        encode_block(&coded, codecs[i]);
        assert_true(fail_each(decode_block, &coded) >= 2);
        if (codecs[i] != BLOCK_GZIP)
            assert_true(fail_each(decode_stream, &coded) > 2);
    }
}

// ---- Blocks of a loader ------------------------------------------------------------------------------------

struct told {
    uint32_t count;
    int code;
    bool damaged;
    char sentence[512];
};

static void loaded(void *context, const struct block_result *result) {
    struct told *told = context;
    told->count++;
    told->code = result->code;
    told->damaged = result->damaged;
    snprintf(told->sentence, sizeof told->sentence, "%s", result->sentence ? result->sentence : "");
}

static void a_loader_tries_again_or_says_why(void **state) {
    static struct coded coded;
    struct error error = {0};
    struct block_cache *cache;
    struct block_wait waits[2];
    struct told told = {0};
    (void)state;
    skip_unless_it_fails();
    encode_block(&coded, BLOCK_LZ4_FRAME);
    const struct index_block block = {
        .stored = {{.bytes = coded.count}}, .decoded = BYTES, .codec = BLOCK_LZ4_FRAME};
    assert_int_equal(block_cache_open(&cache, block_work(&block).bytes, 2 * BYTES, NULL, &error), 0);
    for (uint32_t round = 0; round < 2; round++) {
        const bool patient = round == 1;
        waits[round] = (struct block_wait){.block = &block};
        block_cache_want(cache, &waits[round]);
        struct read_request *request = block_cache_start(cache, 1, loaded, &told);
        assert_non_null(request);
        memcpy(request->pieces->iov_base, coded.stored, coded.count);
        request->result = 0;
        block_cache_read(cache, request, 2);
        left = 0;
        const bool done = block_cache_decode(cache, patient, loaded, &told);
        left = INT64_MAX;
        assert_int_equal(done, !patient);
        assert_true(told.count == 1 && told.code == -ENOMEM && !told.damaged);
        assert_non_null(strstr(told.sentence, "allocation"));
    }
    assert_true(block_cache_decode(cache, true, loaded, &told));
    assert_true(told.count == 2 && told.code == 0);
    block_cache_close(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_are_not_called_damaged),
        cmocka_unit_test(masks_are_compared_all_the_same),
        cmocka_unit_test(blocks_are_not_called_damaged),
        cmocka_unit_test(a_loader_tries_again_or_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
