// What feedctl status, feeds and clients make of a daemon's answers about GPUs, as text and as JSON.
#include "base/scope.h"
#include "client/ctl/cmd_list.h"
#include "client/ctl/cmd_status.h"
#include "client/ctl/ctl.h"
#include "client/ctl/query.h"
#include "client/ctl/text.h"
#include "tests/unit/fake_feedd.h"

#define UUID "GPU-5a3c1b2f-1111-2222-3333-444455556666"

static Feedd__Gpu busy_gpu(void) {
    Feedd__Gpu gpu = FEEDD__GPU__INIT;
    gpu.uuid = (char *)UUID;
    gpu.name = (char *)"NVIDIA \033H200";
    gpu.pid = 4711;
    gpu.state = (char *)"running";
    gpu.pools = 2;
    gpu.pool_bytes = UINT64_C(2) << 30;
    gpu.pinned_bytes = UINT64_C(3) << 20;
    gpu.bus_bytes_per_s = UINT64_C(55260000000);
    gpu.copied_bytes = 123456;
    gpu.heartbeat_age_ns = 250000000;
    return gpu;
}

// The daemon says of the first that loaders decode its images, of the second that an engine does, of the third nothing.
static size_t make_feeds(Feedd__Feed feeds[3]) {
    static const char *const images[] = {"field \x1b[name is ragged", "engine", ""};
    for (size_t i = 0; i < 3; i++) {
        feedd__feed__init(&feeds[i]);
        feeds[i].id = i + 1;
        feeds[i].dataset = (char *)"photos";
        feeds[i].images = (char *)images[i];
    }
    return 3;
}

// `context`: without GPUs and feeds when it is set.
static void answer_status(struct fake *fake) {
    Feedd__Gpu busy = busy_gpu(), starting = FEEDD__GPU__INIT;
    starting.uuid = (char *)"GPU-2";
    starting.state = (char *)"starting";
    starting.heartbeat_age_ns = UINT64_MAX / 2;
    Feedd__Gpu *gpus[] = {&busy, &starting};
    Feedd__Status status = FEEDD__STATUS__INIT;
    if (!fake->context) {
        status.n_gpus = 2;
        status.gpus = gpus;
        status.gpu_support = (char *)"CUDA 12\n4";
    }
    Feedd__Process process = FEEDD__PROCESS__INIT;
    process.role = (char *)"supervisor";
    Feedd__Process *processes[] = {&process};
    Feedd__Feed feeds[3], *list[] = {&feeds[0], &feeds[1], &feeds[2]};
    Feedd__Answer answers[3] = {FEEDD__ANSWER__INIT, FEEDD__ANSWER__INIT, FEEDD__ANSWER__INIT};
    answers[0].status = &status;
    answers[1].n_feeds = fake->context ? 0 : make_feeds(feeds);
    answers[1].feeds = list;
    answers[2].n_processes = 1;
    answers[2].processes = processes;
    fake_welcome(fake, PROTO_VERSION);
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_QUERY);
        FAKE_SEND(fake, ANSWER, answer, &answers[i]);
    }
    fake_linger(fake);
}

static void answer_feeds(struct fake *fake) {
    Feedd__Feed feeds[3], *list[] = {&feeds[0], &feeds[1], &feeds[2]};
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    answer.n_feeds = make_feeds(feeds);
    answer.feeds = list;
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_QUERY);
    FAKE_SEND(fake, ANSWER, answer, &answer);
    fake_linger(fake);
}

static void answer_clients(struct fake *fake) {
    Feedd__Client consumer = FEEDD__CLIENT__INIT, asker = FEEDD__CLIENT__INIT;
    consumer.session = 1;
    consumer.name = (char *)"train";
    consumer.feed = 3;
    consumer.state = (char *)"attached";
    consumer.device = (char *)UUID;
    asker.session = 2;
    asker.name = (char *)"feedctl";
    asker.state = (char *)"greeted";
    Feedd__Client *clients[] = {&consumer, &asker};
    Feedd__Answer answer = FEEDD__ANSWER__INIT;
    answer.n_clients = 2;
    answer.clients = clients;
    fake_welcome(fake, PROTO_VERSION);
    fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_QUERY);
    FAKE_SEND(fake, ANSWER, answer, &answer);
    fake_linger(fake);
}

// Nothing of the user's own, and the counts of what belongs to others.
static void answer_others(struct fake *fake) {
    const Feedd__ClientMessage *question;
    Feedd__Others others = FEEDD__OTHERS__INIT;
    Feedd__Status status = FEEDD__STATUS__INIT;
    others.sessions = 5;
    others.feeds = fake->context ? 1 : 2;
    others.consumers = 1;
    others.loaders = 8;
    others.ring_bytes = 64 << 20;
    fake_welcome(fake, PROTO_VERSION);
    bool last = false, asked_status = false;
    while (!last && (question = fake_expect(fake, FEEDD__CLIENT_MESSAGE__BODY_QUERY))) {
        Feedd__Answer answer = FEEDD__ANSWER__INIT;
        answer.others = &others;
        // cmd_status asks for feeds in between.
        last = question->query->kind == FEEDD__QUERY__KIND__PROCESSES || !asked_status;
        if (question->query->kind == FEEDD__QUERY__KIND__STATUS) {
            answer.status = &status;
            asked_status = true;
            last = false;
        }
        FAKE_SEND(fake, ANSWER, answer, &answer);
    }
    fake_linger(fake);
}

// Runs a command against the script; what it prints.
static char *output_of(int (*command)(const struct ctl *, int, char **), const char *name, bool json,
                       void (*script)(struct fake *), void *context) {
    struct fake fake;
    char *arguments[] = {(char *)name, (char *)"--json", NULL};
    FILE *file = tmpfile();
    assert_non_null(file);
    fake_start_at(&fake, script, FAKE_SAMPLES, 0, 0, context);
    struct ctl ctl = {.socket = fake.path};
    fflush(stdout);
    int own = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    int err = command(&ctl, json ? 2 : 1, arguments);
    fflush(stdout);
    dup2(own, STDOUT_FILENO);
    close(own);
    fake_stop(&fake);
    assert_int_equal(err, CTL_OK);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    rewind(file);
    assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

static void has(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

static void status_shows_gpus_after_the_processes(void **state) {
    (void)state;
    char *text AUTO_FREE = output_of(cmd_status, "status", false, answer_status, NULL);
    has(text, "\n  GPU support    CUDA 12?4\n");
    const char *processes = strstr(text, "\nsupervisor ");
    assert_non_null(processes);
    has(processes, "\n\nUUID                                      NAME          STATE      PID  BUS GB/S  "
                   "POOLS  IN POOLS  "
                   "PINNED  HEARTBEAT\n" UUID
                   "  NVIDIA ?H200  running   4711      55.3      2     2 GiB   3 MiB      0.2 s\n"
                   "GPU-2                                                   starting     -         -      0  "
                   "     0 B     0 B"
                   "          -\n");
}

static void status_of_a_host_without_gpus_does_not_mention_them(void **state) {
    (void)state;
    char *text AUTO_FREE = output_of(cmd_status, "status", false, answer_status, (void *)1);
    has(text, "supervisor");
    assert_null(strstr(text, "GPU"));
    assert_null(strstr(text, "UUID"));
}

// As a terminal with that many columns would show it.
static char *narrow_output_of(int (*command)(const struct ctl *, int, char **), const char *name,
                              const char *columns, void (*script)(struct fake *)) {
    setenv("COLUMNS", columns, 1);
    char *text = output_of(command, name, false, script, NULL);
    unsetenv("COLUMNS");
    return text;
}

static void what_explains_most_stays_longest(void **state) {
    (void)state;
    char *text AUTO_FREE = narrow_output_of(cmd_status, "status", "41", answer_status);
    has(text, "\nROLE        PID  STATE  FEED  READER  WHY\n");
    char *narrower AUTO_FREE = narrow_output_of(cmd_status, "status", "36", answer_status);
    has(narrower, "\nROLE        PID  STATE  FEED  READER\n");
    char *clients AUTO_FREE = narrow_output_of(cmd_clients, "clients", "38", answer_clients);
    has(clients, "NAME     PID  FEED  RANK  STATE\ntrain      0     3     0  attached\n");
    char *wider AUTO_FREE = narrow_output_of(cmd_clients, "clients", "40", answer_clients);
    has(wider,
        "NAME     PID  UID  FEED  RANK  STATE\n"); // wider columns that were given up before it do not fit
    char *senseless AUTO_FREE = narrow_output_of(cmd_clients, "clients", "wide", answer_clients);
    has(senseless, "SESSION  NAME ");
}

static void status_as_json_has_gpus(void **state) {
    (void)state;
    char *text AUTO_FREE = output_of(cmd_status, "status", true, answer_status, NULL);
    json_t *json = json_loads(text, 0, NULL);
    const char *support = NULL, *uuid, *name, *word, *images;
    json_t *gpus;
    double age;
    json_int_t pid, pools, pool_bytes, pinned, bus, copied;
    assert_int_equal(json_unpack(json, "{s:s, s:o}", "gpu_support", &support, "gpus", &gpus), 0);
    assert_string_equal(support, "CUDA 12\n4");
    assert_int_equal(json_array_size(gpus), 2);
    assert_int_equal(json_unpack(json_array_get(gpus, 0),
                                 "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s !}", "uuid", &uuid,
                                 "name", &name, "state", &word, "pid", &pid, "pools", &pools, "pool_bytes",
                                 &pool_bytes, "pinned_bytes", &pinned, "bus_bytes_per_s", &bus,
                                 "copied_bytes", &copied, "heartbeat_age_s", &age, "images", &images),
                     0);
    assert_string_equal(uuid, UUID);
    assert_string_equal(word, "running");
    assert_int_equal(pid, 4711);
    assert_int_equal(pools, 2);
    assert_int_equal(pool_bytes, 2147483648);
    assert_int_equal(pinned, 3 << 20);
    assert_int_equal(bus, 55260000000);
    assert_int_equal(copied, 123456);
    assert_true(age > 0.249 && age < 0.251);
    json_decref(json);
}

static void feeds_say_who_decodes_their_images(void **state) {
    (void)state;
    const char *loaders = "feed 1 (photos): decoded by loaders: field ?[name is ragged\n";
    const char *engine = "feed 2 (photos): decoded by the GPU's engine\n";
    char *feeds AUTO_FREE = output_of(cmd_feeds, "feeds", false, answer_feeds, NULL);
    has(feeds, loaders);
    has(feeds, engine);
    assert_null(strstr(feeds, "feed 3"));
    char *status AUTO_FREE = output_of(cmd_status, "status", false, answer_status, NULL);
    has(status, "\n  images         feed 1 (photos): ");
    has(status, loaders);
    assert_null(strstr(status, engine));
}

static void feeds_as_json_say_who_decodes_their_images(void **state) {
    (void)state;
    const char *why, *dataset, *by;
    json_int_t feed;
    char *feeds AUTO_FREE = output_of(cmd_feeds, "feeds", true, answer_feeds, NULL);
    char *status AUTO_FREE = output_of(cmd_status, "status", true, answer_status, NULL);
    json_t *list = json_loads(feeds, 0, NULL), *json = json_loads(status, 0, NULL);
    json_t *of_status = json_object_get(json, "feed_images");
    assert_int_equal(json_unpack(list, "[{s:s}, {s:s}, {s:n}]", "images", &why, "images", &by, "images"), 0);
    assert_string_equal(why, "field \x1b[name is ragged");
    assert_string_equal(by, "engine");
    assert_int_equal(json_array_size(of_status), 2);
    assert_int_equal(json_unpack(json_array_get(of_status, 0), "{s:I, s:s, s:s !}", "feed", &feed, "dataset",
                                 &dataset, "images", &by),
                     0);
    assert_int_equal(feed, 1);
    assert_string_equal(dataset, "photos");
    assert_string_equal(by, why);
    json_decref(list);
    json_decref(json);
}

static void clients_have_a_device(void **state) {
    (void)state;
    char *text AUTO_FREE = output_of(cmd_clients, "clients", false, answer_clients, NULL);
    has(text, "  DEVICE    ");
    has(text, "  " UUID "  attached\n");
    has(text, "  -                                         greeted\n");
    char *other AUTO_FREE = output_of(cmd_clients, "clients", true, answer_clients, NULL);
    json_t *json = json_loads(other, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json, 0), "device")), UUID);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json, 1), "device")), "");
    json_decref(json);
}

static void what_belongs_to_others_is_counted(void **state) {
    (void)state;
    const char *two = "2 feeds of other users, with 1 consumer, 8 loaders and rings of 64 MiB";
    char *feeds AUTO_FREE = output_of(cmd_feeds, "feeds", false, answer_others, NULL);
    has(feeds, "\nnot shown: ");
    has(feeds, two);
    has(feeds, " (show_others)\n");
    char *one AUTO_FREE = output_of(cmd_feeds, "feeds", false, answer_others, (void *)1);
    has(one, "\nnot shown: 1 feed of other users, with");
    char *clients AUTO_FREE = output_of(cmd_clients, "clients", false, answer_others, NULL);
    has(clients, "\nnot shown: 5 sessions of other users (show_others)\n");
    char *status AUTO_FREE = output_of(cmd_status, "status", false, answer_others, NULL);
    has(status, "\n  not shown      5 sessions of other users (show_others)\n");
    has(status, two);
    char *text AUTO_FREE = output_of(cmd_status, "status", true, answer_others, NULL);
    json_t *json = json_loads(text, 0, NULL);
    json_int_t sessions, count, consumers, loaders, bytes;
    assert_int_equal(json_unpack(json, "{s:{s:I, s:I, s:I, s:I, s:I !}}", "others", "sessions", &sessions,
                                 "feeds", &count, "consumers", &consumers, "loaders", &loaders, "ring_bytes",
                                 &bytes),
                     0);
    assert_true(sessions == 5 && count == 2 && consumers == 1 && loaders == 8 && bytes == 64 << 20);
    json_decref(json);
}

static void nothing_is_said_of_others_without_any(void **state) {
    (void)state;
    char *clients AUTO_FREE = output_of(cmd_clients, "clients", false, answer_clients, NULL);
    char *status AUTO_FREE = output_of(cmd_status, "status", false, answer_status, NULL);
    assert_null(strstr(clients, "not shown"));
    assert_null(strstr(status, "not shown"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_shows_gpus_after_the_processes),
        cmocka_unit_test(status_of_a_host_without_gpus_does_not_mention_them),
        cmocka_unit_test(what_explains_most_stays_longest),
        cmocka_unit_test(status_as_json_has_gpus),
        cmocka_unit_test(feeds_say_who_decodes_their_images),
        cmocka_unit_test(feeds_as_json_say_who_decodes_their_images),
        cmocka_unit_test(clients_have_a_device),
        cmocka_unit_test(what_belongs_to_others_is_counted),
        cmocka_unit_test(nothing_is_said_of_others_without_any),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
