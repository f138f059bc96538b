// The table of options (options.def) as data, shared by the files of this folder.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_OPTIONS_H
#define FEEDD_DAEMON_CONFIG_CONFIG_OPTIONS_H

#include "base/names.h"
#include "daemon/config/config.h"

enum config_section {
    SECTION_NONE,
    SECTION_FEEDD,
    SECTION_DATASET,
    SECTION_VIEW,
    SECTION_MIX,
    CONFIG_SECTIONS
};

enum option_type {
    OPTION_STRING,
    OPTION_BOOL,
    OPTION_INTEGER,
    OPTION_INTEGER_OR_AUTO, // auto is stored as 0
    OPTION_SIZE,
    OPTION_DURATION,
    OPTION_MODE,
    OPTION_ENUM,
    OPTION_FIELDS,
};

struct config_option {
    enum config_section section;
    enum option_type type;
    const char *key;
    size_t offset; // of its member in struct config or struct dataset_config
    size_t bytes;  // of the member
    uint64_t min, max;
    const char *default_text;
    const char *unit;
    const char *formats;
    const char *text;
};

// Places in config_options, by section and member: FEEDD_loaders, DATASET_io, VIEW_of.
enum config_option_index {
#define FEEDD_OPTION(key, type, member, ...)   FEEDD_##member,
#define DATASET_OPTION(key, type, member, ...) DATASET_##member,
#define VIEW_OPTION(key, type, member, ...)    VIEW_##member,
#define MIX_OPTION(key, type, member, ...)     MIX_##member,
#include "daemon/config/options.def"
    CONFIG_OPTIONS
};

extern const struct config_option config_options[CONFIG_OPTIONS];

#define DESCRIPTION_TEXT 256

// "[dataset NAME]".
const char *section_title(enum config_section section);

// The option of that key; NULL if the section has none. Not for FIELDS options: see option_find_named.
const struct config_option *option_find(enum config_section section, const char *key);

// The option of `section` whose key is most similar to `key`, or NULL if none is similar.
const struct config_option *option_nearest(enum config_section section, const char *key);

// The choice of the option that is most similar to `value`; it also knows what other software calls the formats. NULL
// if none is similar.
const char *option_nearest_choice(const struct config_option *option, const char *value,
                                  char choice[NAME_LENGTH_MAX + 1]);

// True if the default is a value, not a word like (required).
bool option_has_default(const struct config_option *option);
bool option_is_required(const struct config_option *option);

// True if datasets of `format` have the key.
bool option_fits_format(const struct config_option *option, const char *format);

// Reads the text into the option's member of `base`. -EINVAL: no such value, or out of range.
int option_store(const struct config_option *option, void *base, const char *text);

// Stores the default of every option of the section that has one. The only error is -ENOMEM.
int option_store_defaults(enum config_section section, void *base);

// What is wanted: "a whole number of reads from 1 to 4096".
const char *option_describe(const struct config_option *option, char text[DESCRIPTION_TEXT]);

// "auto|uring" as "auto, uring".
const char *option_choices(const char *choices, char *text, size_t bytes);

// The FIELDS option of the section that `key` is an instance of, or NULL: transform.NAME for "transform.image", and
// *name is "image".
const struct config_option *option_find_named(enum config_section section, const char *key,
                                              const char **name);

// The list that a FIELDS option fills, and its length.
struct config_field **option_list(const struct config_option *option, struct dataset_config *dataset,
                                  size_t **count);

#endif
