// Packed shards that lie, opened as a dataset.
//
// Input: a byte of flags, a line (a pad), and one or two files of equal length, without the zeros at the end of the
// header: its first 512 bytes, and then what is behind it. With COMPLETE, header and table get the hashes they need,
// so that what lies behind those is reached too; with ENDS, the table ends where the file does.
#include <xxhash.h>

#include "base/packed.h"
#include "tests/fuzz/lying_files.h"

#define HEAD 512u

enum {
    ENDS = 4
};

static void fill_file(struct fuzz_input *input, uint32_t file, size_t count, uint8_t flags) {
    static uint8_t copy[PACKED_PAGE + MOST];
    struct packed_header header;
    const uint8_t *bytes;
    memset(copy, 0, PACKED_PAGE);
    size_t head = fuzz_bytes(input, &bytes, min_u64(count, HEAD));
    if (head)
        memcpy(copy, bytes, head);
    count = fuzz_bytes(input, &bytes, min_u64(count - head, MOST));
    if (count)
        memcpy(copy + PACKED_PAGE, bytes, count);
    count += PACKED_PAGE;
    memcpy(&header, copy, sizeof header);
    if (flags & ENDS)
        header.table_bytes = count - min_u64(header.table_offset, count);
    if (flags & COMPLETE && header.table_offset < count)
        header.table_hash = XXH3_64bits(copy + header.table_offset, count - header.table_offset);
    if (flags & COMPLETE)
        header.header_hash = packed_hash(&header);
    memcpy(copy, &header, sizeof header);
    fuzz_write(FIRST_FD + (int)file, copy, count);
}

// All fields are fixed: every record lies in its file, and the fields in it.
static void check_records(const struct dataset_layout *layout) {
    const struct dataset_stream *stream = &layout->streams[0];
    uint64_t end = 0;
    FUZZ_CHECK(layout->stream_count == 1 && stream->extent_count == layout->field_count);
    for (uint32_t i = 0; i < stream->extent_count; i++) {
        const struct dataset_extent *extent = &stream->extents[i];
        FUZZ_CHECK(extent->field == i && extent->offset == end &&
                   extent->bytes == layout->fields[i].sample_bytes);
        end = extent->offset + extent->bytes;
    }
    FUZZ_CHECK(end <= stream->record_bytes);
    for (uint32_t i = 0; i < layout->file_count; i++) {
        const struct dataset_file *file = &layout->files[i];
        FUZZ_CHECK(file->samples <= (file->bytes - file->data_offset) / stream->record_bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    char pad[32];
    struct config_field pads[1] = {{(char *)"x", pad, 1}};
    struct dataset *dataset;
    struct error error = {0};
    make_files();
    int before = fuzz_free_descriptor();
    uint8_t flags = fuzz_byte(&input);
    fuzz_line(&input, pad, sizeof pad);
    struct dataset_config config = {.name = (char *)"fuzz",
                                    .file = "feedd.conf",
                                    .line = 1,
                                    .format = (char *)"packed",
                                    .path = (char *)path_of_files(flags & TWO),
                                    .pads = pads,
                                    .pad_count = *pad != '\0'};
    size_t each = flags & TWO ? input.left / 2 : input.left;
    for (uint32_t i = 0; i < FILES; i++)
        fill_file(&input, i, each, flags);
    int err = source_open_dataset(&config, &dataset, &error);
    FUZZ_CHECK(err ? !dataset && *error.text : dataset != NULL);
    if (dataset && dataset->layout->column_count)
        check_index(dataset);
    else if (dataset)
        check_records(dataset->layout);
    dataset_unref(dataset);
    FUZZ_CHECK(fuzz_free_descriptor() == before);
    return 0;
}
