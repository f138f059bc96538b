// feedctl doctor: every answer of every check, from made-up trees of /proc, /sys and /dev.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "client/ctl/doctor/check_data.h"
#include "client/ctl/doctor/check_gpu.h"
#include "client/ctl/doctor/check_memory.h"
#include "client/ctl/doctor/check_system.h"

#define GIB (1024 * MIB)
#define GPU "/sys/bus/pci/devices/0000:17:00.0"
#define CPU "/sys/devices/system/cpu"

static char root[] = "/tmp/feedd-doctor-XXXXXX";
static struct machine machine;
static struct findings findings;

static void put(const char *path, const char *text) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = strchr(whole + sizeof root, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", text);
    fclose(file);
}

static void take_away(const char *path) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    assert_int_equal(unlink(whole), 0);
}

static void put_gpu(void) {
    put(GPU "/vendor", "0x10de");
    put(GPU "/class", "0x030200");
    put(GPU "/current_link_speed", "32.0 GT/s PCIe");
    put(GPU "/max_link_speed", "32.0 GT/s PCIe");
    put(GPU "/current_link_width", "16");
    put(GPU "/max_link_width", "16");
    put(GPU "/numa_node", "1");
    put("/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version: 12");
    put("/dev/nvidiactl", "");
    put("/dev/nvidia-uvm", "");
}

#define SHMEM_ENABLED "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
#define MOUNTS(options)                                                                                      \
    "/dev/vda1 / ext4 rw,relatime 0 0\ntmpfs /dev/shm tmpfs " options                                        \
    " 0 0\ntmpfs /run tmpfs rw,huge=never 0 0\n"

// A server with two nodes and a GPU, at which nothing is wrong.
static int set_up(void **state) {
    (void)state;
    strcpy(root, "/tmp/feedd-doctor-XXXXXX");
    if (!mkdtemp(root))
        return -1;
    machine = (struct machine){.root = root,
                               .pid = 77,
                               .ring_memory = 4 * GIB,
                               .shm_bytes = 64 * GIB,
                               .shm_free = 60 * GIB,
                               .has_libcuda = true};
    findings = (struct findings){0};
    put("/proc/sys/kernel/io_uring_disabled", "0");
    put("/proc/77/limits",
        "Limit  Soft Limit\nMax locked memory         unlimited            unlimited   bytes");
    put("/proc/77/cgroup", "0::/system.slice/feedd.service");
    put("/proc/77/status", "Name:\tfeedd\nCpus_allowed_list:\t0-63\n");
    put("/proc/77/mounts", MOUNTS("rw,nosuid,nodev,inode64,huge=advise"));
    put("/proc/meminfo", "MemTotal:  131072000 kB\nMemAvailable:   104857600 kB");
    put(SHMEM_ENABLED, "always within_size advise [never] deny force");
    put("/sys/devices/system/node/node0/cpulist", "0-31");
    put("/sys/devices/system/node/node1/cpulist", "32-63");
    put(CPU "/online", "0-63");
    put(CPU "/cpu0/cpufreq/scaling_governor", "performance");
    put(CPU "/cpu0/cpufreq/scaling_driver", "acpi-cpufreq");
    put(CPU "/cpu0/cpufreq/scaling_max_freq", "3800000");
    put(CPU "/cpu0/cpufreq/cpuinfo_max_freq", "3800000");
    put(CPU "/cpufreq/boost", "1");
    put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc");
    put("/sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm");
    put("/sys/bus/pci/devices/0000:00:1f.0/vendor", "0x8086");
    put("/sys/bus/pci/devices/0000:00:1f.0/class", "0x060100");
    put_gpu();
    return 0;
}

static int tear_down(void **state) {
    char command[64];
    (void)state;
    findings_free(&findings);
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command); // NOLINT(cert-env33-c): a folder of the test's own
}

static void look(void) {
    findings_free(&findings);
    check_uring(&machine, &findings);
    check_memlock(&machine, &findings);
    check_shm(&machine, &findings);
    check_group(&machine, &findings);
    check_huge_pages(&machine, &findings);
    check_quota(&machine, &findings);
    check_cpu_clock(&machine, &findings);
    check_clock_source(&machine, &findings);
    check_gpus(&machine, &findings);
}

static const struct finding *find(const char *subject) {
    for (uint32_t i = 0; i < findings.count; i++)
        if (strcmp(findings.list[i].subject, subject) == 0)
            return &findings.list[i];
    fail_msg("nothing is said about %s", subject);
    return NULL;
}

// Everything is looked at again: this is said, with that remedy (NULL: none), and nothing else is wrong.
static void says(enum finding_state state, const char *subject, const char *text, const char *remedy) {
    look();
    const struct finding *finding = find(subject);
    if (finding->state != state || !strstr(finding->text, text) ||
        (remedy ? !strstr(finding->remedy, remedy) : *finding->remedy != '\0'))
        fail_msg("%s: state %d: %s -> %s", subject, finding->state, finding->text, finding->remedy);
    assert_int_equal(findings_count(&findings, FINDING_WARNING), state == FINDING_WARNING);
    assert_int_equal(findings_count(&findings, FINDING_PROBLEM), state == FINDING_PROBLEM);
}

static void nothing_is_wrong(void **state) {
    (void)state;
    says(FINDING_OK, "io_uring", "can be used", NULL);
    says(FINDING_OK, "locked memory", "no limit for the daemon", NULL);
    says(FINDING_OK, "/dev/shm", "60 GiB of 64 GiB", NULL);
    says(FINDING_OK, "memory of cgroup", "no limit", NULL);
    says(FINDING_OK, "huge pages", "advise", NULL);
    says(FINDING_OK, "processors", "all 64", NULL);
    says(FINDING_OK, "CPU clock", "1 processors", NULL);
    says(FINDING_OK, "clock source", "tsc", NULL);
    says(FINDING_OK, "NUMA", "2 nodes", NULL);
    says(FINDING_OK, "GPU driver", "570.86.15", NULL);
    says(FINDING_OK, "GPU bus", "0000:17:00.0: PCIe generation 5 of 5, width 16 of 16", NULL);
    says(FINDING_OK, "GPU node", "NUMA node 1 of 2", NULL);
}

static void uring(void **state) {
    (void)state;
    machine.uring_error = EPERM;
    says(FINDING_WARNING, "io_uring", "filter of system calls", "seccomp");
    put("/proc/sys/kernel/io_uring_disabled", "2");
    says(FINDING_WARNING, "io_uring", "io_uring_disabled is 2", "sysctl kernel.io_uring_disabled=0");
    put("/proc/sys/kernel/io_uring_disabled", "1");
    machine.uring_error = 0;
    says(FINDING_WARNING, "io_uring", "only for root", "sysctl kernel.io_uring_disabled=0");
    machine.uring_error = ENOSYS;
    says(FINDING_WARNING, "io_uring", "does not have it", NULL);
    machine.uring_error = ENOMEM;
    says(FINDING_WARNING, "io_uring", "locked memory", "prlimit");
    machine.uring_error = EIO;
    says(FINDING_WARNING, "io_uring", "Input/output error", NULL);
}

static void memlock(void **state) {
    (void)state;
    put("/proc/77/limits", "Max locked memory         8388608              8388608              bytes");
    says(FINDING_WARNING, "locked memory", "8 MiB, and rings may take 4 GiB", "prlimit --pid 77");
    put("/proc/77/limits", "Max locked memory         4294967296           4294967296           bytes");
    says(FINDING_OK, "locked memory", "the daemon may lock 4 GiB", NULL);
    put("/proc/77/limits", "Max stack size 1 1 bytes");
    says(FINDING_WARNING, "locked memory", "not known", NULL);
}

// Without a daemon, the limits are those of the shell, and 128 MiB is the most that a ring takes by itself.
static void without_a_daemon(void **state) {
    (void)state;
    put("/proc/self/mounts", MOUNTS("rw,huge=advise"));
    machine.pid = machine.ring_memory = 0;
    put("/proc/self/cgroup", "0::/");
    put("/proc/self/status", "Cpus_allowed_list:\t0-63");
    put("/proc/self/limits", "Max locked memory         8388608              8388608              bytes");
    says(FINDING_WARNING, "locked memory", "this shell may lock 8 MiB, and rings may take 128 MiB",
         "--pid $$ --memlock");
    put("/proc/self/limits", "Max locked memory         134217728            134217728            bytes");
    says(FINDING_OK, "locked memory", "128 MiB", NULL);
}

static void shm(void **state) {
    (void)state;
    machine.shm_bytes = machine.shm_free = 2 * GIB;
    says(FINDING_WARNING, "/dev/shm", "less than ring_memory, 4 GiB", "remount");
    machine.ring_memory = 64 * MIB;
    says(FINDING_OK, "/dev/shm", "2 GiB of 2 GiB", NULL);
    machine.shm_free = 100 * MIB;
    says(FINDING_WARNING, "/dev/shm", "100 MiB of 2 GiB", "ls -lS /dev/shm");
    machine.shm_bytes = machine.shm_free = 64 * MIB;
    says(FINDING_PROBLEM, "/dev/shm", "64 MiB", "--shm-size");
    machine.shm_bytes = 0;
    says(FINDING_PROBLEM, "/dev/shm", "does not exist", "mount -t tmpfs");
}

static void groups(void **state) {
    (void)state;
    put("/sys/fs/cgroup/system.slice/feedd.service/memory.max", "2147483648");
    put("/sys/fs/cgroup/system.slice/feedd.service/memory.current", "1073741824");
    put("/sys/fs/cgroup/system.slice/feedd.service/memory.stat", "file 0\nshmem 0");
    says(FINDING_WARNING, "memory of cgroup", "1 GiB of 2 GiB", "MemoryMax=infinity");
    assert_int_equal(machine_cache_room(&machine), GIB);
    put("/sys/fs/cgroup/system.slice/feedd.service/memory.max", "8589934592");
    says(FINDING_OK, "memory of cgroup", "7 GiB of 8 GiB", NULL);
    put("/sys/fs/cgroup/system.slice/cpu.max", "250000 100000");
    put("/sys/fs/cgroup/system.slice/feedd.service/cpu.max", "max 100000");
    says(FINDING_WARNING, "processors", "2.5 of 64", "CPUQuota=");
    put("/sys/fs/cgroup/system.slice/cpu.max", "max 100000");
    put("/proc/77/status", "Cpus_allowed_list:\t0,40-46\n");
    says(FINDING_OK, "processors", "8 of 64", NULL);
}

static void huge_pages(void **state) {
    (void)state;
    put("/proc/77/mounts", MOUNTS("rw,huge=within_size,size=1g"));
    says(FINDING_OK, "huge pages", "huge=within_size)", NULL);
    put("/proc/77/mounts", MOUNTS("rw,huge=never"));
    says(FINDING_WARNING, "huge pages", "without", "remount,huge=advise /dev/shm");
    put("/proc/77/mounts", MOUNTS("rw,nosuid,nodev"));
    says(FINDING_WARNING, "huge pages", "without", "remount,huge=advise /dev/shm");
    put("/proc/77/mounts", MOUNTS("rw,huge=advise") "tmpfs /dev/shm tmpfs rw 0 0\n"); // which hides the other
    says(FINDING_WARNING, "huge pages", "without", "remount,huge=advise /dev/shm");
    put(SHMEM_ENABLED, "always within_size advise never deny [force]");
    says(FINDING_OK, "huge pages", "force", NULL);
    put("/proc/77/mounts", MOUNTS("rw,huge=advise"));
    put(SHMEM_ENABLED, "always within_size advise never [deny] force");
    says(FINDING_WARNING, "huge pages", "deny", "echo never");
    put(SHMEM_ENABLED, "always within_size advise [never] deny force"); // says nothing of what is mounted
    says(FINDING_OK, "huge pages", "huge=advise)", NULL);
    take_away("/proc/77/mounts");
    says(FINDING_WARNING, "huge pages", "without", "remount,huge=advise /dev/shm");
    take_away(SHMEM_ENABLED);
    says(FINDING_WARNING, "huge pages", "has none", NULL);
}

static void clocks(void **state) {
    (void)state;
    put(CPU "/cpu0/cpufreq/scaling_max_freq", "1200000");
    says(FINDING_WARNING, "CPU clock", "1 of 1 processors are limited to 1.2 GHz", "cpupower");
    put(CPU "/cpu0/cpufreq/scaling_governor", "powersave");
    says(FINDING_WARNING, "CPU clock", "governor powersave", "performance");
    put(CPU "/cpu0/cpufreq/scaling_max_freq", "3800000");
    put(CPU "/cpu0/cpufreq/scaling_driver", "intel_pstate");
    says(FINDING_OK, "CPU clock", "not limited", NULL);
    take_away(CPU "/cpu0/cpufreq/scaling_governor");
    says(FINDING_OK, "CPU clock", "virtual machine", NULL);
    put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet");
    says(FINDING_WARNING, "clock source", "hpet", "echo tsc");
    put("/sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet acpi_pm");
    says(FINDING_WARNING, "clock source", "hpet", NULL);
    take_away("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    says(FINDING_OK, "clock source", "does not say", NULL);
}

static void drivers(void **state) {
    (void)state;
    machine.has_libcuda = false;
    says(FINDING_PROBLEM, "GPU driver", "libcuda.so.1", "libcuda1");
    take_away("/dev/nvidia-uvm");
    says(FINDING_PROBLEM, "GPU driver", "/dev/nvidia-uvm", "nvidia-modprobe -u");
    take_away("/dev/nvidiactl");
    says(FINDING_PROBLEM, "GPU driver", "/dev/nvidiactl", "--gpus all");
    put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu");
    says(FINDING_PROBLEM, "GPU driver", "470.256.02 is older than 525", "nvidia-driver");
    take_away("/proc/driver/nvidia/version");
    says(FINDING_PROBLEM, "GPU driver", "not loaded", "modprobe nvidia");
    take_away(GPU "/vendor");
    says(FINDING_OK, "GPU", "no NVIDIA GPU", NULL);
}

static void buses(void **state) {
    (void)state;
    put(GPU "/current_link_width", "8");
    says(FINDING_WARNING, "GPU bus", "width 8 of 16", "all lanes; sudo lspci -vvs 0000:17:00.0 |");
    put(GPU "/current_link_width", "16");
    put(GPU "/current_link_speed", "16.0 GT/s PCIe");
    says(FINDING_WARNING, "GPU bus", "generation 4 of 5",
         "Auto in the BIOS setup; sudo lspci -vvs 0000:17:00.0 |");
    put(GPU "/current_link_speed", "2.5 GT/s PCIe");
    says(FINDING_OK, "GPU bus", "saves power", NULL);
    put(GPU "/current_link_speed", "Unknown");
    says(FINDING_OK, "GPU bus", "does not say", NULL);
}

static void nodes(void **state) {
    (void)state;
    put("/proc/77/status", "Cpus_allowed_list:\t0-31\n");
    says(FINDING_WARNING, "GPU node", "whose processors the daemon may not use", "--cpunodebind=1");
    put(GPU "/numa_node", "-1");
    says(FINDING_WARNING, "GPU node", "to which of 2", "tee " GPU "/numa_node");
    take_away("/sys/devices/system/node/node1/cpulist");
    char folder[128];
    snprintf(folder, sizeof folder, "%s/sys/devices/system/node/node1", root);
    assert_int_equal(rmdir(folder), 0);
    says(FINDING_OK, "NUMA", "1 node", NULL);
}

static void says_of(struct dataset_size dataset, uint64_t room, enum finding_state state, const char *text) {
    findings_free(&findings);
    check_dataset(&dataset, room, &findings);
    assert_int_equal(findings.count, 1);
    if (findings.list[0].state != state || !strstr(findings.list[0].text, text))
        fail_msg("state %d: %s", findings.list[0].state, findings.list[0].text);
    assert_int_equal(*findings.list[0].remedy != '\0', state == FINDING_WARNING && room);
}

static void datasets(void **state) {
    (void)state;
    uint64_t room = machine_cache_room(&machine);
    assert_int_equal(room, 100 * GIB);
    says_of((struct dataset_size){"a", 100 * GIB, .about = false}, room, FINDING_OK, "a: 100 GiB fit");
    says_of((struct dataset_size){"a", 101 * GIB, .about = true}, room, FINDING_WARNING,
            "about 101 GiB do not");
    says_of((struct dataset_size){"a", 101 * GIB, .direct = true}, room, FINDING_OK, "io_direct");
    says_of((struct dataset_size){"a", 1}, 0, FINDING_WARNING, "does not say");
}

// What a file holds reaches the terminal without control characters, and on a narrow one within its width.
static void prints_what_was_found(void **state) {
    (void)state;
    char *text AUTO_FREE = NULL;
    size_t bytes;
    put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "\033[2Jhpet");
    look();
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    findings_print(&findings, 40, out);
    fclose(out);
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "warning  clock source\n    ?[2Jhpet, which takes"));
    assert_non_null(strstr(text, "\n    -> echo tsc"));
    assert_non_null(strstr(text, "\n0 problems, 1 warning\n"));
    json_t *json = findings_json(&findings);
    assert_int_equal(json_integer_value(json_object_get(json, "warnings")), 1);
    assert_int_equal(json_array_size(json_object_get(json, "findings")), findings.count);
    json_decref(json);
}

int main(void) {
#define CHECK(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CHECK(nothing_is_wrong),
        CHECK(uring),
        CHECK(memlock),
        CHECK(without_a_daemon),
        CHECK(shm),
        CHECK(groups),
        CHECK(huge_pages),
        CHECK(clocks),
        CHECK(drivers),
        CHECK(buses),
        CHECK(nodes),
        CHECK(datasets),
        CHECK(prints_what_was_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
