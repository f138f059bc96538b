#include "daemon/source/arrow/arrow_message.h"

#include <inttypes.h>

#include "base/sizes.h"
#include "daemon/source/arrow/arrow_format.h"

// ---- Messages and footers ------------------------------------------------------------------------------------

static int refuse_metadata(struct error *error, const char *what, int reason) {
    return error_set(error, -EINVAL, "found %s that cannot be read (%s), wanted one as Arrow writes it", what,
                     flatcc_verify_error_string(reason));
}

static int check_version(int version, bool *old_unions, struct error *error) {
    *old_unions = version == ns(MetadataVersion_V4);
    if (version == ns(MetadataVersion_V4) || version == ns(MetadataVersion_V5))
        return 0;
    return error_set(error, -ENOTSUP,
                     "found metadata of version %d, wanted 4 or 5; write it with a newer Arrow", version + 1);
}

int arrow_message_open(const uint8_t *bytes, size_t count, struct arrow_message *message,
                       struct error *error) {
    *message = (struct arrow_message){.kind = ARROW_MESSAGE_OTHER};
    int reason = arrow_verify_message(bytes, count);
    if (reason)
        return refuse_metadata(error, "a message", reason);
    ns(Message_table_t) root = ns(Message_as_root)(bytes);
    int64_t body = ns(Message_bodyLength)(root);
    if (body < 0)
        return error_set(error, -EINVAL, "found a message with a body of %" PRId64 " bytes", body);
    message->body_bytes = (uint64_t)body;
    message->header = ns(Message_header)(root);
    switch (message->header ? ns(Message_header_type)(root) : 0) {
    case ns(MessageHeader_Schema):
        message->kind = ARROW_MESSAGE_SCHEMA;
        break;
    case ns(MessageHeader_RecordBatch):
        message->kind = ARROW_MESSAGE_BATCH;
        break;
    case ns(MessageHeader_DictionaryBatch):
        message->kind = ARROW_MESSAGE_DICTIONARY;
        break;
    default:
        break;
    }
    return check_version(ns(Message_version)(root), &message->old_unions, error);
}

int arrow_footer_open(const uint8_t *bytes, size_t count, struct arrow_footer *footer, struct error *error) {
    *footer = (struct arrow_footer){0};
    int reason = arrow_verify_footer(bytes, count);
    if (reason)
        return refuse_metadata(error, "a footer", reason);
    ns(Footer_table_t) root = ns(Footer_as_root)(bytes);
    footer->schema = ns(Footer_schema)(root);
    footer->blocks = ns(Footer_recordBatches)(root);
    footer->block_count = ns(Block_vec_len)(ns(Footer_recordBatches)(root));
    if (!footer->schema)
        return error_set(error, -EINVAL, "found a footer without a schema");
    return check_version(ns(Footer_version)(root), &footer->old_unions, error);
}

struct arrow_block arrow_footer_block(const struct arrow_footer *footer, uint64_t index) {
    // A negative offset comes out as one beyond any file.
    return (struct arrow_block){(uint64_t)ns(Block_offset)(ns(Block_vec_at)(footer->blocks, index))};
}

// ---- Batches -------------------------------------------------------------------------------------------------

static int codec_of(ns(RecordBatch_table_t) header, uint32_t *codec, struct error *error) {
    ns(BodyCompression_table_t) compression = ns(RecordBatch_compression)(header);
    *codec = BLOCK_PLAIN;
    if (!compression)
        return 0;
    if (ns(BodyCompression_method)(compression) != ns(BodyCompressionMethod_BUFFER))
        return error_set(error, -ENOTSUP, "found a batch that is compressed in an unknown way");
    switch (ns(BodyCompression_codec)(compression)) {
    case ns(CompressionType_LZ4_FRAME):
        *codec = BLOCK_LZ4_FRAME;
        return 0;
    case ns(CompressionType_ZSTD):
        *codec = BLOCK_ZSTD;
        return 0;
    default:
        return error_set(error, -ENOTSUP,
                         "found buffers that are compressed with an unknown codec, wanted lz4 or"
                         " zstd");
    }
}

// The buffers of the first `fields` fields that have any number of them. No sum of bounded counts overflows, and none
// that was cut is as many as there can be.
static uint64_t variadic_buffers(ns(RecordBatch_table_t) header, uint32_t fields) {
    flatbuffers_int64_vec_t counts = ns(RecordBatch_variadicBufferCounts)(header);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < fields; i++)
        sum += min_u64((uint64_t)flatbuffers_int64_vec_at(counts, i), UINT32_MAX);
    return sum;
}

int arrow_batch_read(const struct arrow_message *message, const struct arrow_schema *schema,
                     struct arrow_batch *batch, struct error *error) {
    ns(RecordBatch_table_t) header = message->header;
    int64_t rows = ns(RecordBatch_length)(header);
    uint64_t nodes = ns(FieldNode_vec_len)(ns(RecordBatch_nodes)(header));
    uint64_t buffers = ns(Buffer_vec_len)(ns(RecordBatch_buffers)(header));
    uint64_t counts = flatbuffers_int64_vec_len(ns(RecordBatch_variadicBufferCounts)(header));
    if (rows < 0)
        return error_set(error, -EINVAL, "found %" PRId64 " rows", rows);
    if (nodes != schema->count || counts != schema->variadic ||
        buffers != schema->buffers + variadic_buffers(header, schema->variadic))
        return error_set(error, -EINVAL,
                         "found %" PRIu64 " columns and %" PRIu64
                         " buffers, wanted as many as the schema has: %" PRIu32 " columns and %" PRIu32
                         " buffers",
                         nodes, buffers, schema->count, schema->buffers);
    *batch = (struct arrow_batch){.rows = (uint64_t)rows, .header = header};
    return codec_of(header, &batch->codec, error);
}

struct arrow_node arrow_batch_node(const struct arrow_batch *batch, uint32_t field) {
    ns(FieldNode_struct_t) node = ns(FieldNode_vec_at)(ns(RecordBatch_nodes)(batch->header), field);
    return (struct arrow_node){(uint64_t)ns(FieldNode_length)(node),
                               (uint64_t)ns(FieldNode_null_count)(node)};
}

struct arrow_buffer arrow_batch_buffer(const struct arrow_batch *batch, const struct arrow_field *field,
                                       uint32_t which) {
    uint64_t index = field->buffer + which + variadic_buffers(batch->header, field->variadic);
    ns(Buffer_struct_t) buffer = ns(Buffer_vec_at)(ns(RecordBatch_buffers)(batch->header), index);
    return (struct arrow_buffer){(uint64_t)ns(Buffer_offset)(buffer), (uint64_t)ns(Buffer_length)(buffer)};
}
