// feedd.conf, read through one table of options (options.def). The messages of `feedd --check`, `feedd --help-config`
// and the option list of feedd.conf(5) come from the same table.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_H
#define FEEDD_DAEMON_CONFIG_CONFIG_H

#include <stdatomic.h>

#include "base/error.h"
#include "daemon/config/allow.h"
#include "daemon/config/part.h"

// One `field.NAME = VALUE` of a dataset, `transform.NAME = VALUE` or `pad.NAME = VALUE`; the format,
// daemon/dataset/transform.h or daemon/source/build/builder_pad.h says what VALUE means.
struct config_field {
    char *name;
    char *value;
    uint32_t line;
};

// A dataset, a view of one, or a mix of both. A view has all settings of its dataset (config_view.h), a part of the
// samples, and perhaps transforms of its own. A mix has sources (config_mix.h).
struct dataset_config {
    char *name;
    uint32_t line;          // of its [dataset NAME], [view NAME] or [mix NAME]
    uint32_t *option_lines; // of each option, as config_options numbers them; 0: absent. NULL: not known
    const char *file;       // that it stands in, for messages; owned by struct config
    const char *called;     // ... or how they call it, without lines; owned by struct config. NULL: by `file`
    const char *folder;     // where relative paths start; owned by struct config. NULL: the working directory
    const char *index_folder; // of [feedd]; owned by struct config. NULL: unset
    // The members below are filled through options.def.
    char *format;
    char *path;
    uint64_t record_bytes;
    char *dtype;
    uint64_t length;
    char *offsets;         // path or pattern; NULL: absent
    uint64_t pack;         // tokens of a window, less one; 0: documents are samples
    bool cu_seqlens;       // windows have that field
    char *extensions;      // of files: "jpg|jpeg"; NULL: any
    char *csv;             // the path of a file; NULL: none
    char *csv_file;        // a column of it; NULL: the first one
    char *links;           // a path or pattern; NULL: none
    uint64_t header_bytes; // skipped at the start of each file
    uint32_t io;           // enum io_mode; that of [feedd] if the dataset has none
    bool io_set;
    bool io_direct;
    uint64_t io_delay_us;
    uint64_t block_memory;   // of each loader
    uint64_t cache;          // bytes of decoded images that are kept; 0: none are
    uint64_t cache_size;     // their shorter side
    char *cache_path;        // a folder; NULL: they are kept in memory alone
    uint32_t on_error;       // enum on_error
    uint64_t shuffle_window; // groups; 0: samples are shuffled as a whole
    char *allow_users;       // NULL: absent
    char *allow_groups;
    struct config_field *fields;
    size_t field_count;
    struct config_field *transforms;
    size_t transform_count;
    struct config_field *pads;
    size_t pad_count;
    bool view;              // of the members below, others have `part` alone: the whole
    char *of;               // the name of its dataset
    size_t of_number;       // ... and its number: its index in config->datasets
    char *part_text;        // NULL: absent
    char *indices;          // the path of a file; NULL: absent
    char *weights;          // the same
    uint64_t epoch_samples; // of a mix; draws by weight in an epoch; 0: as many as are chosen
    uint64_t split_seed;
    bool split; // it has a split_seed
    struct part part;
    bool mix;                     // it has the members below
    struct config_field *sources; // names, with weights
    size_t source_count;
    size_t *source_numbers;   // indices in config->datasets
    uint32_t *source_weights; // as whole numbers
    // Of allow_users and allow_groups.
    struct allow_list users;
    struct allow_list groups;
};

// Another file of a configuration.
struct config_included {
    char *path;
    char *folder; // absolute
};

struct config {
    _Atomic uint32_t references;
    char *file;
    char *called;  // CONFIG_NAME_VARIABLE; NULL: unset
    char *folder;  // of the file, absolute
    char *include; // other files: a path or pattern; NULL: none
    struct config_included *included;
    size_t included_count;
    char *socket;
    char *socket_group;                      // NULL: leave it unchanged
    uint32_t socket_line, socket_group_line; // 0: absent
    uint32_t socket_mode;                    // 0660
    uint64_t ring_memory;
    uint64_t ring;         // of one feed; 0: from the last-level cache
    uint64_t view_memory;  // of all views that clients bring
    uint64_t cache_memory; // of all caches of decoded images; 0: half of the machine's
    uint64_t loaders;      // 0: auto
    bool prepare_loaders;  // keep some ready for the next feed
    uint32_t io;
    uint64_t queue_depth;
    uint64_t mapped_limit; // largest dataset that io = auto maps
    uint32_t log_level;    // enum log_level
    uint64_t max_lag_s;
    uint64_t linger_s;         // how long a feed without consumers is kept
    uint64_t loader_timeout_s; // a loader that has not moved for this long is replaced
    uint64_t stop_timeout_s;
    uint64_t device_pool;     // GPU memory of one pool
    uint64_t device_memory;   // of all pools of one GPU
    uint64_t device_linger_s; // how long a transfer process without pools is kept
    uint64_t simulated_gpus;
    bool confine; // give up what is not needed: daemon/confine/confine.h
    // Limits per user. 0: a share of what there is, see daemon/supervisor/feeds/quota.h.
    uint64_t user_sessions; // never 0
    uint64_t user_feeds;
    uint64_t user_ring_memory;
    uint64_t user_view_memory;
    uint64_t user_cache_memory;
    uint64_t user_device_memory;
    char *index_folder; // NULL: unset
    bool show_others;   // users see each other's sessions, feeds and datasets
    struct dataset_config *datasets;
    size_t dataset_count;
};

// The environment variable with which a program that writes a configuration for its user says how messages about the
// datasets in it are to call it: the user does not know the file and its lines.
#define CONFIG_NAME_VARIABLE "FEEDD_CONFIG_NAME"

// Reads and checks the text of a configuration; opens no data file. On failure *config is NULL and the error
// names file, line, key, what was found and what is wanted.
int config_load(const char *path, struct config **config, struct error *error);

// An empty configuration with the defaults of the table.
struct config *config_defaults(void);

// The line of a key of a dataset, view or mix, for messages; that of its section if the key is absent there.
uint32_t config_key_line(const struct dataset_config *dataset, const char *key);

// What a message about a line of a dataset, view or mix begins with: "FILE:LINE: ", or "NAME: ", or "" if it stands in
// no file. `bytes` as for sentence_write.
void config_place(const struct dataset_config *dataset, uint32_t line, char *text, size_t bytes);

// The dataset, view or mix of that name, or NULL.
const struct dataset_config *config_find_dataset(const struct config *config, const char *name);

// Another reference, and the end of one; any thread. A configuration never changes.
struct config *config_ref(struct config *config);
// What it is, for people: "dataset", "view" or "mix".
const char *config_kind(const struct dataset_config *dataset);

void config_free(struct config *config);

#endif
