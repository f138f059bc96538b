#include "client/ctl/doctor/check_gpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DRIVER_LEAST 525 // the first with CUDA 12.0
#define PCI_FOLDER   "/sys/bus/pci/devices"
#define NODE_FOLDER  "/sys/devices/system/node"

struct gpus {
    const struct machine *machine;
    struct findings *findings;
    uint32_t count, nodes;
};

// ---- Driver ----------------------------------------------------------------------------------------

// The version follows the words "Kernel Module", of the open one with "for x86_64" between; 0: there is none.
static unsigned find_version(const char *text, char *version, size_t bytes) {
    const char *at = strstr(text, "Kernel Module");
    for (; at && *at && *at != '\n'; at++) {
        unsigned long major = strtoul(at, NULL, 10);
        if (at[0] != ' ' || at[1] < '0' || at[1] > '9')
            continue;
        snprintf(version, bytes, "%.*s", (int)strcspn(at + 1, " \n"), at + 1);
        return (unsigned)major;
    }
    return 0;
}

// Whether the driver can be used at all.
static void check_driver(const struct gpus *gpus) {
    static const char subject[] = "GPU driver", host[] = "batches can only go to host memory";
    char text[1024], version[64] = "";
    if (!machine_read(gpus->machine, text, sizeof text, "/proc/driver/nvidia/version")) {
        findings_add(gpus->findings, FINDING_PROBLEM, subject,
                     "sudo apt-get install nvidia-driver (if it is installed: sudo modprobe nvidia)",
                     "it is not loaded: %s", host);
        return;
    }
    unsigned major = find_version(text, version, sizeof version);
    if (major && major < DRIVER_LEAST)
        findings_add(gpus->findings, FINDING_PROBLEM, subject, "sudo apt-get install nvidia-driver",
                     "%s is older than %u, which CUDA 12.0 needs: %s", version, DRIVER_LEAST, host);
    else if (!machine_exists(gpus->machine, "/dev/nvidiactl"))
        findings_add(gpus->findings, FINDING_PROBLEM, subject,
                     "sudo nvidia-modprobe -c 0 (in a container: docker run --gpus all)",
                     "/dev/nvidiactl does not exist: %s", host);
    else if (!machine_exists(gpus->machine, "/dev/nvidia-uvm"))
        findings_add(gpus->findings, FINDING_PROBLEM, subject, "sudo nvidia-modprobe -u -c 0",
                     "/dev/nvidia-uvm does not exist: CUDA does not start");
    else if (!gpus->machine->has_libcuda)
        findings_add(gpus->findings, FINDING_PROBLEM, subject,
                     "sudo apt-get install libcuda1 (in a container: docker run --gpus all)",
                     "libcuda.so.1 cannot be loaded: %s", host);
    else
        findings_add(gpus->findings, FINDING_OK, subject, NULL, "%s", *version ? version : "loaded");
}

// ---- The bus ---------------------------------------------------------------------------------------

// 1 to 6; 0: unknown.
static unsigned generation(const char *speed) {
    static const double rates[] = {0, 2.5, 5, 8, 16, 32, 64};
    double rate = strtod(speed, NULL);
    for (unsigned i = 1; i < sizeof rates / sizeof *rates; i++)
        if (rate == rates[i])
            return i;
    return 0;
}

static unsigned read_generation(const struct machine *machine, const char *device, const char *name) {
    char text[64];
    return machine_read(machine, text, sizeof text, PCI_FOLDER "/%s/%s", device, name) ? generation(text) : 0;
}

// Hardware and firmware decide on the link.
static void warn_of_link(const struct gpus *gpus, const char *device, const char *link, const char *effect,
                         const char *mend) {
    char remedy[256];
    snprintf(
        remedy, sizeof remedy,
        "no command fixes it: %s; sudo lspci -vvs %.16s | grep Lnk shows what the card can do (LnkCap), and "
        "what it does (LnkSta)",
        mend, device);
    findings_add(gpus->findings, FINDING_WARNING, "GPU bus", remedy, "%s: PCIe %s: %s", device, link, effect);
}

static void check_link(const struct gpus *gpus, const char *device) {
    uint64_t width = 0, most_width = 0;
    unsigned now = read_generation(gpus->machine, device, "current_link_speed");
    unsigned most = read_generation(gpus->machine, device, "max_link_speed");
    machine_number(gpus->machine, &width, PCI_FOLDER "/%s/current_link_width", device);
    machine_number(gpus->machine, &most_width, PCI_FOLDER "/%s/max_link_width", device);
    if (!now || !most || !width) {
        findings_add(gpus->findings, FINDING_OK, "GPU bus", NULL,
                     "%s: this kernel does not say, as is usual in a virtual machine", device);
        return;
    }
    char link[128];
    snprintf(link, sizeof link, "generation %u of %u, width %" PRIu64 " of %" PRIu64, now, most, width,
             most_width);
    if (width < most_width)
        warn_of_link(gpus, device, link, "copies get that share of the bandwidth",
                     "reseat the card, or use a slot that has all lanes");
    else if (now < most && now > 1)
        warn_of_link(gpus, device, link, "each lower generation halves the bandwidth",
                     "set PCIe Link Speed of the slot to Auto in the BIOS setup");
    else if (now < most)
        findings_add(gpus->findings, FINDING_OK, "GPU bus", NULL,
                     "%s: PCIe %s: an idle GPU saves power this way; check again while batches are copied",
                     device, link);
    else
        findings_add(gpus->findings, FINDING_OK, "GPU bus", NULL, "%s: PCIe %s", device, link);
}

// ---- The node --------------------------------------------------------------------------------------

static void check_node(const struct gpus *gpus, const char *device) {
    char text[64], processors[1024] = "", allowed[1024] = "", status[8192], remedy[256];
    if (gpus->nodes < 2)
        return;
    if (!machine_read(gpus->machine, text, sizeof text, PCI_FOLDER "/%s/numa_node", device) || *text == '-') {
        snprintf(remedy, sizeof remedy,
                 "echo NODE | sudo tee " PCI_FOLDER
                 "/%.16s/numa_node, until the next boot; the board's manual "
                 "says which, or try: numactl --cpunodebind=NODE feedd ... copies fastest at the right one",
                 device);
        findings_add(gpus->findings, FINDING_WARNING, "GPU node", remedy,
                     "%s: the firmware does not say to which of %u NUMA nodes this GPU belongs", device,
                     gpus->nodes);
        return;
    }
    machine_read(gpus->machine, processors, sizeof processors, NODE_FOLDER "/node%s/cpulist", text);
    if (machine_read_process(gpus->machine, status, sizeof status, "status"))
        machine_line(status, "Cpus_allowed_list", allowed, sizeof allowed);
    if (!*processors || !*allowed || machine_lists_meet(processors, allowed)) {
        findings_add(gpus->findings, FINDING_OK, "GPU node", NULL, "%s: NUMA node %s of %u", device, text,
                     gpus->nodes);
        return;
    }
    snprintf(remedy, sizeof remedy,
             "numactl --cpunodebind=%.8s feedd ... (in its unit: NUMAPolicy=preferred, NUMAMask=%.8s, "
             "CPUAffinity=numa)",
             text, text);
    findings_add(gpus->findings, FINDING_WARNING, "GPU node", remedy,
                 "%s: NUMA node %s of %u, whose processors %s may not use: copies cross nodes", device, text,
                 gpus->nodes, gpus->machine->pid ? "the daemon" : "this shell");
}

// ---- All -------------------------------------------------------------------------------------------

static void take_node(const char *name, void *context) {
    uint32_t *nodes = context;
    *nodes += strncmp(name, "node", 4) == 0 && name[4] >= '0' && name[4] <= '9';
}

// A display or 3D controller of NVIDIA's.
static bool is_gpu(const struct machine *machine, const char *device) {
    char vendor[32], class[32];
    return machine_read(machine, vendor, sizeof vendor, PCI_FOLDER "/%s/vendor", device) &&
           machine_read(machine, class, sizeof class, PCI_FOLDER "/%s/class", device) &&
           strcmp(vendor, "0x10de") == 0 && strncmp(class, "0x03", 4) == 0;
}

static void take_device(const char *name, void *context) {
    struct gpus *gpus = context;
    if (!is_gpu(gpus->machine, name))
        return;
    if (gpus->count++ == 0)
        check_driver(gpus);
    check_link(gpus, name);
    check_node(gpus, name);
}

void check_gpus(const struct machine *machine, struct findings *findings) {
    struct gpus gpus = {.machine = machine, .findings = findings};
    machine_each(machine, NODE_FOLDER, take_node, &gpus.nodes);
    findings_add(findings, FINDING_OK, "NUMA", NULL, "%u node%s", gpus.nodes ? gpus.nodes : 1,
                 gpus.nodes > 1 ? "s" : "");
    machine_each(machine, PCI_FOLDER, take_device, &gpus);
    if (!gpus.count)
        findings_add(findings, FINDING_OK, "GPU", NULL, "no NVIDIA GPU: batches go to host memory");
}
