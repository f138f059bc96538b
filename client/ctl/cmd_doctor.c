#include "client/ctl/cmd_doctor.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "client/ctl/arguments.h"
#include "client/ctl/doctor/check_data.h"
#include "client/ctl/doctor/check_gpu.h"
#include "client/ctl/doctor/check_memory.h"
#include "client/ctl/doctor/check_system.h"
#include "client/ctl/query.h"
#include "client/ctl/text.h"
#include "shm/stats.h"
#include "shm/stats_read.h"

#define ANSWER_MS 3000u // a daemon that hangs must not keep the doctor

struct examination {
    struct machine machine;
    struct findings findings;
    struct connection connection;
    uint64_t room; // of the page cache
};

// ---- The daemon ------------------------------------------------------------------------------------

// Of the daemon that wrote the statistics: its process, 0 if it has ended, and its setting.
static int read_statistics(const struct ctl *ctl, struct machine *machine, struct error *error) {
    char path[4096];
    const struct stats_region *region = NULL;
    int err = stats_path(ctl->socket, path, sizeof path);
    if (err < 0)
        return error_set(error, err, "the path of the socket is too long: %s", ctl->socket);
    err = stats_open(path, &region, error);
    if (err < 0 || !region)
        return err;
    bool stopped = atomic_load_explicit(&region->header.stopped, memory_order_relaxed) != 0;
    pid_t pid = (pid_t)region->header.pid;
    bool runs = !stopped && pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
    machine->pid = runs ? (uint64_t)pid : 0;
    machine->ring_memory = runs ? region->header.ring_memory : 0;
    stats_close(region);
    return 0;
}

// The statistics are looked at first: a connection could start a daemon.
static bool find_daemon(const struct ctl *ctl, struct examination *at) {
    struct error error = {0};
    int err = read_statistics(ctl, &at->machine, &error);
    if (err < 0 && err != -ENOENT)
        findings_add(&at->findings, FINDING_WARNING, "feedd", NULL, "%s", error.text);
    else if (!at->machine.pid)
        findings_add(&at->findings, FINDING_OK, "feedd", NULL, "none is running on %s", ctl->socket);
    return at->machine.pid != 0;
}

static void ask_daemon(const struct ctl *ctl, struct examination *at) {
    struct error error = {0};
    if (!find_daemon(ctl, at))
        return;
    if (query_open_within(&at->connection, ctl, ANSWER_MS, &error) < 0)
        findings_add(&at->findings, FINDING_PROBLEM, "feedd", "sudo systemctl restart feedd",
                     "process %llu does not answer: %s", (unsigned long long)at->machine.pid, error.text);
    else
        findings_add(&at->findings, FINDING_OK, "feedd", NULL, "process %llu on %s",
                     (unsigned long long)at->machine.pid, ctl->socket);
}

// ---- Its datasets ----------------------------------------------------------------------------------

struct names {
    struct dataset_size *list; // with names of their own
    uint32_t count;
};

static int take_datasets(const Feedd__Answer *page, void *context, struct error *error) {
    struct names *names = context;
    for (size_t i = 0; i < page->n_datasets; i++) {
        const Feedd__Dataset *dataset = page->datasets[i];
        if (*dataset->of || dataset->sources || !dataset->samples)
            continue; // views and mixes have no files of their own
        struct dataset_size *list = realloc(names->list, (names->count + 1) * sizeof *list);
        if (!list)
            return error_set(error, -ENOMEM, "out of memory");
        names->list = list;
        list[names->count] =
            (struct dataset_size){strdup(dataset->name), dataset->bytes, true, dataset->io_direct};
        if (!list[names->count].name)
            return error_set(error, -ENOMEM, "out of memory");
        names->count++;
    }
    return 0;
}

struct files {
    uint64_t bytes;
    bool unknown; // one that is not a file, or that this user may not look at
};

static int take_files(const Feedd__Answer *page, void *context, struct error *error) {
    struct files *files = context;
    (void)error;
    for (size_t i = 0; i < page->n_files; i++) {
        struct stat status;
        if (stat(page->files[i]->path, &status) < 0 || !S_ISREG(status.st_mode))
            files->unknown = true;
        else
            files->bytes += (uint64_t)status.st_size;
    }
    return 0;
}

static void examine_datasets(struct examination *at) {
    struct names names = {0};
    struct error error = {0};
    int err = query_ask_within(&at->connection, FEEDD__QUERY__KIND__DATASETS, NULL, ANSWER_MS, take_datasets,
                               &names, &error);
    for (uint32_t i = 0; err == 0 && i < names.count; i++) {
        struct files files = {0};
        struct dataset_size *dataset = &names.list[i];
        err = query_ask_within(&at->connection, FEEDD__QUERY__KIND__FILES, dataset->name, ANSWER_MS,
                               take_files, &files, &error);
        if (err == 0 && !files.unknown && files.bytes) {
            dataset->bytes = files.bytes;
            dataset->about = false;
        }
        if (err == 0)
            check_dataset(dataset, at->room, &at->findings);
    }
    if (err < 0)
        findings_add(&at->findings, FINDING_WARNING, "dataset", NULL, "%s", error.text);
    for (uint32_t i = 0; i < names.count; i++)
        free((char *)names.list[i].name);
    free(names.list);
}

// ---- Command ---------------------------------------------------------------------------------------

static const char summary[] =
    "Finds what slows feedd down on this machine: io_uring, limits on memory, huge pages, GPUs with their "
    "driver, "
    "bus and NUMA node, the page cache, and the clock of the CPU. Each line is ok, a warning or a problem, "
    "with the command that fixes it. Works without a daemon; if one is running, its limits and its datasets "
    "are examined. The exit status is 1 if there is a problem.";

int cmd_doctor(const struct ctl *ctl, int count, char **arguments) {
    bool json = ctl_parse_json(summary, count, arguments);
    struct examination at = {.machine = {.root = ""}, .connection = {.socket = -1}};
    machine_look(&at.machine);
    ask_daemon(ctl, &at);
    check_uring(&at.machine, &at.findings);
    check_memlock(&at.machine, &at.findings);
    check_shm(&at.machine, &at.findings);
    check_group(&at.machine, &at.findings);
    check_huge_pages(&at.machine, &at.findings);
    check_quota(&at.machine, &at.findings);
    check_cpu_clock(&at.machine, &at.findings);
    check_clock_source(&at.machine, &at.findings);
    check_gpus(&at.machine, &at.findings);
    at.room = machine_cache_room(&at.machine);
    if (at.connection.socket >= 0)
        examine_datasets(&at);
    connection_close(&at.connection);
    if (json)
        ctl_print_json(findings_json(&at.findings), true);
    else
        findings_print(&at.findings, ctl_terminal_width(), stdout);
    bool problem = findings_count(&at.findings, FINDING_PROBLEM) > 0;
    if (at.findings.incomplete)
        fprintf(stderr, "feedctl: out of memory: the list is not complete\n");
    problem |= at.findings.incomplete;
    findings_free(&at.findings);
    return problem ? CTL_FAILED : CTL_OK;
}
