// All files beneath a folder, in several threads: what a dataset without a CSV file consists of.
//
// In order: by the sub-directory at the top, which is the class; then by the path of the directory; then by name, each
// as bytes. Names that begin with a dot are left out.
#ifndef FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_TREE_H
#define FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_TREE_H

#include "daemon/source/folder/folder_roots.h"

struct tree_file {
    uint64_t name; // in the directory's `names`
    uint64_t real; // of a link: its path beneath `root`, there; else `name`
    int64_t written_ns;
    uint32_t root;
    uint32_t bytes;
};

struct tree_folder {
    struct tree_folder *next, *parent;
    char *shown; // path from the dataset's folder; "" is that itself
    char *real;  // path from the root, without links
    uint32_t root;
    uint32_t class_number;
    const char *class_name; // the start of `shown`
    size_t class_length;
    struct stat status; // before it was read
    struct tree_file *files;
    uint64_t file_count, file_room;
    char *names;
    uint64_t names_used, names_room;
};

// To be released: folder_tree_release.
struct folder_tree {
    const struct folder_roots *roots;
    const char *extensions; // "jpg|jpeg"; NULL: any
    bool needs_class;       // files that are in no sub-directory are left out
    struct tree_folder **folders;
    uint64_t folder_count;
    uint32_t class_count;
};

// Fills what begins with `folders`.
int folder_tree_scan(struct folder_tree *tree, struct error *error);
void folder_tree_release(struct folder_tree *tree);

// The file's path from the dataset's folder (shown), or beneath its root.
void tree_file_path(const struct tree_folder *folder, const struct tree_file *file, bool shown,
                    char path[PATH_MAX]);

#endif
