#include "client/ctl/doctor/machine.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/io_uring.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/scope.h"

#define PATH_BYTES 1024

static int probe_uring(void) {
    struct io_uring_params parameters = {0};
    AUTO_CLOSE int fd = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    return fd < 0 ? errno : 0;
}

static bool probe_libcuda(void) {
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library)
        dlclose(library);
    return library != NULL;
}

void machine_look(struct machine *machine) {
    struct statvfs shm;
    machine->uring_error = probe_uring();
    machine->has_libcuda = probe_libcuda();
    if (statvfs("/dev/shm", &shm) < 0)
        return;
    machine->shm_bytes = (uint64_t)shm.f_blocks * shm.f_frsize;
    machine->shm_free = (uint64_t)shm.f_bavail * shm.f_frsize;
}

static bool read_path(const char *path, char *text, size_t bytes) {
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t count = fd < 0 ? -1 : read(fd, text, bytes - 1); // files of the kernel's, which come whole
    if (count < 0)
        return false;
    while (count > 0 && text[count - 1] == '\n')
        count--;
    text[count] = '\0';
    return true;
}

static bool make_path(const struct machine *machine, char *path, const char *format, va_list list) {
    int used = snprintf(path, PATH_BYTES, "%s", machine->root);
    if (used < 0 || used >= PATH_BYTES)
        return false;
    int more = vsnprintf(path + used, PATH_BYTES - (size_t)used, format, list);
    return more >= 0 && more < PATH_BYTES - used;
}

bool machine_read(const struct machine *machine, char *text, size_t bytes, const char *path, ...) {
    char whole[PATH_BYTES];
    va_list list;
    va_start(list, path);
    bool fits = make_path(machine, whole, path, list);
    va_end(list);
    return fits && read_path(whole, text, bytes);
}

bool machine_number(const struct machine *machine, uint64_t *number, const char *path, ...) {
    char whole[PATH_BYTES], text[64], *end;
    va_list list;
    va_start(list, path);
    bool fits = make_path(machine, whole, path, list);
    va_end(list);
    if (!fits || !read_path(whole, text, sizeof text) || *text < '0' || *text > '9')
        return false;
    *number = strtoull(text, &end, 10);
    return true;
}

bool machine_exists(const struct machine *machine, const char *path) {
    char whole[PATH_BYTES];
    int used = snprintf(whole, sizeof whole, "%s%s", machine->root, path);
    return used >= 0 && used < PATH_BYTES && access(whole, F_OK) == 0;
}

bool machine_read_process(const struct machine *machine, char *text, size_t bytes, const char *name) {
    if (!machine->pid)
        return machine_read(machine, text, bytes, "/proc/self/%s", name);
    return machine_read(machine, text, bytes, "/proc/%" PRIu64 "/%s", machine->pid, name);
}

bool machine_line(const char *text, const char *name, char *value, size_t bytes) {
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        line += strlen(name);
        line += strspn(line, ": \t");
        snprintf(value, bytes, "%.*s", (int)strcspn(line, "\n"), line);
        return true;
    }
    return false;
}

// The next range of a list; false at its end, or at what is not a list.
static bool next_range(const char **list, unsigned long *first, unsigned long *last) {
    char *end;
    if (**list < '0' || **list > '9')
        return false;
    *first = *last = strtoul(*list, &end, 10);
    if (*end == '-')
        *last = strtoul(end + 1, &end, 10);
    *list = end + (*end == ',');
    return true;
}

bool machine_lists_meet(const char *left, const char *right) {
    unsigned long first, last, from, to;
    while (next_range(&left, &first, &last))
        for (const char *rest = right; next_range(&rest, &from, &to);)
            if (first <= to && from <= last)
                return true;
    return false;
}

static int visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

void machine_each(const struct machine *machine, const char *folder,
                  void (*take)(const char *name, void *context), void *context) {
    char path[PATH_BYTES];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s%s", machine->root, folder);
    int count = scandir(path, &entries, visible, versionsort);
    for (int i = 0; i < count; i++) {
        take(entries[i]->d_name, context);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}
