// What each step on images may be written with.
#ifndef FEEDD_DAEMON_IMAGE_STEP_RULES_H
#define FEEDD_DAEMON_IMAGE_STEP_RULES_H

#include "base/step_reader.h"
#include "daemon/image/steps.h"

// The numbers right after a step's name.
enum form {
    FORM_SIDES,
    FORM_CHANCE,
    FORM_FACTORS,
    FORM_HUE,
    FORM_PADDING,
    FORM_OPERATIONS,
    FORM_NONE,
};

// The words that may follow them, with numbers of their own.
enum option {
    OPTION_FILTER = 1,
    OPTION_AREA = 2,
    OPTION_RATIO = 4,
    OPTION_FILL = 8,
    OPTION_PADDING = 16,
};

// Of some numbers in a row.
struct form_rule {
    uint32_t least, most; // how many
    bool whole;
    float lowest, highest; // of each
    const char *wanted;
};

struct step_rule {
    const char *name;
    uint32_t kind;
    enum form form;
    uint32_t options;
    const char *usage;
};

extern const struct form_rule image_forms[]; // by enum form

// The step of the name that is the reader's last word, or NULL.
const struct step_rule *image_step_rule(const struct step_reader *words);

// The name of a step on images, decode and with among them, for i from 0 on; NULL behind the last one.
const char *image_step_known(size_t i);

// Sets what torchvision has where nothing is written.
void image_step_defaults(struct image_step *step);

#endif
