#include "daemon/check_images.h"

#include <inttypes.h>
#include <sys/mman.h>

#include "base/path_text.h"
#include "base/read_at.h"
#include "base/sizes.h"
#include "daemon/dataset/folder_file.h"
#include "daemon/image/codec.h"
#include "daemon/on_error.h"
#include "daemon/source/folder/folder_read.h"

#define EXTENSIONS "jpg|jpeg|jpe|jfif|png|webp"
#define AT_ONCE    256u // samples
#define HEAD_BYTES 16u  // which tell formats apart

struct tally {
    uint64_t images, others; // files, by their names
    uint64_t first;          // sample: the first one of the others
};

static bool decodes_files(const struct dataset_layout *layout) {
    for (uint32_t i = 0; layout->folder_count && i < layout->column_count; i++)
        if (layout->columns[i].kind == COLUMN_EXTENTS && layout->columns[i].varies)
            return true;
    return false;
}

// A view that decodes as its dataset does has no files of its own, and one with a list has those that its user chose.
static bool is_of_interest(const struct dataset *dataset) {
    return !dataset->sources && decodes_files(dataset->layout) &&
           !selection_list_bytes(&dataset->layout->selection) &&
           !(dataset->base && decodes_files(dataset->base->layout));
}

// A sample whose file is missing has no path.
static void count(const struct folder_files *files, uint64_t sample, struct tally *tally) {
    char path[PATH_MAX];
    if (path_text_get(&files->text, files->extents[sample].offset, path) == 0)
        return;
    if (folder_takes(EXTENSIONS, path))
        tally->images++;
    else if (tally->others++ == 0)
        tally->first = sample;
}

static void count_all(const struct dataset_layout *layout, const struct folder_files *files,
                      struct tally *tally) {
    struct selector selector;
    uint64_t samples[AT_ONCE];
    selector_init(&selector, &layout->selection, NULL);
    for (uint64_t at = 0; at < layout->samples; at += AT_ONCE) {
        const uint32_t some = (uint32_t)min_u64(AT_ONCE, layout->samples - at);
        for (uint32_t i = 0; i < some; i++)
            samples[i] = at + i;
        selector_map(&selector, 0, 0, samples, some);
        for (uint32_t i = 0; i < some; i++)
            count(files, samples[i], tally);
    }
}

// False also if it cannot be read.
static bool is_not_image(const struct dataset *dataset, const struct folder_files *files, uint64_t sample) {
    char path[PATH_MAX];
    uint8_t head[HEAD_BYTES];
    struct image_header header;
    struct error error = {0};
    const struct index_extent *extent = &files->extents[sample];
    path_text_get(&files->text, extent->offset, path);
    AUTO_CLOSE int fd = folder_file_open(dataset->fds[extent->file], path);
    if (fd < 0 || folder_file_check(fd, extent->bytes))
        return false;
    const ssize_t got = read_at(fd, head, min_u64(extent->bytes, sizeof head), 0);
    if (got < 0)
        return false;
    image_read_header(head, (size_t)got, &header, &error);
    return !header.format;
}

static void print(const struct dataset_config *config, const struct dataset *dataset,
                  const struct tally *tally) {
    static const char *const become[] = {[ON_ERROR_FAIL] = "end a feed",
                                         [ON_ERROR_SKIP] = "are left out",
                                         [ON_ERROR_REPLACE] = "are replaced"};
    char path[DATASET_PATH_TEXT];
    printf("    warning: %" PRIu64 " of %" PRIu64 " files %s the extension of a JPEG, PNG or WebP image, "
           "and the first of them is not an image: %s; such files %s (on_error)%s\n",
           tally->others, tally->images + tally->others, tally->others == 1 ? "lacks" : "lack",
           dataset_file_path(dataset, (uint32_t)tally->first, path), become[dataset->on_error],
           config->csv ? "" : "; extensions = " EXTENSIONS " takes the images alone");
}

void check_images(const struct dataset_config *config, const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    struct tally tally = {0};
    if (!is_of_interest(dataset) || !layout->index_bytes)
        return;
    uint8_t *index = mmap(NULL, layout->index_bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    if (index == MAP_FAILED)
        return;
    const struct folder_files files = folder_files_of(layout, index);
    if (files.extents)
        count_all(layout, &files, &tally);
    if (tally.images && tally.others && is_not_image(dataset, &files, tally.first))
        print(config, dataset, &tally);
    munmap(index, layout->index_bytes);
}
