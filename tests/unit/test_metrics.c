// feedctl metrics: names, units, types and escaping, in both formats.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/metrics.h"

static struct stats_snapshot now; // too much for the stack
static char *text;

static void write_text(enum metrics_format format, const struct stats_snapshot *snapshot) {
    size_t bytes;
    free(text);
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    metrics_write(format, snapshot, DAEMON_ALIVE, out);
    fclose(out);
}

static void note(struct latency_snapshot *latency, uint64_t ns, uint64_t times) {
    latency->buckets[latency_bucket(ns)] += times;
    latency->sum_ns += ns * times;
}

static int set_up(void **state) {
    (void)state;
    memset(&now, 0, sizeof now);
    now.taken_ns = 110 * NS_PER_S;
    now.heartbeat_ns = 109 * NS_PER_S + NS_PER_S / 2;
    now.started_ns = 100 * NS_PER_S;
    now.ring_memory = 4096 * MIB;
    now.feed_count = 2;
    now.feeds[0] = (struct stats_feed_snapshot){
        .id = 4, .name = "job", .dataset = "cifar100", .consumers = 2, .slot_count = 8};
    now.feeds[0].feed[FEED_samples] = 1000;
    now.feeds[0].loader[LOADER_room_wait_ns] = 1500 * NS_PER_MS;
    now.feeds[0].loader[LOADER_bytes] = UINT64_MAX;
    now.feeds[1] = (struct stats_feed_snapshot){.id = 5, .name = "a\"b\\c\nd\x80"};
    now.gpu_count = 1;
    now.gpus[0] = (struct stats_gpu_snapshot){.uuid = "GPU-1", .name = "NVIDIA H200", .state = GPU_RUNNING};
    now.gpus[0].counters[GPU_copying_ns] = 1;
    note(&now.feeds[0].loader_latency[LOADER_LATENCY_fill], 100, 5);
    note(&now.feeds[0].loader_latency[LOADER_LATENCY_fill], (1 << 14) - 1, 2);
    note(&now.feeds[0].loader_latency[LOADER_LATENCY_fill], 1 << 14, 30);
    note(&now.feeds[0].loader_latency[LOADER_LATENCY_fill], 60 * NS_PER_S, 1);
    note(&now.gpus[0].latency[GPU_LATENCY_copy], NS_PER_MS, 4);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    free(text);
    text = NULL;
    return 0;
}

static void has(const char *wanted) {
    if (!strstr(text, wanted))
        fail_msg("%s is not in\n%s", wanted, text);
}

static void open_metrics(void **state) {
    (void)state;
    write_text(METRICS_OPEN, &now);
    assert_memory_equal(text, "# HELP feedd_up ", strlen("# HELP feedd_up "));
    has("# TYPE feedd_up gauge\nfeedd_up 1\n");
    has("# TYPE feedd_state stateset\nfeedd_state{feedd_state=\"alive\"} "
        "1\nfeedd_state{feedd_state=\"stopped\"} 0\n");
    has("# UNIT feedd_heartbeat_age_seconds seconds\nfeedd_heartbeat_age_seconds 0.500\n");
    has("feedd_uptime_seconds 9.500\n");
    has("# UNIT feedd_ring_limit_bytes bytes\nfeedd_ring_limit_bytes 4294967296\n");
    has("# TYPE feedd_feed_samples "
        "counter\nfeedd_feed_samples_total{feed=\"4\",name=\"job\",dataset=\"cifar100\"} 1000\n");
    has("# TYPE feedd_loader_room_wait_seconds counter\n# UNIT feedd_loader_room_wait_seconds seconds\n");
    has("feedd_loader_room_wait_seconds_total{feed=\"4\",name=\"job\",dataset=\"cifar100\"} 1.500000000\n");
    has("feedd_loader_bytes_total{feed=\"4\",name=\"job\",dataset=\"cifar100\"} 18446744073709551615\n");
    has("feedd_feed_slots{feed=\"4\",name=\"job\",dataset=\"cifar100\"} 8\n");
    has("feedd_gpu_running{gpu=\"GPU-1\",name=\"NVIDIA H200\"} 1\n");
    has("feedd_gpu_copying_seconds_total{gpu=\"GPU-1\",name=\"NVIDIA H200\"} 0.000000001\n");
    assert_string_equal(text + strlen(text) - strlen("\n# EOF\n"), "\n# EOF\n");
}

static size_t count_of(const char *wanted) {
    size_t found = 0;
    for (const char *at = strstr(text, wanted); at; at = strstr(at + 1, wanted))
        found++;
    return found;
}

// Cumulative, with the same bounds for every latency, also where nothing has been seen.
static void histograms(void **state) {
    (void)state;
#define FILL "feedd_loader_fill_latency_seconds"
#define FEED "feed=\"4\",name=\"job\",dataset=\"cifar100\""
    write_text(METRICS_OPEN, &now);
    has("# TYPE " FILL " histogram\n# UNIT " FILL " seconds\n" FILL "_bucket{");
    has(FILL "_bucket{" FEED ",le=\"0.000016384\"} 7\n");
    has(FILL "_bucket{" FEED ",le=\"0.000032768\"} 37\n");
    has(FILL "_bucket{" FEED ",le=\"8.589934592\"} 37\n");
    has(FILL "_bucket{" FEED ",le=\"+Inf\"} 38\n");
    has(FILL "_count{" FEED "} 38\n");
    has(FILL "_sum{" FEED "} 60.000524786\n");
    has("feedd_gpu_copy_latency_seconds_bucket{gpu=\"GPU-1\",name=\"NVIDIA H200\",le=\"0.000524288\"} 0\n");
    has("feedd_gpu_copy_latency_seconds_bucket{gpu=\"GPU-1\",name=\"NVIDIA H200\",le=\"0.001048576\"} 4\n");
    has("feedd_gpu_copy_latency_seconds_sum{gpu=\"GPU-1\",name=\"NVIDIA H200\"} 0.004000000\n");
    has("feedd_feed_lease_latency_seconds_count{feed=\"5\",");
    const size_t latencies = 2 * (LOADER_LATENCIES + FEED_LATENCIES) + GPU_LATENCIES;
    assert_int_equal(count_of("_latency_seconds_bucket{"), 21 * latencies);
    write_text(METRICS_PROMETHEUS, &now);
    has("# TYPE " FILL " histogram\n" FILL "_bucket{");
#undef FILL
#undef FEED
}

// What is no name of a daemon's cannot break the text, and an unknown name is left out.
static void labels_are_escaped(void **state) {
    (void)state;
    write_text(METRICS_OPEN, &now);
    has("feedd_feed_consumers{feed=\"5\",name=\"a\\\"b\\\\c?d?\"} 0\n");
}

static void prometheus(void **state) {
    (void)state;
    write_text(METRICS_PROMETHEUS, &now);
    has("# TYPE feedd_feed_samples_total counter\nfeedd_feed_samples_total{");
    has("# TYPE feedd_state gauge\n");
    assert_null(strstr(text, "# UNIT"));
    assert_null(strstr(text, "# EOF"));
    assert_non_null(strstr(metrics_content_type(METRICS_PROMETHEUS), "0.0.4"));
    assert_non_null(strstr(metrics_content_type(METRICS_OPEN), "openmetrics"));
}

static void without_a_daemon(void **state) {
    (void)state;
    write_text(METRICS_OPEN, NULL);
    assert_string_equal(text,
                        "# HELP feedd_up 1: the daemon is alive\n# TYPE feedd_up gauge\nfeedd_up 0\n# EOF\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(open_metrics, set_up, tear_down),
        cmocka_unit_test_setup_teardown(histograms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(labels_are_escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(prometheus, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_daemon, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
