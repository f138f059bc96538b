#include "daemon/source/build/builder_select.h"

#include <xxhash.h>

#include "daemon/source/build/builder_choice.h"
#include "daemon/source/build/builder_weights.h"

static int keep_list(struct builder *builder, struct choice *choice, struct selection *selection) {
    int err = choice_cut_list(builder, choice);
    if (err)
        return err;
    *selection = (struct selection){
        .kind = SELECTION_LIST,
        .of = choice->of,
        .count = choice->count,
        .seed = XXH3_64bits(choice->numbers.list->words, choice->count * sizeof(uint64_t)),
    };
    return view_memory_keep(builder, &choice->numbers);
}

int builder_select(struct builder *builder) {
    struct dataset_layout *layout = builder->dataset->layout;
    AUTO_CHOICE struct choice choice = CHOICE_NONE;
    if (!builder->config->view)
        return 0;
    int err = builder_choose(builder, &choice);
    if (err)
        return err;
    if (builder->config->weights)
        err = builder_weights(builder, &choice, &layout->selection);
    else if (builder->config->indices)
        err = keep_list(builder, &choice, &layout->selection);
    else
        layout->selection = choice.part;
    layout->samples = layout->selection.kind == SELECTION_ALL ? layout->samples : layout->selection.count;
    return err;
}
