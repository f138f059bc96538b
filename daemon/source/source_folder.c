#include "daemon/source/source_folder.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/source/build/builder_files.h"
#include "daemon/source/folder/folder_list.h"
#include "daemon/source/folder/folder_state.h"
#include "daemon/source/index/index_cache.h"

#define INDEX_VERSION 3u // of what a scan makes of files and fields, and of what is noted with it

static int check_options(struct builder *builder) {
    const struct dataset_config *config = builder->config;
    const char *list = config->extensions;
    builder->field = NULL;
    builder->key = "extensions";
    if (list && config->csv)
        return builder_refuse(builder, -EINVAL, NULL,
                              "found together with csv, wanted one of them: the CSV file lists the files");
    if (list && (!*list || strpbrk(list, " \t/,") || *list == '.' || strstr(list, "|.") ||
                 strstr(list, "||") || *list == '|' || list[strlen(list) - 1] == '|'))
        return builder_refuse(builder, -EINVAL, NULL,
                              "found \"%s\", wanted file extensions without dots, separated by |: jpg|jpeg",
                              list);
    builder->key = "csv_file";
    if (config->csv_file && !config->csv)
        return builder_refuse(builder, -EINVAL, NULL,
                              "found without csv, wanted both: it is a column of that"
                              " file");
    builder->key = "path";
    return 0;
}

static int describe_folder(struct builder *builder) {
    struct folder_fields fields;
    int err = folder_fields_parse(builder, true, &fields);
    return err ? err : check_options(builder);
}

// A dataset at work.
struct opening {
    struct builder *builder;
    struct folder_fields fields;
    struct folder_roots roots;
    struct source_file csv;
    struct folder_tree tree;
    struct folder_table table;
    struct index_cache cache;
    uint64_t samples;
};

static void release(struct opening *opening) {
    folder_roots_close(&opening->roots);
    source_file_release(&opening->csv);
    folder_tree_release(&opening->tree);
    folder_table_release(&opening->table);
    index_cache_close(&opening->cache);
}

// ---- The samples -------------------------------------------------------------------------------------------

static int add_folder(struct opening *opening, const struct tree_folder *folder) {
    char name[PATH_MAX], path[PATH_MAX];
    uint32_t wrong;
    for (uint64_t i = 0; i < folder->file_count; i++) {
        const struct tree_file *file = &folder->files[i];
        tree_file_path(folder, file, true, name);
        tree_file_path(folder, file, false, path);
        const struct folder_sample sample = {.name = name,
                                             .path = path,
                                             .written_ns = file->written_ns,
                                             .root = file->root,
                                             .bytes = file->bytes,
                                             .class_number = folder->class_number,
                                             .class_name = folder->class_name,
                                             .class_length = folder->class_length};
        if (folder_table_add(&opening->table, &sample, &wrong))
            return builder_out_of_memory(opening->builder);
    }
    return 0;
}

// The type of a field with the number of the class.
static int check_classes(struct opening *opening) {
    for (uint32_t i = 0; i < opening->fields.count; i++) {
        const struct folder_field *field = &opening->fields.fields[i];
        if (field->value.kind != VALUE_NUMBER || field->source != FOLDER_CLASS)
            continue;
        uint64_t most =
            (1ull << (8 * min_u64(dtype_bytes(field->value.dtype), 4) - 1)) - 1; // if it is signed
        if (field->value.dtype == DTYPE_U8 || field->value.dtype == DTYPE_U16)
            most = most * 2 + 1;
        if (opening->tree.class_count <= most + 1)
            continue;
        opening->builder->field = &opening->builder->config->fields[i];
        return builder_refuse(opening->builder, -ERANGE, NULL,
                              "found %" PRIu32
                              " classes, wanted a type that has room for their numbers, such as"
                              " i64",
                              opening->tree.class_count);
    }
    return 0;
}

static int scan_tree(struct opening *opening) {
    struct builder *builder = opening->builder;
    struct folder_tree *tree = &opening->tree;
    struct error error = {0};
    tree->roots = &opening->roots;
    tree->extensions = builder->config->extensions;
    tree->needs_class = opening->fields.uses_class;
    int err = folder_tree_scan(tree, &error);
    if (err)
        return builder_refuse(builder, err, NULL, "%s", error.text);
    err = check_classes(opening);
    for (uint64_t i = 0; i < tree->folder_count && !err; i++)
        err = add_folder(opening, tree->folders[i]);
    if (err || opening->table.rows.count)
        return err;
    return builder_refuse(
        builder, -ENODATA, opening->roots.roots[0].path, "found no files%s%s%s",
        tree->extensions ? " with extension " : "", tree->extensions ? tree->extensions : "",
        tree->needs_class ? " in sub-directories, wanted a sub-directory with files for each class; without "
                            "classes, declare the fields: field.image = bytes @ file"
                          : ", wanted some");
}

static int scan(struct opening *opening) {
    opening->table.fields = &opening->fields;
    int err = opening->csv.fd >= 0
                  ? folder_list_read(opening->builder, &opening->roots, &opening->csv, &opening->table)
                  : scan_tree(opening);
    if (err)
        return err;
    opening->samples = opening->table.rows.count;
    opening->builder->dataset->files_written = opening->table.written;
    err = folder_table_finish(&opening->table, opening->builder);
    return err ? err : incomplete_check(opening->builder, &opening->csv, opening->samples);
}

// ---- The index ---------------------------------------------------------------------------------------------

static void add_text(struct index_key *key, const char *text) {
    *key = index_key_add(*key, text ? text : "", text ? strlen(text) + 1 : 0);
}

static int make_key(struct opening *opening, struct index_key *key) {
    const struct dataset_config *config = opening->builder->config;
    *key = index_key_add((struct index_key){INDEX_VERSION, 0}, "folder", sizeof "folder");
    for (uint32_t i = 0; i < opening->fields.count; i++) {
        const struct folder_field *field = &opening->fields.fields[i];
        const uint32_t type[] = {field->value.kind, field->source, field->value.dtype};
        *key = index_key_add(*key, type, sizeof type);
        add_text(key, field->column);
    }
    add_text(key, config->extensions);
    add_text(key, config->csv_file);
    for (uint32_t i = 0; i < opening->roots.count; i++) {
        add_text(key, opening->roots.roots[i].path);
        add_text(key, opening->roots.roots[i].real);
    }
    if (opening->csv.fd < 0)
        return 0;
    struct index_file_state state;
    int err = index_file_state(&opening->csv, &state);
    if (err)
        return builder_refuse(opening->builder, err, opening->csv.path, "%s", strerror(-err));
    *key = index_key_add_file(*key, &opening->csv, &state);
    return 0;
}

// 1: the dataset has the kept index.
static int load(struct opening *opening) {
    struct index_field columns[RING_MAX_FIELDS];
    struct dataset *dataset = opening->builder->dataset;
    for (uint32_t i = 0; i < opening->fields.count; i++)
        columns[i] = opening->fields.fields[i].value.index;
    int known = index_cache_load(&opening->cache, columns, opening->fields.count, NULL, &opening->samples, 1);
    if (known <= 0 || (folder_index_fits(dataset, opening->samples, opening->roots.count) &&
                       folder_state_holds(&opening->cache, dataset, opening->samples, &opening->roots)))
        return known;
    builder_index_discard(opening->builder);
    int waited = index_cache_claim(&opening->cache);
    return waited < 0 ? waited : 0;
}

static void keep(struct opening *opening, const struct timespec *start) {
    struct index_cache *cache = &opening->cache;
    if (!cache->folder)
        return;
    if (opening->builder->dataset->incomplete)
        snprintf(cache->problem, sizeof cache->problem, "the files of incomplete samples may come yet");
    else if (folder_state_is_fresh(&opening->tree, start))
        snprintf(cache->problem, sizeof cache->problem, "the folder was changed at the same time");
    else if (folder_state_note(cache, opening->builder->dataset, opening->samples, &opening->roots,
                               &opening->tree))
        snprintf(cache->problem, sizeof cache->problem, "out of memory");
    else
        index_cache_store(cache, &opening->samples, 1);
}

static int make_index(struct opening *opening) {
    struct dataset *dataset = opening->builder->dataset;
    const struct index_cache *cache = &opening->cache;
    struct timespec start;
    uint64_t started_ns = monotonic_ns();
    clock_gettime(CLOCK_REALTIME_COARSE, &start);
    int known = load(opening);
    int err = known ? (known < 0 ? known : 0) : scan(opening);
    if (err)
        return err;
    double seconds = (double)(monotonic_ns() - started_ns) / NS_PER_S;
    if (!known)
        keep(opening, &start);
    index_cache_describe(cache, known, seconds, dataset);
    return 0;
}

// ---- The dataset -------------------------------------------------------------------------------------------

// The samples count as those of `path`, wherever links lead to.
static int add_roots(struct opening *opening) {
    for (uint32_t i = 0; i < opening->roots.count; i++) {
        struct folder_root *root = &opening->roots.roots[i];
        struct source_file file = {.fd = root->fd, .path = root->path};
        root->fd = -1;
        root->path = NULL;
        int err = builder_add_file(opening->builder, &file, 0, i == 0 ? opening->samples : 0);
        if (err)
            return err;
    }
    return 0;
}

static int open_csv(struct opening *opening) {
    struct builder *builder = opening->builder;
    if (!builder->config->csv)
        return 0;
    AUTO_FREE char *path = builder_absolute(builder, builder->config->csv);
    if (!path)
        return builder_out_of_memory(builder);
    builder->key = "csv";
    int err = builder_open(builder, path, &opening->csv);
    if (!err)
        builder->key = "path";
    return err;
}

static int open_folder(struct builder *builder) {
    struct opening opening CLEANUP(release) = {.builder = builder, .csv = SOURCE_FILE_NONE};
    struct index_key key = {0};
    int err = folder_fields_parse(builder, false, &opening.fields);
    if (!err)
        err = check_options(builder);
    if (!err)
        err = folder_roots_open(builder, &opening.roots);
    builder->dataset->layout->folder_count = opening.roots.count;
    if (!err)
        err = open_csv(&opening);
    if (!err)
        err = builder_add_stream(builder, 1);
    if (!err)
        err = make_key(&opening, &key);
    if (!err)
        err = index_cache_open(&opening.cache, builder, key);
    if (!err)
        err = make_index(&opening);
    return err ? err : add_roots(&opening);
}

const struct source_format source_folder = {
    .name = "folder",
    .summary = "files in folders, one per sample",
    .describe = describe_folder,
    .open = open_folder,
};
