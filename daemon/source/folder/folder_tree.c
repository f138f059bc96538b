#include "daemon/source/folder/folder_tree.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "daemon/source/build/builder_index.h"
#include "daemon/source/folder/folder_read.h"
#include "daemon/source/index/scan_threads.h"

// Links between directories can make very many of a few.
#define MOST_FOLDERS (1u << 20)

// Shared by the threads; `lock` guards what follows it.
struct crew {
    const struct folder_tree *tree;
    pthread_mutex_t lock;
    pthread_cond_t more;         // in `waiting`, or nothing more will be
    struct tree_folder *waiting; // to be read
    struct tree_folder *done;
    uint64_t done_count, file_count;
    uint32_t busy; // threads that may find more
    struct error error;
};

static void free_folder(struct tree_folder *folder) {
    free(folder->shown);
    free(folder->real);
    free(folder->files);
    free(folder->names);
    free(folder);
}

void folder_tree_release(struct folder_tree *tree) {
    for (uint64_t i = 0; i < tree->folder_count; i++)
        free_folder(tree->folders[i]);
    free(tree->folders);
    tree->folders = NULL;
    tree->folder_count = 0;
}

// As far as there is room. Returns where more can be appended.
static char *append(char *to, const char *end, const char *text) {
    size_t bytes = strnlen(text, (size_t)(end - to));
    memcpy(to, text, bytes);
    return to + bytes;
}

// Called twice for each file: too often for snprintf.
void tree_file_path(const struct tree_folder *folder, const struct tree_file *file, bool shown,
                    char path[PATH_MAX]) {
    const char *parent = shown ? folder->shown : folder->real;
    const char *name = folder->names + (shown ? file->name : file->real);
    bool whole = (!shown && file->real != file->name) || !*parent;
    const char *end = path + PATH_MAX - 1;
    char *at = path;
    if (!whole)
        at = append(append(at, end, parent), end, "/");
    *append(at, end, name) = '\0';
}

// ---- Threads -----------------------------------------------------------------------------------------------

static struct tree_folder *take(struct crew *crew) {
    pthread_mutex_lock(&crew->lock);
    while (!crew->waiting && crew->busy)
        pthread_cond_wait(&crew->more, &crew->lock);
    struct tree_folder *folder = crew->waiting;
    if (folder) {
        crew->waiting = folder->next;
        crew->busy++;
    }
    pthread_mutex_unlock(&crew->lock);
    return folder;
}

// With the lock held.
static void check_bounds(struct crew *crew) {
    if (crew->error.code)
        return;
    if (crew->done_count > MOST_FOLDERS)
        error_set(&crew->error, -EFBIG, "found too many directories, wanted at most %u", MOST_FOLDERS);
    else if (crew->file_count > INDEX_MAX_SAMPLES)
        error_set(&crew->error, -EFBIG, "found too many files, wanted at most %u", INDEX_MAX_SAMPLES);
}

static void give(struct crew *crew, struct tree_folder *folder, struct tree_folder *found,
                 const struct error *error) {
    pthread_mutex_lock(&crew->lock);
    folder->next = crew->done;
    crew->done = folder;
    crew->done_count++;
    crew->file_count += folder->file_count;
    for (struct tree_folder *next; found; found = next) {
        next = found->next;
        found->next = crew->waiting;
        crew->waiting = found;
    }
    if (error->code && !crew->error.code)
        crew->error = *error;
    check_bounds(crew);
    for (struct tree_folder *next; crew->error.code && crew->waiting; crew->waiting = next) {
        next = crew->waiting->next;
        free_folder(crew->waiting);
    }
    crew->busy--;
    pthread_cond_broadcast(&crew->more);
    pthread_mutex_unlock(&crew->lock);
}

static void *work(void *argument) {
    struct crew *crew = argument;
    struct tree_folder *folder;
    while ((folder = take(crew))) {
        struct error error = {0};
        struct tree_folder *found = NULL;
        folder_read(crew->tree, folder, &found, &error);
        give(crew, folder, found, &error);
    }
    return NULL;
}

// ---- The whole ---------------------------------------------------------------------------------------------

static int compare_bytes(const char *left, size_t left_length, const char *right, size_t right_length) {
    int order = memcmp(left, right, left_length < right_length ? left_length : right_length);
    return order ? order : (left_length > right_length) - (left_length < right_length);
}

static int by_class_and_path(const void *left, const void *right) {
    const struct tree_folder *a = *(struct tree_folder *const *)left;
    const struct tree_folder *b = *(struct tree_folder *const *)right;
    int order = compare_bytes(a->class_name, a->class_length, b->class_name, b->class_length);
    return order ? order : strcmp(a->shown, b->shown);
}

// Every directory at the top is a class, whether it has files or not.
static void number_classes(struct folder_tree *tree) {
    const struct tree_folder *last = NULL;
    for (uint64_t i = 0; i < tree->folder_count; i++) {
        struct tree_folder *folder = tree->folders[i];
        if (!folder->class_length)
            continue;
        if (!last ||
            compare_bytes(last->class_name, last->class_length, folder->class_name, folder->class_length))
            tree->class_count++;
        folder->class_number = tree->class_count - 1;
        last = folder;
    }
}

static int put_in_order(struct folder_tree *tree, struct crew *crew, struct error *error) {
    tree->folders = calloc(crew->done_count, sizeof(void *));
    for (struct tree_folder *folder = crew->done, *next; folder; folder = next) {
        next = folder->next;
        if (tree->folders)
            tree->folders[tree->folder_count++] = folder;
        else
            free_folder(folder);
    }
    if (!tree->folders)
        return error_set(error, -ENOMEM, "out of memory");
    qsort(tree->folders, tree->folder_count, sizeof(void *), by_class_and_path);
    number_classes(tree);
    return 0;
}

int folder_tree_scan(struct folder_tree *tree, struct error *error) {
    struct crew crew = {.tree = tree};
    struct tree_folder *top = calloc(1, sizeof *top);
    if (!top || !(top->shown = strdup("")) || !(top->real = strdup(""))) {
        if (top)
            free_folder(top);
        return error_set(error, -ENOMEM, "out of memory");
    }
    top->class_name = top->shown;
    crew.waiting = top;
    pthread_mutex_init(&crew.lock, NULL);
    pthread_cond_init(&crew.more, NULL);
    scan_in_threads(work, &crew, SCAN_MAX_THREADS);
    pthread_cond_destroy(&crew.more);
    pthread_mutex_destroy(&crew.lock);
    int err = put_in_order(tree, &crew, error);
    if (crew.error.code) {
        *error = crew.error;
        err = crew.error.code;
    }
    return err;
}
