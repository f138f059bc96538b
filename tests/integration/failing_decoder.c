// A library to be preloaded: a decoder of JPEG that crashes at images of one width, never returns from those of
// another, and is killed at those of a third, as where memory runs out.
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <jpeglib.h>

#define VISIBLE __attribute__((visibility("default")))
#define CRASHES 166u // pixels wide
#define HANGS   177u
#define KILLED  188u

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
