#include "client/ctl/top/page.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "client/ctl/report.h"

#define OTHER_LINES 2 // the daemon's, and the keys

void page_share(const uint32_t wanted[SECTIONS], enum section_kind focus, uint32_t lines,
                uint32_t given[SECTIONS]) {
    memset(given, 0, SECTIONS * sizeof *given);
    for (uint32_t left = lines, before = left + 1; left && left < before;) {
        before = left;
        for (uint32_t i = 0; i < SECTIONS && left; i++) {
            uint32_t kind = (focus + i) % SECTIONS; // the focus first
            if (given[kind] == wanted[kind])
                continue;
            given[kind]++;
            left--;
        }
    }
}

// Each line of `text` after the character of its kind.
static void put_lines(const char *text, enum page_line first, enum page_line others, uint32_t picked,
                      FILE *out) {
    uint32_t line = 0;
    for (size_t length; *text; text += length + (text[length] == '\n'), line++) {
        length = strcspn(text, "\n");
        enum page_line kind = line == 0 ? first : others;
        if (line > 0 && line - 1 == picked)
            kind = PAGE_PICKED;
        fprintf(out, "%c%.*s\n", (char)kind, (int)length, text);
    }
}

static void put_daemon(const struct page *page, const struct top_look *now, FILE *out) {
    char *text AUTO_FREE = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory)
        return;
    report_daemon(&now->stats, page->state, memory);
    fclose(memory);
    if (text)
        text[strcspn(text, "\n")] = '\0';
    if (text)
        fprintf(out, "%c%.*s\n", PAGE_DAEMON, (int)text_prefix(text, page->width), text);
}

static void put_section(const struct page *page, struct section *section, bool focus, uint32_t rows,
                        FILE *out) {
    char *text AUTO_FREE = NULL;
    size_t bytes;
    uint32_t picked;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory)
        return;
    section_print(section, page->width, rows, focus, &picked, memory);
    fclose(memory);
    if (text)
        put_lines(text, PAGE_TITLE, PAGE_ROW, focus ? picked : UINT32_MAX, out);
}

// ---- The verdict -----------------------------------------------------------------------------------

// That of the selected row, or the selected feed if that row has none.
static const struct stats_feed_snapshot *
selected_feed(const struct page *page, const struct sections *sections, const struct top_look *now) {
    const struct section *section = &sections->list[page->focus];
    uint32_t picked = section_picked(section);
    if (picked == UINT32_MAX || !section->rows[picked].feed) {
        section = &sections->list[SECTION_FEEDS];
        picked = section_picked(section);
    }
    for (uint32_t i = 0; picked != UINT32_MAX && i < now->stats.feed_count; i++)
        if (now->stats.feeds[i].id == section->rows[picked].feed)
            return &now->stats.feeds[i];
    return NULL;
}

// The hint comes first: a small screen has no room for all of it. For the caller to free; NULL: there is nothing to
// say, or no memory.
static char *write_verdict(const struct page *page, const struct stats_feed_snapshot *feed,
                           const struct top_look *before, const struct top_look *now) {
    struct verdict verdict;
    char shares[512], text[1024], *folded = NULL;
    size_t bytes;
    FILE *out = feed ? open_memstream(&folded, &bytes) : NULL;
    if (!out)
        return NULL;
    verdict_of(before ? &before->stats : NULL, &now->stats, feed, &verdict);
    report_shares(&verdict, shares, sizeof shares);
    snprintf(text, sizeof text, "feed %" PRIu64 " is %s. %s Shares: %s.", feed->id,
             verdict_phrase(verdict.bound), verdict.hint, shares);
    text_fold(text, 0, page->width, out);
    fclose(out);
    return folded;
}

static uint32_t count_lines(const char *text) {
    uint32_t lines = 0;
    for (; text && *text; text++)
        lines += *text == '\n';
    return lines;
}

static void put_verdict(const struct page *page, const char *text, uint32_t lines, FILE *out) {
    for (size_t length; lines && *text; lines--, text += length + 1) {
        length = strcspn(text, "\n");
        char line[1024];
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        fprintf(out, "%c%.*s\n", PAGE_NOTE, (int)text_prefix(line, page->width), line);
    }
}

// ---- The page --------------------------------------------------------------------------------------

static void put_keys(const struct page *page, FILE *out) {
    static const char all[] = "q quit  Tab section  arrows select  Enter this feed alone  s sort  r reverse";
    static const char few[] = "q Tab arrows Enter s(ort) r(everse)";
    const char *text = page->note ? page->note : page->width < sizeof all ? few : all;
    fprintf(out, "%c%.*s\n", PAGE_KEYS, (int)text_prefix(text, page->width), text);
}

// What stands in place of a section that is empty; NULL: nothing, and no title either.
static const char *missing(enum section_kind kind, const struct top_look *now) {
    if (kind == SECTION_FEEDS)
        return "no feed: nobody reads a dataset";
    if (kind == SECTION_CONSUMERS && !now->asked_ns && now->stats.feed_count)
        return "consumers: the daemon does not answer";
    return NULL;
}

void page_print(const struct page *page, struct sections *sections, const struct top_look *before,
                const struct top_look *now, FILE *out) {
    char *verdict AUTO_FREE = write_verdict(page, selected_feed(page, sections, now), before, now);
    uint32_t wanted[SECTIONS], given[SECTIONS], titles = 0, rows = 0;
    for (int i = 0; i < SECTIONS; i++) {
        wanted[i] = sections->list[i].count;
        titles += wanted[i] > 0 || missing(i, now);
    }
    uint32_t lines = page->height > OTHER_LINES + titles ? page->height - OTHER_LINES - titles : 0;
    // At most a quarter of the room is the verdict's.
    uint32_t verdict_lines = (uint32_t)min_u64(count_lines(verdict), lines / 4);
    lines -= verdict_lines;
    page_share(wanted, page->focus, lines, given);
    for (int i = 0; i < SECTIONS; i++)
        rows += given[i];
    // Empty lines between sections, if there is room for all of them.
    bool spaced = titles && lines - rows >= titles;
    put_daemon(page, now, out);
    for (int i = 0; i < SECTIONS; i++) {
        const char *words = missing(i, now);
        if (!wanted[i] && !words)
            continue;
        if (spaced)
            fprintf(out, "%c\n", PAGE_ROW);
        if (!wanted[i])
            fprintf(out, "%c%.*s\n", PAGE_NOTE, (int)text_prefix(words, page->width), words);
        else
            put_section(page, &sections->list[i], i == (int)page->focus, given[i], out);
        if (i == SECTION_FEEDS && verdict)
            put_verdict(page, verdict, verdict_lines, out);
    }
    put_keys(page, out);
}
