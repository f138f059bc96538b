// A library to be preloaded: a decoder of JPEG that crashes at images of one width, never returns from those of
// another, and is killed at those of a third, as where memory runs out. Where it decodes to planes (`decode gpu`), it
// finds no memory for those of a fourth.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <jpeglib.h>
// After jpeglib.h, which it needs.
#include <jerror.h>

#define VISIBLE __attribute__((visibility("default")))
#define CRASHES 166u // pixels wide
#define HANGS   177u
#define KILLED  188u
#define NOTHING 199u

VISIBLE boolean jpeg_start_decompress(j_decompress_ptr image) {
    static boolean (*start)(j_decompress_ptr);
    if (image->image_width == CRASHES)
        __builtin_trap(); // a signal that is sent would be survived where faults are handled (fault_guard.h)
    if (image->image_width == KILLED)
        raise(SIGKILL);
    while (image->image_width == HANGS)
        pause();
    if (!start)
        *(void **)&start = dlsym(RTLD_NEXT, "jpeg_start_decompress");
    return start(image);
}

VISIBLE JDIMENSION jpeg_read_raw_data(j_decompress_ptr image, JSAMPIMAGE rows, JDIMENSION lines) {
    static JDIMENSION (*read_rows)(j_decompress_ptr, JSAMPIMAGE, JDIMENSION);
    if (image->image_width == NOTHING)
        ERREXIT1(image, JERR_OUT_OF_MEMORY, 0);
    if (!read_rows)
        *(void **)&read_rows = dlsym(RTLD_NEXT, "jpeg_read_raw_data");
    return read_rows(image, rows, lines);
}
