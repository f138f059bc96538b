// feedctl top without its terminal: bars and histories, rows that are sorted, picked and scrolled, and the page.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/top/page.h"

// Too much for the stack.
static struct top_look before, now;

// ---- Drawing -----------------------------------------------------------------------------------------------

static void histories(void **state) {
    (void)state;
    struct history history = {0};
    char text[DRAW_BYTES];
    draw_history(&history, true, text);
    assert_string_equal(text, "            ");
    for (int i = 0; i <= 8; i++)
        history_add(&history, i);
    draw_history(&history, true, text);
    assert_string_equal(text, "    ▁▂▃▄▅▆▇█");
    draw_history(&history, false, text);
    assert_string_equal(text, "    .:-=+*#@");
    // The oldest ones are gone, little is not nothing, and the scale is that of what is shown.
    for (int i = 0; i < HISTORY_LENGTH; i++)
        history_add(&history, i == 3 ? 1e-9 : i == 11 ? 100 : 0);
    draw_history(&history, true, text);
    assert_string_equal(text, "   ▁       █");
}

static void bars(void **state) {
    (void)state;
    char text[DRAW_BYTES];
    draw_bar(0, 4, true, text);
    assert_string_equal(text, "    ");
    draw_bar(0.5, 4, true, text);
    assert_string_equal(text, "██  ");
    draw_bar(0.65, 4, true, text);
    assert_string_equal(text, "██▋ ");
    draw_bar(0.65, 4, false, text);
    assert_string_equal(text, "##- ");
    draw_bar(7, 4, true, text);
    assert_string_equal(text, "████");
    draw_bar(-1, 4, true, text);
    assert_string_equal(text, "    ");
}

// ---- Sections ----------------------------------------------------------------------------------------------

static const struct column columns[] = {{"THING", false, 0}, {"SPEED", true, 0}, {"HISTORY", false, 1}};

static struct section make_section(uint32_t count) {
    struct section section = {.title = "THING", .columns = columns, .column_count = COUNT_OF(columns)};
    for (uint32_t i = 0; i < count; i++) {
        struct top_row *row = section_add(&section, 100 + i, 0);
        assert_non_null(row);
        snprintf(row->cells[0].text, sizeof row->cells[0].text, "%c", (char)('a' + i));
        row->cells[1].value = i % 3;
        snprintf(row->cells[1].text, sizeof row->cells[1].text, "%u", i % 3);
    }
    return section;
}

static void prints(struct section *section, uint32_t lines, const char *wanted, uint32_t wanted_picked) {
    char *text AUTO_FREE = NULL;
    size_t bytes;
    uint32_t picked;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    section_print(section, 80, lines, true, &picked, out);
    fclose(out);
    assert_string_equal(text, wanted);
    assert_int_equal(picked, wanted_picked);
}

static void sorts(void **state) {
    (void)state;
    struct section section = make_section(4);
    section_sort(&section);
    prints(&section, 9,
           "THING ^  SPEED  HISTORY\na            0\nb            1\nc            2\nd            0\n", 0);
    section_sort_next(&section); // numbers: the largest first, and those that are alike in their order
    prints(&section, 9,
           "THING  SPEED v  HISTORY\nc            2\nb            1\na            0\nd            0\n",
           0);                   // none is picked: the first
    section_sort_next(&section); // nothing is sorted by a history
    assert_int_equal(section.sort, 0);
    section.descending = true;
    section_sort(&section);
    assert_string_equal(section.rows[0].cells[0].text, "d");
    section_free(&section);
}

static void idle_rows_come_last(void **state) {
    (void)state;
    struct section section = make_section(4);
    section.rows[0].idle = section.rows[2].idle = true;
    section_sort(&section);
    prints(&section, 9,
           "THING ^  SPEED  HISTORY\nb            1\nd            0\na            0\nc            2\n", 0);
    section.descending = true;
    section_sort(&section);
    prints(&section, 9,
           "THING v  SPEED  HISTORY\nd            0\nb            1\nc            2\na            0\n", 0);
    section_sort_next(&section); // by speed, whatever is idle
    prints(&section, 9,
           "THING  SPEED v  HISTORY\nc            2\nb            1\na            0\nd            0\n", 0);
    section_free(&section);
}

static void the_picked_row_is_shown(void **state) {
    (void)state;
    struct section section = make_section(6);
    section_move(&section, 4);
    prints(&section, 2, "THING 4-5 of 6  SPEED  HISTORY\nd                   0\ne                   1\n", 1);
    section_move(&section, -1);
    prints(&section, 2, "THING 4-5 of 6  SPEED  HISTORY\nd                   0\ne                   1\n", 0);
    section_move(&section, -100);
    prints(&section, 2, "THING 1-2 of 6  SPEED  HISTORY\na                   0\nb                   1\n", 0);
    section_move(&section, 100);
    assert_int_equal(section_picked(&section), 5);
    // Rows come anew at every look: the same thing stays picked, and if it is gone, the first one is.
    section_clear(&section);
    assert_int_equal(section_picked(&section), UINT32_MAX);
    section_move(&section, 1);
    section_add(&section, 7, 0);
    assert_int_equal(section_picked(&section), 0);
    section_add(&section, 105, 0);
    assert_int_equal(section_picked(&section), 1);
    section_free(&section);
}

// ---- The page ----------------------------------------------------------------------------------------------

static void lines_are_shared(void **state) {
    (void)state;
    uint32_t given[SECTIONS];
    page_share((uint32_t[]){2, 3, 4, 1}, SECTION_FEEDS, 20, given);
    assert_memory_equal(given, ((uint32_t[]){2, 3, 4, 1}), sizeof given);
    page_share((uint32_t[]){2, 50, 40, 0}, SECTION_FEEDS, 11, given);
    assert_memory_equal(given, ((uint32_t[]){2, 5, 4, 0}), sizeof given);
    page_share((uint32_t[]){9, 9, 9, 9}, SECTION_LOADERS, 2, given);
    assert_memory_equal(given, ((uint32_t[]){0, 0, 1, 1}), sizeof given);
    page_share((uint32_t[]){9, 9, 9, 9}, SECTION_FEEDS, 0, given);
    assert_memory_equal(given, ((uint32_t[]){0, 0, 0, 0}), sizeof given);
}

static void make_looks(void) {
    static struct top_client clients[] = {
        {.session = 1,
         .pid = 50,
         .feed = 4,
         .batches = 300,
         .prefetch = 2,
         .held = 1,
         .name = "one",
         .device = "cpu"},
        {.session = 2, .pid = 51, .feed = 5, .batches = 30, .prefetch = 2, .waiting = true, .name = "two"}};
    static struct top_client earlier_clients[2];
    memset(&now, 0, sizeof now);
    now.stats = (struct stats_snapshot){.taken_ns = 100 * NS_PER_S, .pid = 9, .feed_count = 2};
    now.stats.heartbeat_ns = now.stats.taken_ns;
    now.stats.feeds[0] = (struct stats_feed_snapshot){
        .id = 4, .name = "job", .consumers = 1, .loaders = 1, .slot_count = 8, .slots_ready = 4};
    now.stats.feeds[1] =
        (struct stats_feed_snapshot){.id = 5, .name = "other", .consumers = 1, .slot_count = 8};
    now.loader_count = 1;
    now.loaders[0] = (struct stats_loader_snapshot){.feed = 4, .pid = 70, .heartbeat_ns = 99 * NS_PER_S};
    now.client_count = 2;
    now.clients = clients;
    now.asked_ns = 100 * NS_PER_S;
    before = now;
    memcpy(earlier_clients, clients, sizeof clients);
    before.clients = earlier_clients;
    before.clients[0].batches = 100;
    before.stats.taken_ns = before.asked_ns = 98 * NS_PER_S;
    now.stats.feeds[0].feed[FEED_samples] = 5000;
    now.stats.feeds[0].loader[LOADER_room_wait_ns] = 3 * NS_PER_S / 2;
    now.stats.feeds[0].loader[LOADER_io_wait_ns] = NS_PER_S / 2;
    now.loaders[0].counters[LOADER_samples] = 4000;
}

static char *print_page(struct sections *sections, uint32_t width, uint32_t height) {
    const struct page page = {.width = width, .height = height, .focus = SECTION_FEEDS};
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    page_print(&page, sections, &before, &now, out);
    fclose(out);
    return text;
}

static void the_page_fits(void **state) {
    (void)state;
    struct sections sections = {0};
    make_looks();
    sections_open(&sections, false);
    for (uint32_t width = 1; width < 100; width += 13)
        for (uint32_t height = 1; height < 30; height += 3) {
            sections_fill(&sections, &before, &now);
            char *text AUTO_FREE = print_page(&sections, width, height);
            uint32_t lines = 0;
            for (const char *line = text; *line; lines++) {
                size_t length = strcspn(line, "\n");
                assert_in_range(length, 1, width + 1);
                line += length + 1;
            }
            // The daemon, the keys and a title for each section are always written; the screen cuts them off.
            assert_in_range(lines, 3, height > 5 ? height : 5);
        }
    sections_close(&sections);
}

static void has(const char *text, const char *wanted) {
    if (!strstr(text, wanted))
        fail_msg("%s is not in\n%s", wanted, text);
}

static void the_page_says_what_happens(void **state) {
    (void)state;
    struct sections sections = {0};
    make_looks();
    sections_open(&sections, false);
    sections_fill(&sections, &before, &now);
    char *text AUTO_FREE = print_page(&sections, 150, 30);
    has(text, "dfeedd 9 alive");
    has(text, "\np4       job    -            2.50k"); // 5000 samples in 2 s; the first row is picked
    has(text, "[###   ] 4/8");
    has(text, "\nr5       other  -                0");
    has(text, "\nrone            4     0   50    0        100"); // batches per second
    has(text, "\nrtwo            5     0   51    0          0");
    has(text, " waits ");
    has(text, "\nr70           4  none        2.00k");
    has(text,
        "\nnfeed 4 is bound by its consumers. Batches wait for the consumers: feedd could deliver more. ");
    has(text, "\nn0 %, decode 0 %, wait for storage 25 %, for room 75 %.\n");
    // One feed alone, and a daemon that does not answer.
    sections.feed = 5;
    sections_fill(&sections, &before, &now);
    char *alone AUTO_FREE = print_page(&sections, 150, 30);
    assert_null(strstr(alone, "\nrone "));
    assert_null(strstr(alone, "\ntLOADER"));
    has(alone, "\nrtwo ");
    now.asked_ns = now.client_count = 0;
    sections_fill(&sections, &before, &now);
    char *silent AUTO_FREE = print_page(&sections, 150, 30);
    has(silent, "nconsumers: the daemon does not answer\n");
    now.stats.feed_count = 0;
    sections_fill(&sections, &before, &now);
    char *idle AUTO_FREE = print_page(&sections, 150, 30);
    has(idle, "nno feed: nobody reads a dataset\n");
    sections_close(&sections);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histories),
        cmocka_unit_test(bars),
        cmocka_unit_test(sorts),
        cmocka_unit_test(idle_rows_come_last),
        cmocka_unit_test(the_picked_row_is_shown),
        cmocka_unit_test(lines_are_shared),
        cmocka_unit_test(the_page_fits),
        cmocka_unit_test(the_page_says_what_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
