// Broken configurations, and the sentence that each of them gets.
#include "base/error.h"
#include "base/sizes.h"
#include "tests/unit/source_fixture.h"

#define TOKENS "[dataset x]\nformat = tokens\npath = p\ndtype = u16\nlength = 4\n"
#define LONG64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const struct {
    const char *text;
    const char *sentence; // what follows the file's name
} broken[] = {
    {"loaders = 4\n",
     ":1: loaders: found before any section, wanted [feedd], [dataset NAME], [view NAME] or [mix NAME]"},
    {"[feedd\n", ":1: found \"[feedd\", wanted [feedd], [dataset NAME], [view NAME] or [mix NAME]"},
    {"[feedd] x\n", ":1: found \"[feedd] x\", wanted"},
    {"[feedd] = x\n", ":1: found \"[feedd] = x\", wanted"},
    {"[daemon]\n", ":1: found section [daemon], wanted [feedd], [dataset NAME], [view NAME] or [mix NAME]"},
    {"[dataset]\n", ":1: found [dataset], wanted a name of 1 to 63 letters"},
    {"[view]\n", ":1: found [view], wanted a name of 1 to 63 letters"},
    {"[view x]\n", ":1: [view x] of: found nothing, wanted the name of a dataset"},
    {"[view x]\nof = x\n", ":2: [view x] of: found \"x\", which is a view, wanted a dataset"},
    {"[view x]\nof = y\n[view x]\n",
     ":3: [view x]: found a second dataset, view or mix of that name, wanted one"},
    {"[view x]\nformat = npy\n", ":2: [view x] format: found in this section, wanted in [dataset NAME]"},
    {"[feedd]\nof = x\n", ":2: [feedd] of: found in this section, wanted in [view NAME]"},
    {TOKENS "[view y]\nof = y\n", "[view y] of: found \"y\", which is a view"},
    {TOKENS "[view y]\nof = X\n", "[view y] of: there is no dataset named \"X\""},
    {TOKENS "[view y]\nof = x\nsamples = 1-2\n",
     "[view y] samples: found \"1-2\", wanted BEGIN..END, each a number"},
    {TOKENS "[view y]\nof = x\nsamples = ..5\nsamples = ..6\n", "[view y] samples: found a second time"},
    {"[datasets x]\n", ":1: found section [datasets x], wanted"},
    {"[]\n", ":1: found section [], wanted"},
    {"\n\n[dataset a b]\n", ":3: found [dataset a b], wanted a name"},
    {"[dataset a/b]\n", ":1: found [dataset a/b], wanted a name"},
    {"[dataset " LONG64 "]\n", ", wanted a name of 1 to 63 letters"},
    {"[feedd]\n[feedd]\n", ":2: [feedd]: found a second time, wanted once; the first one is on line 1"},
    {TOKENS "[dataset x]\n", ":6: [dataset x]: found a second dataset, view or mix of that name, wanted one; "
                             "the first one is on line 1"},
    {"[feedd]\nloaders\n", ":2: found \"loaders\", wanted KEY = VALUE"},
    {"[feedd]\n  loaders\nring = 7q\n", ":2: found \"  loaders\", wanted KEY = VALUE"},
    {"[feedd]\nring = 7q\nloaders\n", ":2: [feedd] ring: found \"7q\""},
    {"[feedd]\nloaders = 4\n5\n", ":3: found \"5\", wanted KEY = VALUE, [feedd], [dataset NAME], [view NAME] "
                                  "or [mix NAME], or an indented "
                                  "line that continues the value above it"},
    {"[feedd]\nloaders = 4\n  5\n", ":2: [feedd] loaders: found \"4 5\", wanted auto or a whole number"},
    {"[feedd]\nloaders = 4\n\n  \a5\n", ":4: found the control character 0x07, wanted text"},
    {"[feedd]\nloaders = 4\n  rnig = 1M\n", ":3: [feedd] rnig: unknown key; perhaps you mean \"ring\""},
    {"[feedd]\nloaders ; = 4\n", ":2: found \"loaders ; = 4\", wanted KEY = VALUE"},
    {"[feedd]\n= 4\n", ":2: found a value without a key, wanted KEY = VALUE"},
    {"[feedd]\nloaders = 4\nio = auto\nloaders = 4\n",
     ":4: [feedd] loaders: found a second time, wanted once; the first one is on line 2"},
    {"[feedd]\nloaders =\n",
     ":2: [feedd] loaders: found \"\", wanted auto or a whole number of processes from 1 to 64"},
    {"[feedd]\nloaders = ; none\n", ":2: [feedd] loaders: found \"\", wanted auto or a whole number"},
    {"[feedd]\nloaders = four\n",
     ":2: [feedd] loaders: found \"four\", wanted auto or a whole number of processes from 1 to 64"},
    {"[feedd]\nloaders = 0\n",
     "[feedd] loaders: found \"0\", wanted auto or a whole number of processes from 1 to 64"},
    {"[feedd]\nloaders = 65\n", "[feedd] loaders: found \"65\", wanted"},
    {"[feedd]\nloaders = -1\n", "[feedd] loaders: found \"-1\", wanted"},
    {"[feedd]\nloaders = +1\n", "[feedd] loaders: found \"+1\", wanted"},
    {"[feedd]\nloaders = 4 # four\n", "[feedd] loaders: found \"4 # four\", wanted"},
    {"[feedd]\nloaders = 4K\n", "[feedd] loaders: found \"4K\", wanted"},
    {"[feedd]\nloaders = 0x4\n", "[feedd] loaders: found \"0x4\", wanted"},
    {"[feedd]\nloaders = 18446744073709551617\n", "[feedd] loaders: found \"18446744073709551617\", wanted"},
    {"[feedd]\nloaders = '4'\n", "[feedd] loaders: found '4', wanted the value without quotation marks"},
    {"[feedd]\nqueue_depth = 4097\n",
     "[feedd] queue_depth: found \"4097\", wanted a whole number of reads from 1 to 4096"},
    {"[feedd]\nring_memory = 4X\n",
     "[feedd] ring_memory: found \"4X\", wanted a size from 1M to 1024T: a whole number with K, M, G or T"},
    {"[feedd]\nring_memory = 4GB\n", "[feedd] ring_memory: found \"4GB\", wanted a size"},
    {"[feedd]\nring_memory = 1.5G\n", "[feedd] ring_memory: found \"1.5G\", wanted a size"},
    {"[feedd]\nring_memory = G\n", "[feedd] ring_memory: found \"G\", wanted a size"},
    {"[feedd]\nring_memory = 1K\n", "[feedd] ring_memory: found \"1K\", wanted a size from 1M"},
    {"[feedd]\nring_memory = 17592186044416T\n",
     "[feedd] ring_memory: found \"17592186044416T\", wanted a size"},
    {"[feedd]\nring = 5G\n", ":2: [feedd] ring: found \"5G\", wanted at most ring_memory, which is 4G"},
    {"[feedd]\nring_memory = 1G\nuser_ring_memory = 2G\n",
     ":3: [feedd] user_ring_memory: found \"2G\", wanted at most ring_memory, which is 1G"},
    {"[feedd]\nmax_lag = 5d\n",
     "[feedd] max_lag: found \"5d\", wanted a time from 1 to 604800 seconds: a whole number with s, m or h"},
    {"[feedd]\nmax_lag = 0\n", "[feedd] max_lag: found \"0\", wanted a time"},
    {"[feedd]\nmax_lag = 10ms\n", "[feedd] max_lag: found \"10ms\", wanted a time"},
    {"[feedd]\nlinger = 18446744073709551615h\n",
     "[feedd] linger: found \"18446744073709551615h\", wanted a time"},
    {"[feedd]\nio = fast\n", "[feedd] io: found \"fast\", wanted one of auto, uring, mapped, pread"},
    {"[feedd]\nio = AUTO\n", "[feedd] io: found \"AUTO\", wanted one of auto"},
    {"[feedd]\nio = auto|uring\n", "[feedd] io: found \"auto|uring\", wanted one of auto"},
    {"[feedd]\nlog_level = loud\n",
     "[feedd] log_level: found \"loud\", wanted one of error, warning, info, debug"},
    {"[feedd]\nsocket_mode = 0888\n",
     "[feedd] socket_mode: found \"0888\", wanted octal permissions from 000 to 0777"},
    {"[feedd]\nsocket_mode = 4777\n", "[feedd] socket_mode: found \"4777\", wanted octal"},
    {"[feedd]\nsocket_mode = 00660\n", "[feedd] socket_mode: found \"00660\", wanted octal"},
    {"[feedd]\nsocket_mode = 66\n", "[feedd] socket_mode: found \"66\", wanted octal"},
    {"[feedd]\nsocket = /" LONG64 "/" LONG64 "\n", ", wanted a path of 1 to 107 bytes"},
    {"[feedd]\nsocket = /tmp/x.sock # comment\n",
     ":2: [feedd] socket: found \"/tmp/x.sock # comment\", wanted nothing after the value (a comment there"},
    {"[dataset x]\nformat = npy\nfield.a = b#1.npy\t# comment\n", "(a comment there begins with ;)"},
    {"[feedd]\nsocket =\n", "[feedd] socket: found \"\", wanted a path of 1 to 107 bytes"},
    {"[feedd]\nloader = 4\n", ":2: [feedd] loader: unknown key; perhaps you mean \"loaders\""},
    {"[feedd]\nqueue-depth = 4\n", "[feedd] queue-depth: unknown key; perhaps you mean \"queue_depth\""},
    {"[feedd]\nLoaders = 4\n", "[feedd] Loaders: unknown key; perhaps you mean \"loaders\""},
    {"[feedd]\nelephants = 4\n", "[feedd] elephants: unknown key; feedd --help-config lists the known ones"},
    {"[feedd]\nrecord_bytes = 4\n", "[feedd] record_bytes: found in this section, wanted in [dataset NAME]"},
    {"[feedd]\nfield.x = 4\n", "[feedd] field.x: found in this section, wanted in [dataset NAME]"},
    {TOKENS "loaders = 4\n", ":6: [dataset x] loaders: found in this section, wanted in [feedd]"},
    {TOKENS "lenght = 4\n", "[dataset x] lenght: unknown key; perhaps you mean \"length\""},
    {"[dataset x]\npath = p\n", ":1: [dataset x] format: found nothing, wanted one of idx, records, npy, "
                                "tokens, tar, megatron, arrow, parquet, folder"},
    {"[dataset x]\nformat = zip\n", ":2: [dataset x] format: found \"zip\", wanted one of idx, records, npy, "
                                    "tokens, tar, megatron, arrow, parquet, folder"},
    {"[dataset x]\nformat = tokens\npath = p\nlength = 4\n",
     ":1: [dataset x] dtype: found nothing, wanted one of u8, i8, u16, i16, u32, i32, u64, i64, because "
     "format tokens needs it"},
    {"[dataset x]\nformat = tokens\npath = p\ndtype = u8\n",
     "[dataset x] length: found nothing, wanted a whole number of tokens from 1 to 1073741824, because "
     "format tokens needs it"},
    {"[dataset x]\nformat = tokens\ndtype = u8\nlength = 1\n",
     "[dataset x] path: found nothing, wanted a path or glob pattern"},
    {"[dataset x]\nformat = tokens\npath = p\ndtype = f32\nlength = 1\n",
     "[dataset x] dtype: found \"f32\", wanted one of u8"},
    {"[dataset x]\nformat = tokens\npath = p\ndtype = u8\nlength = 0\n",
     "[dataset x] length: found \"0\", wanted a whole number of tokens"},
    {TOKENS "field.x = y\n", ":6: [dataset x] field.x: found in a dataset of format tokens, wanted with "
                             "format idx records npy tar arrow parquet folder only"},
    {TOKENS "record_bytes = 4\n",
     ":6: [dataset x] record_bytes: found in a dataset of format tokens, wanted with format records only"},
    {"[dataset x]\nrecord_bytes = 4\nfield.a = b\nformat = idx\n",
     ":2: [dataset x] record_bytes: found in a dataset of format idx, wanted with format records only"},
    {"[dataset x]\nformat = npy\nfield.a = b\npath = c\n",
     ":4: [dataset x] path: found in a dataset of format npy, wanted with format records tokens tar megatron "
     "arrow parquet folder packed only"},
    {"[dataset x]\nformat = npy\nfield.a = b\nheader_bytes = 0\n",
     ":4: [dataset x] header_bytes: found in a dataset of format npy"},
    {"[dataset x]\nformat = npy\n", ":1: [dataset x] field.NAME: found nothing, wanted a path or glob "
                                    "pattern for each field, because format npy"},
    {"[dataset x]\nformat = tar\npath = p\n",
     ":1: [dataset x] field.NAME: found nothing, wanted TYPE @ EXTENSION for each field, such as "},
    {"[dataset x]\nformat = parquet\npath = p\n",
     ":1: [dataset x] field.NAME: found nothing, wanted TYPE @ COLUMN for each field, such as "},
    {"[dataset x]\nformat = floder\npath = p\n", "folder, packed; perhaps you mean \"folder\""},
    {"[dataset x]\nformat = WebDataset\npath = p\n", "; perhaps you mean \"tar\""},
    {TOKENS "on_error = skp\n", "wanted one of fail, skip, replace; perhaps you mean \"skip\""},
    {"[dataset x]\nformat = idx\n", ":1: [dataset x] field.NAME: found nothing"},
    {"[dataset x]\nformat = records\npath = p\nrecord_bytes = 4\n", "[dataset x] field.NAME: found nothing"},
    {"[dataset x]\nformat = records\npath = p\nfield.a = u8 @ 0\n",
     "[dataset x] record_bytes: found nothing"},
    {"[dataset x]\nformat = npy\nfield.a = b\nfield.a = c\n",
     ":4: [dataset x] field.a: found a second time, wanted once; the first one is on line 3"},
    {"[dataset x]\nformat = npy\nfield. = b\n",
     ":3: [dataset x] field.: found \"\" as a field's name, wanted 1 to 31 letters"},
    {"[dataset x]\nformat = npy\nfield.a b = b\n", "found \"a b\" as a field's name"},
    {"[dataset x]\nformat = npy\nfield.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa = b\n",
     "as a field's name, wanted 1 to 31 letters"},
    {"[dataset x]\nformat = npy\nfield.a =\n", "[dataset x] field.a: found \"\", wanted a path"},
    {"[dataset x]\nformat = npy\nfield.a = \"b.npy\"\n",
     "[dataset x] field.a: found \"b.npy\", wanted the value without quotation marks"},
    {TOKENS "transform.tokens = scale 2\ntransform.tokens = scale 3\n",
     ":7: [dataset x] transform.tokens: found a second time, wanted once; the first one is on line 6"},
    {TOKENS "transform.tokens =\n", ":6: [dataset x] transform.tokens: found \"\", wanted a list of steps"},
    {TOKENS "transform. = scale 2\n", ":6: [dataset x] transform.: found \"\" as a field's name"},
    {TOKENS "transform = scale 2\n", ":6: [dataset x] transform: unknown key"},
    {"[feedd]\ntransform.a = scale 2\n",
     ":2: [feedd] transform.a: found in this section, wanted in [dataset"},
    {TOKENS "io_direct = maybe\n", ":6: [dataset x] io_direct: found \"maybe\", wanted yes or no"},
    {TOKENS "io_direct = yes\nio = mapped\n", ":6: [dataset x] io_direct: found \"yes\" with io = mapped"},
    {"[dataset x]\nformat = folder\npath = p\nfield.a = bytes @ file\nio_direct = yes\n",
     ":5: [dataset x] io_direct: found in a dataset of format folder, wanted with format idx records npy "
     "tokens tar megatron arrow parquet packed only"},
    {TOKENS "csv = a\n",
     ":6: [dataset x] csv: found in a dataset of format tokens, wanted with format folder only"},
    {"[feedd]\nio = mapped\n" TOKENS "io_direct = yes\n",
     ":8: [dataset x] io_direct: found \"yes\" with io = mapped"},
    {TOKENS "io = pread\nio_delay_us = 1\n",
     ":7: [dataset x] io_delay_us: found with io = pread, wanted io = uring or auto"},
    {TOKENS "io_delay_us = 2ms\n",
     "[dataset x] io_delay_us: found \"2ms\", wanted a whole number of microseconds"},
    {TOKENS "allow_users = root, nobody-by-this-name\n",
     ":6: [dataset x] allow_users: found \"nobody-by-this-name\", wanted the name or number of a user of this"
     " machine"},
    {TOKENS "allow_users = root\nallow_groups = 1 no-such-group\n",
     ":7: [dataset x] allow_groups: found \"no-such-group\", wanted the name or number of a group of this"
     " machine"},
    {TOKENS "allow_groups = ,\n", ":6: [dataset x] allow_groups: found no name, wanted at least one"},
    {TOKENS "allow_users =\n",
     ":6: [dataset x] allow_users: found \"\", wanted a list of users of 1 to 255 bytes"},
    {"[feedd]\nallow_users = root\n",
     ":2: [feedd] allow_users: found in this section, wanted in [dataset NAME]"},
    {"[feedd]\nview_memory = 1G\nuser_view_memory = 2G\n",
     ":3: [feedd] user_view_memory: found \"2G\", wanted at most view_memory, which is 1G"},
    {"[feedd]\ncache_memory = 1G\nuser_cache_memory = 2G\n",
     ":3: [feedd] user_cache_memory: found \"2G\", wanted at most cache_memory, which is 1G"},
    {"[dataset x]\nformat = folder\npath = y\nfield.a = bytes @ file\ncache_size = 128\n",
     ":5: [dataset x] cache_size: found without cache, wanted both: cache = SIZE keeps decoded images"},
    {"[dataset x]\nformat = folder\npath = y\nfield.a = bytes @ file\ncache_path = /d\n",
     ":5: [dataset x] cache_path: found without cache, wanted both"},
    {"[feedd]\ncache_memory = 1G\n[dataset x]\nformat = folder\npath = y\nfield.a = bytes @ file\ncache = "
     "2G\n",
     ":7: [dataset x] cache: found \"2G\", wanted at most cache_memory, which is 1G, or a cache_path"},
    {"[feedd]\ndevice_memory = 1G\nuser_device_memory = 2G\n",
     ":3: [feedd] user_device_memory: found \"2G\", wanted at most device_memory, which is 1G"},
    {"[feedd]\nuser_feeds = 65\n",
     "[feedd] user_feeds: found \"65\", wanted a whole number of feeds from 0 to 64"},
    {TOKENS "on_error = retry\n", "[dataset x] on_error: found \"retry\", wanted one of fail, skip, replace"},
    {TOKENS "shuffle_window = -1\n",
     "[dataset x] shuffle_window: found \"-1\", wanted a whole number of groups from 0 to 131072"},
    {"[dataset x]\nformat = folder\npath = /d\nfield.x = bytes @ file\nshuffle_window = 2\n",
     ":5: [dataset x] shuffle_window: found in a dataset of format folder, wanted with format idx"},
    {"[dataset x]\nformat = folder\npath = /d\nfield.x = bytes @ file\n"
     "[view y]\nof = x\nshuffle_window = 2\n",
     ":7: [view y] shuffle_window: found in a view of a dataset of format folder, wanted with format idx"},
    {TOKENS "[view y]\nof = x\nsplit_seed = 1\nshuffle_window = 2\n",
     "[view y] shuffle_window: found together with split_seed, wanted one of them: samples that lie anywhere "
     "in"
     " the dataset are shuffled as a whole"},
    {TOKENS "[view y]\nof = x\nindices = /d/i.npy\nshuffle_window = 2\n",
     "[view y] shuffle_window: found together with indices, wanted one of them"},
    {TOKENS "[view y]\nof = x\nweights = /d/w.npy\nshuffle_window = 2\n",
     "[view y] shuffle_window: found together with weights, wanted one of them"},
    {"[feedd]\nloaders = \x1b[31m4\n", ":2: found the control character 0x1b, wanted text"},
    {"[feedd]\nsocket = /" LONG64 LONG64 LONG64 LONG64 "\n", "aaaaa...\", wanted a path of 1 to 107 bytes"},
    {"[feedd]\n" LONG64 LONG64 LONG64 LONG64 " = 1\n", ":2: found a key of 256 bytes, wanted at most 200"},
    {"[feedd]\n" LONG64 LONG64 LONG64 LONG64 "\n", "aaaaa...\", wanted KEY = VALUE"},
    {"[feedd]\nsocket = x\n[feedd]\n[dataset ?]\n", ":3: [feedd]: found a second time"},
};

static void test_broken(void **state) {
    (void)state;
    char wanted[1024];
    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        struct config *config;
        struct error error;
        int err = load_text(broken[i].text, &config, &error);
        const char *path = path_in_folder("feedd.conf");
        bool whole = broken[i].sentence[0] == ':';
        snprintf(wanted, sizeof wanted, "%s%s", whole ? path : "", broken[i].sentence);
        const char *found = strstr(error.text, wanted);
        if (err != -EINVAL || !found || (whole && found != error.text))
            fail_msg("%s\n  gave    %d, %s\n  wanted  %s", broken[i].text, err, error.text, wanted);
        assert_int_equal(error.code, -EINVAL);
        assert_null(config);
        assert_int_equal(strncmp(error.text, path, strlen(path)), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_broken)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
