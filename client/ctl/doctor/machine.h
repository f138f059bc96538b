// What the checks of feedctl doctor look at: files of the kernel's below a root, and what no file says.
#ifndef FEEDD_CLIENT_CTL_DOCTOR_MACHINE_H
#define FEEDD_CLIENT_CTL_DOCTOR_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct machine {
    const char *root;     // "": /sys, /proc and /dev themselves; tests have trees of their own
    uint64_t pid;         // of the daemon, whose limits count; 0: there is none, and those of this process do
    uint64_t ring_memory; // the daemon's setting; 0: there is none
    int uring_error;      // of io_uring_setup(2): a positive errno, or 0
    uint64_t shm_bytes, shm_free; // of /dev/shm; 0 bytes: it cannot be looked at
    bool has_libcuda;
};

// Fills in what no file says, of this machine.
void machine_look(struct machine *machine);

// The text of a file below the root, which the remaining arguments name, without the line's end. False: there is none.
bool machine_read(const struct machine *machine, char *text, size_t bytes, const char *path, ...)
    __attribute__((format(printf, 4, 5)));
// The number that a file begins with. False: there is none.
bool machine_number(const struct machine *machine, uint64_t *number, const char *path, ...)
    __attribute__((format(printf, 3, 4)));
bool machine_exists(const struct machine *machine, const char *path);

// /proc/NAME of the process whose limits count.
bool machine_read_process(const struct machine *machine, char *text, size_t bytes, const char *name);

// What follows `name` in the line of `text` that begins so, cut at the end of the line. False: there is no such line.
bool machine_line(const char *text, const char *name, char *value, size_t bytes);

// Whether two of the kernel's lists, such as "0-3,8", have a number in common.
bool machine_lists_meet(const char *left, const char *right);

// Calls `take` for the names in a folder below the root, in order.
void machine_each(const struct machine *machine, const char *folder,
                  void (*take)(const char *name, void *context), void *context);

#endif
