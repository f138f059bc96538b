// Aligned memory for O_DIRECT reads whose file range or memory is not aligned: the blocks around the range are read
// into it and the wanted bytes copied out. Allocated when first needed; bounded. Not thread-safe.
#ifndef FEEDD_DAEMON_LOADER_READ_BOUNCE_H
#define FEEDD_DAEMON_LOADER_READ_BOUNCE_H

#include "daemon/loader/read/reader.h"

#define BOUNCE_BLOCK  4096u
#define BOUNCE_BLOCKS 896u        // 3.5 MiB per loader
#define BOUNCE_ALIGN  (64u << 10) // largest that a file may require of memory

struct bounce {
    uint8_t *memory;
    uint32_t next; // where the next search begins
    bool used[BOUNCE_BLOCKS];
};

// The aligned superset of a request's range.
struct bounce_span {
    uint64_t offset;
    uint32_t bytes;
    uint32_t skip; // of them, before the first wanted byte
};

// Whether the kernel would refuse to read the request directly into its pieces.
bool bounce_needed(const struct dataset_file *file, const struct read_request *request);

struct bounce_span bounce_span(const struct dataset_file *file, const struct read_request *request);

// Memory for the request's span. 0; -EAGAIN: none now, ask again when some has been given back; -ENOMEM;
// -EOVERFLOW: the file requires a larger alignment than BOUNCE_ALIGN.
int bounce_take(struct bounce *bounce, const struct dataset_file *file, const struct read_request *request,
                void **memory);
void bounce_give(struct bounce *bounce, const struct dataset_file *file, const struct read_request *request,
                 void *memory);

// Copies the wanted bytes from the span in `memory` into the request's pieces.
void bounce_scatter(const struct dataset_file *file, const struct read_request *request, const void *memory);

void bounce_free(struct bounce *bounce);

#endif
