#include "client/ctl/doctor/check_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sizes.h"
#include "client/ctl/text.h"
#include "shm/memory_limit.h"

#define LARGEST_OWN_RING (128 * MIB) // that the daemon chooses by itself

void check_memlock(const struct machine *machine, struct findings *findings) {
    char text[4096], value[128], limit[CTL_TEXT], wanted[CTL_TEXT], remedy[256];
    const char *whose = machine->pid ? "the daemon" : "this shell";
    if (!machine_read_process(machine, text, sizeof text, "limits") ||
        !machine_line(text, "Max locked memory", value, sizeof value)) {
        findings_add(findings, FINDING_WARNING, "locked memory", NULL, "the limit of %s is not known", whose);
        return;
    }
    if (strncmp(value, "unlimited", strlen("unlimited")) == 0) {
        findings_add(findings, FINDING_OK, "locked memory", NULL, "no limit for %s", whose);
        return;
    }
    uint64_t bytes = strtoull(value, NULL, 10), rings = machine->ring_memory;
    rings = rings ? rings : LARGEST_OWN_RING;
    ctl_format_bytes(bytes, limit);
    ctl_format_bytes(rings, wanted);
    if (bytes >= rings) {
        findings_add(findings, FINDING_OK, "locked memory", NULL, "%s may lock %s; rings take at most %s",
                     whose, limit, wanted);
        return;
    }
    if (machine->pid)
        snprintf(remedy, sizeof remedy,
                 "sudo prlimit --pid %" PRIu64
                 " --memlock=unlimited (permanently: LimitMEMLOCK=infinity in its unit)",
                 machine->pid);
    else
        snprintf(remedy, sizeof remedy,
                 "sudo prlimit --pid $$ --memlock=unlimited (in a container: docker run "
                 "--ulimit memlock=-1)");
    findings_add(findings, FINDING_WARNING, "locked memory", remedy,
                 "%s may lock %s, and rings may take %s: io_uring cannot register larger ones, which makes "
                 "direct reads slower",
                 whose, limit, wanted);
}

void check_shm(const struct machine *machine, struct findings *findings) {
    static const char remedy[] =
        "sudo mount -o remount,size=50% /dev/shm (in a container: docker run --shm-size=8g)";
    char size[CTL_TEXT], room[CTL_TEXT], rings[CTL_TEXT];
    if (!machine->shm_bytes) {
        findings_add(findings, FINDING_PROBLEM, "/dev/shm", "sudo mount -t tmpfs tmpfs /dev/shm",
                     "it does not exist, and rings are allocated in it");
        return;
    }
    ctl_format_bytes(machine->shm_bytes, size);
    ctl_format_bytes(machine->shm_free, room);
    if (machine->ring_memory > machine->shm_bytes) {
        ctl_format_bytes(machine->ring_memory, rings);
        findings_add(findings, FINDING_WARNING, "/dev/shm", remedy,
                     "it has %s, less than ring_memory, %s: feeds fail when it is full", size, rings);
    } else if (machine->shm_bytes < LARGEST_OWN_RING) {
        findings_add(findings, FINDING_PROBLEM, "/dev/shm", remedy,
                     "it has %s: too little for the rings of a few feeds", size);
    } else if (machine->shm_free < machine->shm_bytes / 10) {
        findings_add(findings, FINDING_WARNING, "/dev/shm", "ls -lS /dev/shm",
                     "%s of %s are free: something else uses the rest", room, size);
    } else {
        findings_add(findings, FINDING_OK, "/dev/shm", NULL, "%s of %s are free", room, size);
    }
}

static struct memory_limit read_group(const struct machine *machine) {
    char membership[4096], root[1024];
    if (!machine_read_process(machine, membership, sizeof membership, "cgroup"))
        return (struct memory_limit){.free_bytes = UINT64_MAX};
    snprintf(root, sizeof root, "%s/sys/fs/cgroup", machine->root);
    return memory_limit_of(membership, root);
}

void check_group(const struct machine *machine, struct findings *findings) {
    struct memory_limit limit = read_group(machine);
    char bytes[CTL_TEXT], left[CTL_TEXT], rings[CTL_TEXT], remedy[256];
    uint64_t wanted = machine->ring_memory ? machine->ring_memory : LARGEST_OWN_RING;
    if (limit.free_bytes == UINT64_MAX) {
        findings_add(findings, FINDING_OK, "memory of cgroup", NULL, "no limit");
        return;
    }
    ctl_format_bytes(limit.limit_bytes, bytes);
    ctl_format_bytes(limit.free_bytes, left);
    ctl_format_bytes(wanted, rings);
    if (limit.free_bytes >= wanted) {
        findings_add(findings, FINDING_OK, "memory of cgroup", NULL, "%s of %s are free", left, bytes);
        return;
    }
    snprintf(remedy, sizeof remedy, "%s",
             machine->pid ? "sudo systemctl set-property feedd.service MemoryMax=infinity, or a smaller "
                            "ring_memory in feedd.conf"
                          : "run it in a group with more memory (docker run --memory), or with a smaller "
                            "ring_memory in feedd.conf");
    findings_add(findings, FINDING_WARNING, "memory of cgroup", remedy,
                 "%s of %s are free, and rings may take %s: feeds may be refused, or processes killed", left,
                 bytes, rings);
}

// "always within_size [advise] never": the word in brackets.
static void chosen_word(const char *text, char *word, size_t bytes) {
    const char *begin = strchr(text, '['), *end = begin ? strchr(begin, ']') : NULL;
    snprintf(word, bytes, "%.*s", end ? (int)(end - begin - 1) : 0, end ? begin + 1 : "");
}

// Of the file system that rings are made in, as the daemon has it; the one that was mounted last is on top.
static void find_mount_option(const struct machine *machine, char *word, size_t bytes) {
    char text[16384];
    snprintf(word, bytes, "never");
    if (!machine_read_process(machine, text, sizeof text, "mounts"))
        return;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        char folder[64], options[256];
        if (sscanf(line, "%*s %63s %*s %255s", folder, options) != 2 || strcmp(folder, "/dev/shm") != 0)
            continue;
        const char *huge = strstr(options, "huge=");
        huge = huge ? huge + strlen("huge=") : "never";
        snprintf(word, bytes, "%.*s", (int)strcspn(huge, ","), huge);
    }
}

void check_huge_pages(const struct machine *machine, struct findings *findings) {
    static const char file[] = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    char text[256], word[32];
    if (!machine_read(machine, text, sizeof text, "%s", file)) {
        findings_add(findings, FINDING_WARNING, "huge pages", NULL,
                     "this kernel has none for shared memory: allocating and registering rings takes longer");
        return;
    }
    chosen_word(text, word, sizeof word);
    if (strcmp(word, "deny") == 0) {
        findings_add(
            findings, FINDING_WARNING, "huge pages",
            "echo never | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled",
            "not for shared memory (shmem_enabled is deny): allocating and registering rings takes longer");
        return;
    }
    if (strcmp(word, "force") != 0)
        find_mount_option(machine, word, sizeof word);
    if (strcmp(word, "never") == 0)
        findings_add(findings, FINDING_WARNING, "huge pages",
                     "sudo mount -o remount,huge=advise /dev/shm (feedd.service does so when it starts)",
                     "/dev/shm is mounted without them: allocating and registering rings takes longer");
    else
        findings_add(findings, FINDING_OK, "huge pages", NULL, "for rings (huge=%s)", word);
}

uint64_t machine_cache_room(const struct machine *machine) {
    char text[4096], value[64];
    if (!machine_read(machine, text, sizeof text, "/proc/meminfo") ||
        !machine_line(text, "MemAvailable", value, sizeof value))
        return 0;
    return min_u64(strtoull(value, NULL, 10) * 1024, read_group(machine).free_bytes);
}
