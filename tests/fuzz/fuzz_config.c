// feedd.conf: the text is parsed and checked, and compared with the one before it, as a reload does. No data file is
// opened.
#include "daemon/config/config.h"
#include "daemon/config/config_changes.h"
#include "tests/fuzz/fuzz.h"

static void describe(const struct config *old, const struct config *new) {
    char all[4096], little[80];
    struct change_lines lines = {.text = all, .bytes = sizeof all};
    config_describe_changes(old, new, "/run/feedd/feedd.sock", &lines);
    change_lines_end(&lines);
    FUZZ_CHECK(strlen(all) < sizeof all);
    FUZZ_CHECK((lines.count == 0) == (*all == '\0'));
    struct change_lines few = {.text = little, .bytes = sizeof little};
    config_describe_changes(old, new, "/run/feedd/feedd.sock", &few);
    change_lines_end(&few);
    FUZZ_CHECK(strlen(little) < sizeof little && few.count == lines.count);
}

static void check_datasets(const struct config *config) {
    for (size_t i = 0; i < config->dataset_count; i++) {
        const struct dataset_config *dataset = &config->datasets[i];
        FUZZ_CHECK(dataset->name && *dataset->name && dataset->format);
        FUZZ_CHECK(dataset->path || dataset->field_count || dataset->source_count);
        FUZZ_CHECK(dataset->mix == (dataset->source_count > 0));
        for (size_t k = 0; k < dataset->source_count; k++) {
            FUZZ_CHECK(dataset->source_numbers[k] < config->dataset_count && dataset->source_weights[k]);
            FUZZ_CHECK(!config->datasets[dataset->source_numbers[k]].mix);
        }
        for (size_t k = 0; k < dataset->field_count; k++)
            FUZZ_CHECK(*dataset->fields[k].name && *dataset->fields[k].value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct config *before; // the last one that was good
    static int fd = -1;
    char path[32];
    struct config *config;
    struct error error = {0};
    if (fd < 0) {
        fd = fuzz_memory_file();
        before = config_defaults();
        FUZZ_CHECK(before);
    }
    fuzz_write(fd, data, size);
    int err = config_load(fuzz_path(fd, path), &config, &error);
    FUZZ_CHECK(err ? !config && error.code == err && *error.text : config != NULL);
    if (err)
        return 0;
    check_datasets(config);
    describe(before, config);
    describe(config, config);
    config_free(before);
    before = config;
    return 0;
}
