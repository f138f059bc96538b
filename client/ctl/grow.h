// Arrays that grow by one element at a time.
#ifndef FEEDD_CLIENT_CTL_GROW_H
#define FEEDD_CLIENT_CTL_GROW_H

#include <stdbool.h>
#include <stdlib.h>

// Makes room for one more element; false if there is no memory.
static inline bool grow(void **array, size_t count, size_t *room, size_t element) {
    if (count < *room)
        return true;
    size_t wanted = *room ? 2 * *room : 16;
    void *grown = reallocarray(*array, wanted, element);
    if (!grown)
        return false;
    *array = grown;
    *room = wanted;
    return true;
}

#endif
