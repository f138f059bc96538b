// A library to be preloaded: a decoder of JPEG that crashes at images of one width, and never returns from those of
// another.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <jpeglib.h>

#define VISIBLE __attribute__((visibility("default")))
#define CRASHES 166u // pixels wide
#define HANGS   177u

VISIBLE boolean jpeg_start_decompress(j_decompress_ptr image) {
    static boolean (*start)(j_decompress_ptr);
    if (image->image_width == CRASHES)
        raise(SIGSEGV);
    while (image->image_width == HANGS)
        pause();
    if (!start)
        *(void **)&start = dlsym(RTLD_NEXT, "jpeg_start_decompress");
    return start(image);
}
