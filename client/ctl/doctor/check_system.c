#include "client/ctl/doctor/check_system.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"

void check_uring(const struct machine *machine, struct findings *findings) {
    static const char subject[] = "io_uring", then[] = "loaders use mapped or pread instead";
    uint64_t disabled = 0;
    machine_number(machine, &disabled, "/proc/sys/kernel/io_uring_disabled");
    switch (machine->uring_error) {
    case 0:
        // 1: for members of io_uring_group only. The daemon may not be one.
        if (disabled == 1)
            findings_add(findings, FINDING_WARNING, subject, "sudo sysctl kernel.io_uring_disabled=0",
                         "only for root and one group (kernel.io_uring_disabled is 1): if the daemon is "
                         "neither, %s",
                         then);
        else
            findings_add(findings, FINDING_OK, subject, NULL, "it can be used");
        return;
    case ENOSYS:
        findings_add(findings, FINDING_WARNING, subject, NULL, "this kernel does not have it: %s", then);
        return;
    case EPERM:
    case EACCES:
        if (disabled)
            findings_add(findings, FINDING_WARNING, subject, "sudo sysctl kernel.io_uring_disabled=0",
                         "it is forbidden (kernel.io_uring_disabled is %" PRIu64 "): %s", disabled, then);
        else
            findings_add(findings, FINDING_WARNING, subject,
                         "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile "
                         "(docker run --security-opt seccomp=PROFILE)",
                         "a filter of system calls forbids it, as is usual in containers: %s", then);
        return;
    case ENOMEM:
        findings_add(findings, FINDING_WARNING, subject, "sudo prlimit --pid $$ --memlock=unlimited",
                     "the limit on locked memory is too low for it: %s", then);
        return;
    default:
        findings_add(findings, FINDING_WARNING, subject, NULL, "it does not work (%s): %s",
                     strerror(machine->uring_error), then);
    }
}

static uint32_t count_list(const char *list) {
    uint32_t count = 0;
    while (*list >= '0' && *list <= '9') {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        count += (uint32_t)(last - first + 1);
        list = end + (*end == ',');
    }
    return count;
}

// The least "200000 100000" of cpu.max from a group upwards, as processors; 0: no limit.
static double find_quota(const struct machine *machine) {
    char membership[4096], path[1024], text[128];
    double least = 0;
    if (!machine_read_process(machine, membership, sizeof membership, "cgroup") ||
        !machine_line(membership, "0:", path, sizeof path))
        return 0;
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        *end = '\0';
        if (!machine_read(machine, text, sizeof text, "/sys/fs/cgroup%s/cpu.max", path))
            continue;
        char *rest;
        double quota = strtod(text, &rest), period = strtod(rest, NULL); // "max" is 0
        if (quota > 0 && period > 0 && (least == 0 || quota / period < least))
            least = quota / period;
    }
    return least;
}

void check_quota(const struct machine *machine, struct findings *findings) {
    char status[8192], list[1024] = "", online[1024] = "";
    if (machine_read_process(machine, status, sizeof status, "status"))
        machine_line(status, "Cpus_allowed_list", list, sizeof list);
    machine_read(machine, online, sizeof online, "/sys/devices/system/cpu/online");
    uint32_t all = count_list(online), usable = count_list(list);
    double quota = find_quota(machine);
    if (all && usable > all)
        usable = all; // the list of a process may name processors that there are not
    if (quota > 0 && quota < (double)usable)
        findings_add(
            findings, FINDING_WARNING, "processors",
            "sudo systemctl set-property feedd.service CPUQuota= (in a container: docker run --cpus)",
            "the cgroup grants the time of %.1f of %u processors: loaders pause when it is used up", quota,
            usable);
    else if (all && usable && usable < all)
        findings_add(findings, FINDING_OK, "processors", NULL, "%u of %u can be used", usable, all);
    else
        findings_add(findings, FINDING_OK, "processors", NULL, "all %u can be used", all);
}

struct governors {
    const struct machine *machine;
    uint32_t count, slow, capped;
    uint64_t most_khz; // of all limits that are lower than the processor's
};

static void take_processor(const char *name, void *context) {
    struct governors *seen = context;
    char governor[64], driver[64] = "";
    uint64_t limit, most;
    if (strncmp(name, "cpu", 3) != 0 || name[3] < '0' || name[3] > '9' ||
        !machine_read(seen->machine, governor, sizeof governor,
                      "/sys/devices/system/cpu/%s/cpufreq/scaling_governor", name))
        return;
    machine_read(seen->machine, driver, sizeof driver, "/sys/devices/system/cpu/%s/cpufreq/scaling_driver",
                 name);
    seen->count++;
    // With drivers that choose by themselves, powersave means balanced.
    bool chooses = strcmp(driver, "intel_pstate") == 0 || strcmp(driver, "amd-pstate-epp") == 0;
    seen->slow += strcmp(governor, "powersave") == 0 && !chooses;
    if (machine_number(seen->machine, &limit, "/sys/devices/system/cpu/%s/cpufreq/scaling_max_freq", name) &&
        machine_number(seen->machine, &most, "/sys/devices/system/cpu/%s/cpufreq/cpuinfo_max_freq", name) &&
        limit < most / 10 * 9) {
        seen->capped++;
        seen->most_khz = max_u64(seen->most_khz, limit);
    }
}

void check_cpu_clock(const struct machine *machine, struct findings *findings) {
    static const char subject[] = "CPU clock";
    struct governors seen = {.machine = machine};
    machine_each(machine, "/sys/devices/system/cpu", take_processor, &seen);
    if (!seen.count)
        findings_add(findings, FINDING_OK, subject, NULL,
                     "this kernel does not control it, as is usual in a virtual machine");
    else if (seen.slow)
        findings_add(findings, FINDING_WARNING, subject, "sudo cpupower frequency-set --governor performance",
                     "%u of %u processors stay at the lowest clock (governor powersave)", seen.slow,
                     seen.count);
    else if (seen.capped)
        findings_add(findings, FINDING_WARNING, subject, "sudo cpupower frequency-set --max 9GHz",
                     "%u of %u processors are limited to %.1f GHz, less than they can reach", seen.capped,
                     seen.count, (double)seen.most_khz / 1e6);
    else
        findings_add(findings, FINDING_OK, subject, NULL, "%u processors, not limited", seen.count);
}

void check_clock_source(const struct machine *machine, struct findings *findings) {
    static const char folder[] = "/sys/devices/system/clocksource/clocksource0";
    // Those that are read without a system call.
    static const char *const fast[] = {
        "tsc",      "kvm-clock",        "hyperv_clocksource_tsc_page", "arch_sys_counter",
        "timebase", "riscv_clocksource"};
    char name[64], others[256] = "", remedy[256] = "";
    if (!machine_read(machine, name, sizeof name, "%s/current_clocksource", folder)) {
        findings_add(findings, FINDING_OK, "clock source", NULL, "this kernel does not say");
        return;
    }
    for (size_t i = 0; i < COUNT_OF(fast); i++)
        if (strcmp(name, fast[i]) == 0) {
            findings_add(findings, FINDING_OK, "clock source", NULL, "%s, which is quick to read", name);
            return;
        }
    machine_read(machine, others, sizeof others, "%s/available_clocksource", folder);
    if (strstr(others, "tsc"))
        snprintf(remedy, sizeof remedy, "echo tsc | sudo tee %s/current_clocksource", folder);
    findings_add(findings, FINDING_WARNING, "clock source", remedy,
                 "%s, which takes a system call to read: each reading costs a microsecond or more", name);
}
