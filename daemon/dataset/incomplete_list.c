#include "daemon/dataset/incomplete_list.h"

#include <stdlib.h>

void incomplete_list_free(struct incomplete_list *list) {
    for (uint32_t i = 0; list && i < list->listed; i++)
        free(list->first[i].reason);
    free(list);
}
