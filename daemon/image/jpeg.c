#include "daemon/image/jpeg.h"

#include <jpeglib.h>
// After jpeglib.h, which it needs.
#include <jerror.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/image/jpeg_end.h"

// The library decodes from one column of blocks to another, and from one row of blocks on. Pixels at the edges of
// what it decodes differ from those of a whole image, since subsampled colours are interpolated between neighbours:
// by two pixels, but very narrow parts are interpolated in another way. 16 was exact in all tests, 2 was not.
#define MARGIN       16u
#define ROWS_AT_ONCE 16u

struct image_jpeg {
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char reason[JMSG_LENGTH_MAX];
    // What is being decoded, and where to.
    const struct image_cut *cut;
    struct image_scratch *scratch;
    struct image *pixels;
    const struct image_record *record;
    uint8_t *planes;
    struct image_jpeg_survey survey;
    struct error *error;
};

// ---- What the library calls --------------------------------------------------------------------------------

static struct image_jpeg *of(j_common_ptr library) {
    return library->client_data;
}

__attribute__((noreturn)) static void give_up(j_common_ptr library) {
    library->err->format_message(library, of(library)->reason);
    longjmp(of(library)->escape, 1);
}

static void count_warning(j_common_ptr library, int level) {
    if (level < 0)
        library->err->num_warnings++;
}

static void say_nothing(j_common_ptr library) {
    (void)library;
}

static void begin_bytes(j_decompress_ptr library) {
    (void)library;
}

// All bytes were there from the beginning.
static boolean end_early(j_decompress_ptr library) {
    ERREXIT(library, JWRN_JPEG_EOF);
    return FALSE;
}

static void skip_bytes(j_decompress_ptr library, long count) {
    struct jpeg_source_mgr *source = library->src;
    if (count <= 0)
        return;
    if ((size_t)count > source->bytes_in_buffer)
        end_early(library);
    source->next_input_byte += count;
    source->bytes_in_buffer -= (size_t)count;
}

// Called for each row of blocks of each scan.
static void watch_scans(j_common_ptr library) {
    j_decompress_ptr decompress = (j_decompress_ptr)library;
    if (decompress->input_scan_number <= IMAGE_JPEG_MAX_SCANS)
        return;
    snprintf(of(library)->reason, JMSG_LENGTH_MAX, "more than %d scans", IMAGE_JPEG_MAX_SCANS);
    longjmp(of(library)->escape, 1);
}

// ---- Calls of the library ----------------------------------------------------------------------------------

static int start(struct image_jpeg *jpeg, const uint8_t *bytes, size_t count) {
    jpeg->library.err = jpeg_std_error(&jpeg->errors);
    jpeg->library.client_data = jpeg;
    jpeg->errors.error_exit = give_up;
    jpeg->errors.emit_message = count_warning;
    jpeg->errors.output_message = say_nothing;
    // Not as in guard(): without a library there is nothing to destroy.
    if (setjmp(jpeg->escape) != 0)
        return error_set(jpeg->error, -ENOMEM, "no memory to decode JPEG images");
    jpeg_create_decompress(&jpeg->library);
    jpeg->source = (struct jpeg_source_mgr){.init_source = begin_bytes,
                                            .fill_input_buffer = end_early,
                                            .skip_input_data = skip_bytes,
                                            .resync_to_restart = jpeg_resync_to_restart,
                                            .term_source = begin_bytes,
                                            .next_input_byte = bytes,
                                            .bytes_in_buffer = count};
    jpeg->progress.progress_monitor = watch_scans;
    jpeg->library.src = &jpeg->source;
    jpeg->library.progress = &jpeg->progress;
    return 0;
}

// An error of the library leaves `body` from anywhere. The library keeps tables from one image to the next, which one
// without tables of its own would then be decoded with. So each image has a library to itself.
static int guard(struct image_jpeg *jpeg, const uint8_t *bytes, size_t count, int body(struct image_jpeg *)) {
    int err = start(jpeg, bytes, count);
    if (err)
        return err;
    if (setjmp(jpeg->escape) == 0)
        err = body(jpeg);
    else
        err = error_set(jpeg->error, jpeg->errors.msg_code == JERR_OUT_OF_MEMORY ? -ENOMEM : -EBADMSG,
                        "its JPEG image cannot be decoded: %s", jpeg->reason);
    jpeg_destroy_decompress(&jpeg->library);
    return err;
}

static int read_header(struct image_jpeg *jpeg) {
    jpeg_read_header(&jpeg->library, TRUE);
    return image_check_size(jpeg->library.image_width, jpeg->library.image_height, jpeg->error);
}

// ---- Decoding ----------------------------------------------------------------------------------------------

// What is asked of the library: grey stays grey, and CMYK is converted afterwards.
static int choose_colours(struct image_jpeg *jpeg) {
    j_decompress_ptr library = &jpeg->library;
    switch (library->num_components) {
    case 1:
        library->out_color_space = jpeg->cut->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
        return 0;
    case 3:
        library->out_color_space = JCS_RGB;
        return 0;
    case 4:
        library->out_color_space = JCS_CMYK;
        return 0;
    default:
        return error_set(jpeg->error, -ENOTSUP, "its JPEG image has %d components; 1, 3 or 4 can be decoded",
                         library->num_components);
    }
}

// Some pixels of a row or column: from `first` up to `end`.
struct span {
    uint32_t first, end;
};

static struct span scale(uint32_t first, uint32_t count, uint32_t eighths, uint32_t whole) {
    uint64_t end = ((uint64_t)(first + count) * eighths + 7) / 8;
    return (struct span){(uint32_t)((uint64_t)first * eighths / 8), (uint32_t)min_u64(end, whole)};
}

// Has the library decode only these columns, and those that they depend on. Returns the first column that it decodes.
static uint32_t choose_columns(j_decompress_ptr library, struct span wanted) {
    JDIMENSION first = wanted.first > MARGIN ? wanted.first - MARGIN : 0;
    JDIMENSION count = (JDIMENSION)min_u64(wanted.end + MARGIN, library->output_width) - first;
    if (count == library->output_width)
        return 0;
    jpeg_crop_scanline(library, &first, &count);
    return first;
}

static void convert(const struct image_jpeg *jpeg, uint8_t *row) {
    j_decompress_ptr library = (j_decompress_ptr)&jpeg->library;
    if (library->out_color_space == JCS_CMYK)
        image_row_cmyk_to_rgb(row, library->output_width);
    if (jpeg->cut->channels == 1 && library->out_color_space != JCS_GRAYSCALE)
        image_row_rgb_to_grey(row, library->output_width);
}

// Of bytes without an end marker, it is not known how many rows they have: that must not depend on what is wanted.
static void decode_rest(j_decompress_ptr library) {
    const JDIMENSION bytes = library->output_width * (JDIMENSION)library->output_components;
    JSAMPARRAY row = library->mem->alloc_sarray((j_common_ptr)library, JPOOL_IMAGE, bytes, 1);
    while (library->output_scanline < library->output_height)
        jpeg_read_scanlines(library, row, 1);
}

// Into `pixels`; rows above `wanted` are overwritten by the first of those.
static void read_rows(struct image_jpeg *jpeg, struct span wanted) {
    j_decompress_ptr library = &jpeg->library;
    while (library->output_scanline < wanted.end) {
        uint32_t next = library->output_scanline;
        uint32_t count = (uint32_t)min_u64(ROWS_AT_ONCE, wanted.end - next);
        JSAMPROW rows[ROWS_AT_ONCE];
        for (uint32_t i = 0; i < count; i++) {
            uint32_t row = next + i > wanted.first ? next + i - wanted.first : 0;
            rows[i] = jpeg->pixels->pixels + row * jpeg->pixels->stride;
        }
        uint32_t done = jpeg_read_scanlines(library, rows, count);
        for (uint32_t i = 0; i < done; i++)
            if (next + i >= wanted.first)
                convert(jpeg, rows[i]);
    }
}

static int decode(struct image_jpeg *jpeg) {
    j_decompress_ptr library = &jpeg->library;
    const struct image_cut *cut = jpeg->cut;
    int err = read_header(jpeg);
    if (!err)
        err = image_check_same(cut, library->image_width, library->image_height, jpeg->error);
    if (!err)
        err = choose_colours(jpeg);
    if (err)
        return err;
    const bool ended = image_jpeg_has_end(jpeg->source.next_input_byte, jpeg->source.bytes_in_buffer);
    library->scale_num = cut->eighths;
    library->scale_denom = DCTSIZE;
    library->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(library);
    struct span columns = scale(cut->rect.x, cut->rect.width, cut->eighths, library->output_width);
    struct span rows = scale(cut->rect.y, cut->rect.height, cut->eighths, library->output_height);
    uint32_t first_column = choose_columns(library, columns);
    err = image_make_rows(jpeg->pixels, jpeg->scratch, library->output_width, rows.end - rows.first,
                          cut->channels, (uint32_t)library->output_components, jpeg->error);
    if (err)
        return err;
    if (rows.first > MARGIN)
        jpeg_skip_scanlines(library, rows.first - MARGIN);
    read_rows(jpeg, rows);
    if (!ended)
        decode_rest(library);
    jpeg->pixels->pixels += (size_t)(columns.first - first_column) * cut->channels;
    jpeg->pixels->width = columns.end - columns.first;
    return 0;
}

// ---- For engines -------------------------------------------------------------------------------------------

static uint32_t sampling_of(const struct jpeg_decompress_struct *library) {
    const jpeg_component_info *parts = library->comp_info;
    if (library->num_components != 3)
        return IMAGE_SAMPLING_GREY;
    bool colours_alike = parts[1].h_samp_factor == 1 && parts[1].v_samp_factor == 1 &&
                         parts[2].h_samp_factor == 1 && parts[2].v_samp_factor == 1;
    if (!colours_alike || parts[0].v_samp_factor > parts[0].h_samp_factor)
        return IMAGE_SAMPLING_GREY;
    if (parts[0].h_samp_factor == 1)
        return IMAGE_SAMPLING_444;
    if (parts[0].h_samp_factor != 2)
        return IMAGE_SAMPLING_GREY;
    return parts[0].v_samp_factor == 1 ? IMAGE_SAMPLING_422 : IMAGE_SAMPLING_420;
}

// Rows come one after another, so that neither memory nor time grows with the number of scans.
static bool is_baseline(const struct jpeg_decompress_struct *library) {
    return !library->progressive_mode && !library->arith_code && library->data_precision == 8 &&
           library->comps_in_scan == library->num_components;
}

static bool has_regular_colours(const struct jpeg_decompress_struct *library) {
    const bool grey = library->num_components == 1 && library->jpeg_color_space == JCS_GRAYSCALE;
    const bool colours = library->num_components == 3 && library->jpeg_color_space == JCS_YCbCr;
    return grey || (colours && sampling_of(library));
}

static int look(struct image_jpeg *jpeg) {
    j_decompress_ptr library = &jpeg->library;
    struct image_jpeg_survey *survey = &jpeg->survey;
    int err = read_header(jpeg);
    if (err)
        return err;
    survey->width = library->image_width;
    survey->height = library->image_height;
    survey->sampling = sampling_of(library);
    survey->baseline = is_baseline(library);
    survey->regular_colours = has_regular_colours(library);
    survey->plain = survey->baseline && survey->regular_colours;
    if (!survey->plain)
        return 0;
    library->raw_data_out = TRUE;
    jpeg_start_decompress(library); // the tables are there, and make sense
    return 0;
}

// Of the rows that the library has just decoded, what the record wants.
static void keep_rows(struct image_jpeg *jpeg, uint32_t number, JSAMPARRAY rows, uint32_t first,
                      uint32_t count) {
    const struct image_record *record = jpeg->record;
    const jpeg_component_info *part = &jpeg->library.comp_info[number];
    const struct image_plane plane = image_record_plane(record, number);
    const uint32_t left =
        record->x * (uint32_t)part->h_samp_factor / (uint32_t)jpeg->library.max_h_samp_factor;
    const uint32_t top =
        record->y * (uint32_t)part->v_samp_factor / (uint32_t)jpeg->library.max_v_samp_factor;
    for (uint32_t i = 0; i < count; i++)
        if (first + i >= top && first + i < top + plane.height)
            memcpy(jpeg->planes + plane.offset + (size_t)(first + i - top) * plane.width, rows[i] + left,
                   plane.width);
}

static int decode_planes(struct image_jpeg *jpeg) {
    j_decompress_ptr library = &jpeg->library;
    const struct image_record *record = jpeg->record;
    int err = read_header(jpeg);
    if (err)
        return err;
    if (!is_baseline(library) || !has_regular_colours(library) || sampling_of(library) != record->sampling ||
        library->image_width != record->image_width || library->image_height != record->image_height ||
        record->x + (uint64_t)record->width > library->image_width ||
        record->y + (uint64_t)record->height > library->image_height)
        return error_set(jpeg->error, -EBADMSG, "its JPEG image is not the one that was planned for");
    library->raw_data_out = TRUE;
    library->dct_method = JDCT_ISLOW;
    jpeg_start_decompress(library);
    JSAMPARRAY rows[3] = {NULL};
    for (int i = 0; i < library->num_components; i++) {
        const jpeg_component_info *part = &library->comp_info[i];
        rows[i] =
            library->mem->alloc_sarray((j_common_ptr)library, JPOOL_IMAGE, part->width_in_blocks * DCTSIZE,
                                       (JDIMENSION)part->v_samp_factor * DCTSIZE);
    }
    const uint32_t lines = (uint32_t)library->max_v_samp_factor * DCTSIZE;
    for (uint32_t row = 0; row < record->y + record->height; row += lines) {
        jpeg_read_raw_data(library, rows, lines);
        for (uint32_t i = 0; i < (uint32_t)library->num_components; i++) {
            const uint32_t count = (uint32_t)library->comp_info[i].v_samp_factor * DCTSIZE;
            keep_rows(jpeg, i, rows[i], row / lines * count, count);
        }
    }
    return 0;
}

// ---- Interface ---------------------------------------------------------------------------------------------

int image_jpeg_open(struct image_jpeg **jpeg, struct error *error) {
    *jpeg = calloc(1, sizeof **jpeg);
    return *jpeg ? 0 : error_set(error, -ENOMEM, "no memory to decode JPEG images");
}

void image_jpeg_close(struct image_jpeg *jpeg) {
    free(jpeg);
}

int image_jpeg_header(const uint8_t *bytes, size_t count, uint32_t *width, uint32_t *height,
                      struct error *error) {
    struct image_jpeg jpeg = {.error = error};
    int err = guard(&jpeg, bytes, count, read_header);
    *width = jpeg.library.image_width;
    *height = jpeg.library.image_height;
    return err;
}

int image_jpeg_decode(struct image_jpeg *jpeg, const uint8_t *bytes, size_t count,
                      const struct image_cut *cut, struct image_scratch *scratch, struct image *pixels,
                      struct error *error) {
    jpeg->cut = cut;
    jpeg->scratch = scratch;
    jpeg->pixels = pixels;
    jpeg->error = error;
    return guard(jpeg, bytes, count, decode);
}

int image_jpeg_look(struct image_jpeg *jpeg, const uint8_t *bytes, size_t count,
                    struct image_jpeg_survey *survey, struct error *error) {
    jpeg->survey = (struct image_jpeg_survey){0};
    jpeg->error = error;
    int err = guard(jpeg, bytes, count, look);
    *survey = jpeg->survey;
    survey->plain &= count >= 2 && bytes[count - 2] == 0xFF && bytes[count - 1] == JPEG_EOI;
    return err;
}

int image_jpeg_planes(struct image_jpeg *jpeg, const uint8_t *bytes, size_t count,
                      const struct image_record *record, uint8_t *planes, struct error *error) {
    jpeg->record = record;
    jpeg->planes = planes;
    jpeg->error = error;
    return guard(jpeg, bytes, count, decode_planes);
}
