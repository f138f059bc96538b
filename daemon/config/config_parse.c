// libinih splits lines into keys and values. It gets the lines one by one, without indentation, so that line numbers
// are known, nothing is cut at its line limit, and pairs and headings may be indented: for libinih, any indented line
// continues a value, comment and all. A line that does continue one is given to it as a value without a key.
#include "daemon/config/config_parse.h"

#include <ini.h>
#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/names.h"
#include "base/scope.h"
#include "base/sizes.h"
#include "daemon/config/config_values.h"
#include "proto/limits.h"
#include "shm/layout.h"

struct parser {
    struct config *config;
    const struct config_text *from;
    struct error *error;
    const char *next;    // what has not been read yet
    uint32_t read_lines; // up to there
    uint32_t line;       // of the last section, pair or wrong line: where it begins
    bool continues;      // the line that libinih has continues the value of the pair
    char *key;           // of the pair that is being read; NULL: none
    char *value;         // what there is of it
    char *value_end;     // its NUL
    char *pair;          // room for both, as many bytes as in the text
    int failed;          // what ended the reading; 0: nothing
    enum config_section section;
    struct config_lines *lines; // [feedd], then one per dataset
};

static struct dataset_config *current_dataset(const struct parser *parser) {
    if (parser->section < SECTION_DATASET)
        return NULL;
    return &parser->config->datasets[parser->config->dataset_count - 1];
}

static struct config_lines *current_lines(const struct parser *parser) {
    return &parser->lines[parser->section >= SECTION_DATASET ? parser->config->dataset_count : 0];
}

static int out_of_memory(const struct parser *parser) {
    return error_set(parser->error, -ENOMEM, "%s: out of memory", parser->from->file);
}

// Refuses the line being read. `key` may be NULL; before the first section, none is named.
#define REFUSE_LINE(parser, ...)                                                                             \
    (error_set((parser)->error, -EINVAL, __VA_ARGS__),                                                       \
     error_prefix((parser)->error, "%s:%u", (parser)->from->file, (parser)->line))
#define REFUSE(parser, key, ...)                                                                             \
    config_refuse((parser)->error, (parser)->from->file, (parser)->line, current_dataset(parser), key,       \
                  __VA_ARGS__)

// Long texts are quoted in part, so that what is wanted has room in the sentence. For "%.*s%s".
#define MOST_QUOTED 200
#define QUOTED_BYTES(text, length)                                                                           \
    (length) > MOST_QUOTED ? MOST_QUOTED : (int)(length), text, (length) > MOST_QUOTED ? "..." : ""
#define QUOTED(text) QUOTED_BYTES(text, strlen(text))

#define SECTIONS "[feedd], [dataset NAME], [view NAME] or [mix NAME]"

#define MAX_LINE 8192 // without its indentation and the blanks behind it

static const char blanks[] = " \t\r";

static bool is_name(const char *name, size_t most) {
    return *name && strlen(name) <= most && name_is_valid(name);
}

static int begin_feedd(struct parser *parser) {
    if (parser->from->included)
        return REFUSE_LINE(parser,
                           "found [feedd] in a file that another one includes, wanted it there: in %s",
                           parser->config->file);
    parser->section = SECTION_FEEDD;
    if (parser->lines[0].section)
        return REFUSE(parser, NULL, "found a second time, wanted once; the first one is on line %u",
                      parser->lines[0].section);
    parser->lines[0].section = parser->line;
    return 0;
}

// Of a dataset, a view or a mix: clients open all of them by name.
static int begin_dataset(struct parser *parser, enum config_section section, const char *name) {
    struct config *config = parser->config;
    const char *what = section == SECTION_MIX ? "mix" : section == SECTION_VIEW ? "view" : "dataset";
    if (!is_name(name, PROTO_MAX_NAME))
        return REFUSE_LINE(
            parser, "found [%s%s%s], wanted a name of 1 to %u letters, digits, dots, underscores or hyphens",
            what, *name ? " " : "", name, PROTO_MAX_NAME);
    const struct dataset_config *first = config_find_dataset(config, name);
    if (first)
        return REFUSE_LINE(parser,
                           "[%s %s]: found a second dataset, view or mix of that name, wanted one; the"
                           " first one is on line %u%s%s",
                           what, name, first->line, first->file == parser->from->file ? "" : " of ",
                           first->file == parser->from->file ? "" : first->file);
    size_t count = config->dataset_count + 1;
    struct config_lines *lines = reallocarray(parser->lines, count + 1, sizeof *lines);
    if (!lines)
        return out_of_memory(parser);
    parser->lines = lines;
    struct dataset_config *datasets = reallocarray(config->datasets, count, sizeof *datasets);
    if (!datasets)
        return out_of_memory(parser);
    config->datasets = datasets;
    struct dataset_config *dataset = &datasets[count - 1];
    *dataset = (struct dataset_config){.line = parser->line,
                                       .file = parser->from->file,
                                       .folder = parser->from->folder,
                                       .view = section == SECTION_VIEW,
                                       .mix = section == SECTION_MIX,
                                       .part = part_whole()};
    dataset->name = strdup(name);
    if (!dataset->name)
        return out_of_memory(parser);
    lines[count] = (struct config_lines){.section = parser->line};
    config->dataset_count = count;
    parser->section = section;
    return option_store_defaults(section, dataset) ? out_of_memory(parser) : 0;
}

// `line` is "[...": sections without keys are sections too, and libinih does not report them.
static int begin_section(struct parser *parser, const char *line) {
    const char *end = strchr(line, ']');
    const char *rest = end ? end + 1 + strspn(end + 1, blanks) : "";
    if (!end || (*rest && *rest != ';' && *rest != '#'))
        return REFUSE_LINE(parser, "found \"%.*s%s\", wanted " SECTIONS " and nothing after it",
                           QUOTED(line));
    char name[256];
    const char *start = line + 1 + strspn(line + 1, blanks);
    size_t length = (size_t)(end - start);
    while (length && strchr(blanks, start[length - 1]))
        length--;
    snprintf(name, sizeof name, "%.*s", (int)length, start);
    if (strcmp(name, "feedd") == 0)
        return begin_feedd(parser);
    size_t word = strcspn(name, blanks);
    if (word == strlen("dataset") && memcmp(name, "dataset", word) == 0)
        return begin_dataset(parser, SECTION_DATASET, name + word + strspn(name + word, blanks));
    if (word == strlen("view") && memcmp(name, "view", word) == 0)
        return begin_dataset(parser, SECTION_VIEW, name + word + strspn(name + word, blanks));
    if (word == strlen("mix") && memcmp(name, "mix", word) == 0)
        return begin_dataset(parser, SECTION_MIX, name + word + strspn(name + word, blanks));
    return REFUSE_LINE(parser, "found section [%s], wanted " SECTIONS, name);
}

// `option` is one of type FIELDS, and `name` the part of `key` after its dot.
static int add_field(struct parser *parser, const struct config_option *option, const char *key,
                     const char *name, const char *value) {
    char wanted[DESCRIPTION_TEXT];
    size_t *count;
    struct config_field **list = option_list(option, current_dataset(parser), &count);
    bool source = parser->section == SECTION_MIX;
    const uint32_t most = source ? PROTO_MAX_NAME : RING_FIELD_NAME - 1;
    if (!is_name(name, most))
        return REFUSE(parser, key,
                      "found \"%s\" as a %s's name, wanted 1 to %u letters, digits, dots, underscores"
                      " or hyphens",
                      name, source ? "source" : "field", most);
    for (size_t i = 0; i < *count; i++)
        if (strcmp((*list)[i].name, name) == 0)
            return REFUSE(parser, key, "found a second time, wanted once; the first one is on line %u",
                          (*list)[i].line);
    if (*count == option->max)
        return REFUSE(parser, key, "found too many %ss, wanted at most %" PRIu64, source ? "source" : "field",
                      option->max);
    if (*value == '\0')
        return REFUSE(parser, key, "found \"\", wanted %s", option_describe(option, wanted));
    struct config_field *fields = reallocarray(*list, *count + 1, sizeof *fields);
    if (!fields)
        return out_of_memory(parser);
    *list = fields;
    struct config_field *field = &fields[*count];
    *field = (struct config_field){strdup(name), strdup(value), parser->line};
    ++*count;
    return field->name && field->value ? 0 : out_of_memory(parser);
}

static int refuse_unknown(struct parser *parser, const char *key) {
    static const enum config_section likely[] = {SECTION_DATASET, SECTION_FEEDD, SECTION_VIEW, SECTION_MIX};
    const char *name;
    for (size_t i = 0; i < COUNT_OF(likely); i++)
        if (option_find_named(likely[i], key, &name) || option_find(likely[i], key))
            return REFUSE(parser, key, "found in this section, wanted in %s", section_title(likely[i]));
    const struct config_option *near = option_nearest(parser->section, key);
    if (near)
        return REFUSE(parser, key, "unknown key; perhaps you mean \"%s\"", near->key);
    return REFUSE(parser, key, "unknown key; feedd --help-config lists the known ones");
}

static int refuse_value(struct parser *parser, const struct config_option *option, const char *key,
                        const char *value) {
    char wanted[DESCRIPTION_TEXT], choice[NAME_LENGTH_MAX + 1];
    uint64_t place;
    const char *near = option == &config_options[DATASET_dtype] ? dtype_nearest(value) : NULL;
    if (near && value_parse_choice(near, option->unit, &place))
        return REFUSE(parser, key, "unknown dtype \"%.*s%s\"; perhaps you mean \"%s\"", QUOTED(value), near);
    near = option_nearest_choice(option, value, choice);
    return REFUSE(parser, key, "found \"%.*s%s\", wanted %s%s%s%s", QUOTED(value),
                  option_describe(option, wanted), near ? "; perhaps you mean \"" : "", near ? near : "",
                  near ? "\"" : "");
}

static int set_option(struct parser *parser, const char *key, const char *value) {
    const struct config_option *option = option_find(parser->section, key);
    if (!option)
        return refuse_unknown(parser, key);
    uint32_t *line = &current_lines(parser)->option[option - config_options];
    if (*line)
        return REFUSE(parser, key, "found a second time, wanted once; the first one is on line %u", *line);
    *line = parser->line;
    void *base = current_dataset(parser);
    int err = option_store(option, base ? base : parser->config, value);
    if (err == -ENOMEM)
        return out_of_memory(parser);
    return err ? refuse_value(parser, option, key, value) : 0;
}

static int take_pair(struct parser *parser, const char *key, const char *value) {
    if (parser->section == SECTION_NONE)
        return REFUSE_LINE(parser, "%s: found before any section, wanted " SECTIONS " above it", key);
    if (*key == '\0')
        return REFUSE_LINE(parser, "found a value without a key, wanted KEY = VALUE");
    if (strlen(key) > MOST_QUOTED)
        return REFUSE_LINE(parser, "found a key of %zu bytes, wanted at most %d", strlen(key), MOST_QUOTED);
    if (*value == '"' || *value == '\'')
        return REFUSE(parser, key, "found %.*s%s, wanted the value without quotation marks", QUOTED(value));
    if (strstr(value, " #") || strstr(value, "\t#"))
        return REFUSE(parser, key,
                      "found \"%.*s%s\", wanted nothing after the value (a comment there begins with ;)",
                      QUOTED(value));
    const char *name;
    const struct config_option *named = option_find_named(parser->section, key, &name);
    if (named)
        return add_field(parser, named, key, name, value);
    return set_option(parser, key, value);
}

// Takes the pair that has been read, if there is one.
static int end_pair(struct parser *parser) {
    const char *key = parser->key;
    parser->key = NULL;
    return key ? take_pair(parser, key, parser->value) : 0;
}

// libinih's handler: nonzero is success. Builds of it differ in whether sections are reported (no key) and keys without
// a value (no value).
static int handle_pair(void *user, const char *section, const char *key, const char *value) {
    (void)section; // cut to 50 bytes there; `parser` knows it in full
    struct parser *parser = user;
    if (!key)
        return 1;
    if (!value)
        return 0;
    if (!parser->continues) {
        parser->key = parser->pair;
        parser->value = stpcpy(parser->key, key) + 1;
        parser->value_end = parser->value;
    } else if (parser->value_end > parser->value) {
        *parser->value_end++ = ' ';
    }
    parser->value_end = stpcpy(parser->value_end, value);
    return 1;
}

// A line without its end, its indentation and the blanks behind it.
struct line {
    const char *whole; // with its indentation
    const char *text;
    size_t length; // of `text`
    const char *next;
};

static struct line split_line(const char *at) {
    const size_t whole = strcspn(at, "\n");
    const size_t indent = strspn(at, " \t");
    struct line line = {at, at + indent, whole - indent, at + whole + (at[whole] == '\n')};
    while (line.length && strchr(blanks, line.text[line.length - 1]))
        line.length--;
    return line;
}

// Whether libinih would find a key in it, which does not look behind the start of a comment.
static bool has_key(const struct line *line) {
    for (size_t i = 0; i < line->length; i++) {
        if (line->text[i] == '=' || line->text[i] == ':')
            return true;
        if (line->text[i] == ';' && i && strchr(blanks, line->text[i - 1]))
            return false;
    }
    return false;
}

static const char *find_control_character(const struct line *line) {
    for (size_t i = 0; i < line->length; i++)
        if ((unsigned char)line->text[i] < ' ' && line->text[i] != '\t')
            return &line->text[i];
    return NULL;
}

// An indented line continues the value above, unless it is a heading or a pair. Any other line ends the pair, also one
// that is refused: what is wrong with the pair comes first.
static int begin_line(struct parser *parser, const struct line *line, size_t most) {
    const char *control = find_control_character(line);
    const bool fine = line->length <= most && !control;
    const bool indented = line->text > line->whole;
    parser->continues = parser->key && fine && indented && *line->text != '[' && !has_key(line);
    if (parser->continues)
        return 0;
    const int err = end_pair(parser);
    if (err)
        return err;
    parser->line = parser->read_lines;
    if (line->length > most)
        return REFUSE_LINE(parser, "found a line of %zu bytes, wanted at most %zu", line->length, most);
    if (control)
        return REFUSE_LINE(parser, "found the control character 0x%02x, wanted text",
                           (unsigned char)*control);
    return 0;
}

// libinih's reader: like fgets, but lines have no ends.
static char *read_line(char *to, int room, void *user) {
    struct parser *parser = user;
    if (*parser->next == '\0')
        return NULL;
    const struct line line = split_line(parser->next);
    parser->next = line.next;
    parser->read_lines++;
    *to = '\0';
    if (line.length == 0 || *line.text == ';' || *line.text == '#')
        return to;
    parser->failed = begin_line(parser, &line, (size_t)room - 3); // as ini.h says
    if (parser->failed)
        return NULL;
    // libinih would skip another byte order mark at the start of its first line.
    const char *before = parser->continues ? "=" : parser->read_lines == 1 ? " " : "";
    snprintf(to, (size_t)room, "%s%.*s", before, (int)line.length, line.text);
    if (*line.text == '[')
        parser->failed = begin_section(parser, to + strlen(before));
    return parser->failed ? NULL : to;
}

// libinih found that line number `number` is not a pair.
static int refuse_no_pair(struct parser *parser, const char *text, uint32_t number) {
    struct line line = split_line(text);
    for (parser->line = 1; parser->line < number; parser->line++)
        line = split_line(line.next);
    const size_t length = (size_t)(line.text - line.whole) + line.length;
    return REFUSE_LINE(parser,
                       "found \"%.*s%s\", wanted KEY = VALUE, " SECTIONS
                       ", or an indented line that continues the value above it",
                       QUOTED_BYTES(line.whole, length));
}

int config_parse(struct config *config, const struct config_text *from, struct config_lines **lines,
                 struct error *error) {
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    const char *text = from->text;
    if (strncmp(text, byte_order_mark, strlen(byte_order_mark)) == 0)
        text += strlen(byte_order_mark);
    struct parser parser = {.config = config, .from = from, .error = error, .next = text, .lines = *lines};
    AUTO_FREE char *pair = malloc(strlen(text) + 1);
    parser.pair = pair;
    if (!parser.lines)
        parser.lines = calloc(1, sizeof *parser.lines);
    *lines = parser.lines;
    if (!parser.lines || !pair)
        return out_of_memory(&parser);
#ifdef HAVE_INI_MAX_LINE
    ini_max_line = MAX_LINE + 3; // as ini.h says
#endif
    const int wrong_line = ini_parse_stream(read_line, &parser, handle_pair, &parser);
    if (!parser.failed)
        parser.failed = end_pair(&parser);
    *lines = parser.lines;
    if (wrong_line < 0)
        return out_of_memory(&parser);
    if (wrong_line > 0 && (!parser.failed || (uint32_t)wrong_line < parser.line))
        return refuse_no_pair(&parser, text, (uint32_t)wrong_line);
    return parser.failed;
}
