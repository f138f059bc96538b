// JPEG with libjpeg-turbo: baseline, extended and progressive, 8 bits, with Huffman or arithmetic coding; grey,
// colour, CMYK and YCCK, with any subsampling that the library decodes.
#ifndef FEEDD_DAEMON_IMAGE_JPEG_H
#define FEEDD_DAEMON_IMAGE_JPEG_H

#include "daemon/image/cut.h"
#include "shm/image_record.h"

// A few times what encoders use. Each scan of a hostile file costs a pass over all of its coefficients, for few bytes.
#define IMAGE_JPEG_MAX_SCANS 100

struct image_jpeg;
int image_jpeg_open(struct image_jpeg **jpeg, struct error *error);
void image_jpeg_close(struct image_jpeg *jpeg); // NULL is fine

// The size.
int image_jpeg_header(const uint8_t *bytes, size_t count, uint32_t *width, uint32_t *height,
                      struct error *error);

// *pixels has cut->rect at cut->eighths / 8 of its size: all pixels of which a part is within it.
int image_jpeg_decode(struct image_jpeg *jpeg, const uint8_t *bytes, size_t count,
                      const struct image_cut *cut, struct image_scratch *scratch, struct image *pixels,
                      struct error *error);

// What a JPEG is to an engine that decodes only plain ones.
struct image_jpeg_survey {
    uint32_t width, height;
    uint32_t sampling;    // enum image_sampling
    bool baseline;        // and in one scan
    bool regular_colours; // grey, or YCbCr in one of those samplings; else `sampling` is 0
    bool plain;           // both, and it ends with its end
};

// Errors are those of image_jpeg_decode: what the header says is all wrong.
int image_jpeg_look(struct image_jpeg *jpeg, const uint8_t *bytes, size_t count,
                    struct image_jpeg_survey *survey, struct error *error);

// The planes of the part that `record` says, of a plain JPEG, as image_record_plane() places them in `planes`.
int image_jpeg_planes(struct image_jpeg *jpeg, const uint8_t *bytes, size_t count,
                      const struct image_record *record, uint8_t *planes, struct error *error);

#endif
