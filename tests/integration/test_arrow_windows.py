"""Documents in lists of Arrow files, packed into windows that extend across record batches and files."""

import os
import struct

import arrow_writer as arrow
import consumer
import expected
import harness
import test_megatron

LISTS = {"list": (arrow.LIST, "i"), "large_list": (arrow.LARGE_LIST, "q")}
SEVERAL = [
    [test_megatron.some(60, 1), test_megatron.some(1, 2), [[]] * 3, [], test_megatron.some(100, 3, 300)],
    [[], [[]]],
    [[[7]], [[8], [], [9]], test_megatron.some(30, 4, 9)],
    [test_megatron.some(40, 5), [list(range(500))]],
]  # fmt: skip


def columns(bits=16, kind=arrow.LIST, signed=False, **more):
    item = arrow.integer(bits, signed, "item")
    return [arrow.integer(32, name="row"), arrow.field("input_ids", kind, children=[item], **more)]


def batch(documents, code="H", form="i", before=0, after=0):
    """`before` and `after`: how many values are there that no row has, as in a slice."""
    rows, values = len(documents), [0] * before + [token for document in documents for token in document] + [0] * after
    nodes = [(rows, 0), (rows, 0), (len(values), 0)]
    content = [b"", struct.pack(f"<{rows}i", *range(rows)), b"", arrow.offsets(map(len, documents), form, before)]
    return arrow.batch(rows, nodes, [*content, b"", struct.pack(f"<{len(values)}{code}", *values)])


def write(instance, files, kind="list", code="H", bits=16, **places):
    """Every second one is a stream."""
    form, offsets = LISTS[kind]
    for number, batches in enumerate(files):
        make = arrow.file if number % 2 else arrow.stream
        written = [batch(documents, code, offsets, **places) for documents in batches]
        content = make(columns(bits, form, code.islower()), written)
        (instance.directory / f"hf-{number}.arrow").write_bytes(content)


def declare(instance, pack, name="hf", column="u16[] @ input_ids", **options):
    fields = {"pack": pack, "field_tokens": column, **options}
    instance.add_dataset(name, format="arrow", path="hf-*.arrow", **{key: value for key, value in fields.items() if value})


def serve(files, pack, settings=None, **options):
    instance = harness.Instance(**(settings or {}))
    write(instance, files)
    declare(instance, pack, **options)
    return instance


def windows(files, length, code="H"):
    return test_megatron.windows([[document for batches in files for batch in batches for document in batch]], length, code)


def check(feedd, content, batch_size=7, name="hf", **options):
    expected.check_run(content, consumer.read(feedd, name, batch_size, **options), batch_size, **options)


# ---- What is delivered -------------------------------------------------------------------------------------


def test_windows_across_batches_and_files():
    """Most windows of 300 tokens lie in several; most of 1 and 7 in one. Files end in the middle of windows."""
    for length in (1, 7, 300):
        content = windows(SEVERAL, length)
        for io in ("uring", "mapped", "pread"):
            with serve(SEVERAL, length, {"io": io}).start() as feedd:
                check(feedd, content, batch_size=33)
                check(feedd, content, batch_size=50, epochs=2, shuffle=True, seed=3)


def test_direct():
    """Of windows that are large enough to be read in parts."""
    files = [[[list(range(i, i + 50000))] for i in range(5)], [[list(range(9000))] for _ in range(9)]]
    for length in (3000, 80000):
        with serve(files, length, {"io": "uring"}, io_direct="yes").start() as feedd:
            check(feedd, windows(files, length), 2, shuffle=True)


def test_windows_that_are_read_in_pieces():
    """A window may be larger than what one request reads, and lie in several batches besides."""
    files = [[[[number] * 700_000, list(range(60000))] for number in range(3)]]
    with serve(files, 1_000_000).start() as feedd:
        check(feedd, windows(files, 1_000_000), 1)


def test_lists_of_every_kind():
    for kind in LISTS:
        for code, bits, name in (("B", 8, "u8"), ("b", 8, "i8"), ("h", 16, "i16"), ("i", 32, "i32"), ("Q", 64, "u64")):
            files = [[test_megatron.some(20, 6, limit=100), test_megatron.some(20, 7, limit=100)]]
            with harness.Instance() as feedd:
                write(feedd, files, kind, code, bits)
                declare(feedd, 16, column=f"{name}[] @ input_ids")
                feedd.start()
                check(feedd, windows(files, 16, code), shuffle=True)


def test_slices():
    """Offsets that do not begin with 0, and values beyond the last one."""
    for kind in LISTS:
        with harness.Instance() as feedd:
            write(feedd, SEVERAL, kind, before=11, after=5)
            declare(feedd, 20)
            feedd.start()
            check(feedd, windows(SEVERAL, 20))


def test_lists_of_one_length():
    """Declared with it: a list of which all have as many, or one of a fixed size."""
    documents = [[number * 8 + i for i in range(8)] for number in range(50)]
    fixed = columns(16, arrow.FIXED_LIST, parameters={0: arrow.i32(8)})
    values = struct.pack("<400H", *range(400))
    rows = [b"", struct.pack("<50i", *range(50)), b"", b"", values]
    with harness.Instance() as feedd:
        write(feedd, [[documents[:20], documents[20:]]])
        one = arrow.batch(50, [(50, 0), (50, 0), (400, 0)], rows)
        (feedd.directory / "fixed.arrow").write_bytes(arrow.stream(fixed, [one, one]))
        declare(feedd, 30, column="u16[8] @ input_ids")
        feedd.add_dataset("fixed", format="arrow", path="fixed.arrow", pack=30, field_tokens="u16[8] @ input_ids")
        feedd.start()
        check(feedd, windows([[documents]], 30))
        check(feedd, windows([[documents * 2]], 30), name="fixed", shuffle=True)


def test_bytes_of_text():
    """As a model without a tokeniser reads them. The field may have any name."""
    texts = [b"one", b"", b"three and more", b"four"] * 9
    column = [arrow.field("text", arrow.UTF8)]
    with harness.Instance() as feedd:
        one = arrow.batch(36, [(36, 0)], arrow.strings(texts))
        (feedd.directory / "a.arrow").write_bytes(arrow.stream(column, [one] * 3))
        feedd.add_dataset("hf", format="arrow", path="a.arrow", pack=10, field_text="bytes")
        feedd.start()
        content = windows([[texts * 3]], 10, "B")
        check(feedd, {"text" if name == "tokens" else name: values for name, values in content.items()})


def boundaries(files, length):
    return test_megatron.boundaries([[document for batches in files for batch in batches for document in batch]], length)


def test_cu_seqlens():
    for length in (1, 7, 64):
        with serve(SEVERAL, length, cu_seqlens="yes").start() as feedd:
            content = boundaries(SEVERAL, length)
            check(feedd, content, batch_size=33)
            check(feedd, content, batch_size=50, epochs=2, shuffle=True, seed=3)
            expected.check_run(content, consumer.read(feedd, "hf", 8, shuffle=True, device="host:0"), 8, shuffle=True)
    with serve(SEVERAL, 64, cu_seqlens="yes", pad_cu_seqlens="40 64").start() as feedd:
        rows = [struct.unpack(f"<{len(row) // 4}i", row) for row in content["cu_seqlens"]]
        check(feedd, {**content, "cu_seqlens": [struct.pack("<40i", *(*row, *[64] * 40)[:40]) for row in rows]})


def test_verify():
    for more in ({}, {"cu_seqlens": "yes"}):
        with serve(SEVERAL, 50, **more) as feedd:
            feedd.add_view("val", "hf", samples="80%..", split_seed=1)
            feedd.start()
            for name in ("hf", "val"):
                done = feedd.ctl("read", name, "--epochs=2", "--shuffle", "--verify")
                assert "all bytes equal to the files', as feedd's index describes them" in done.stdout, done


def test_verify_says_where_bytes_differ():
    """In the second file that a window lies in: feedctl finds another one than the loaders have open."""
    files = [[[[1] * 30]], [[[2] * 30]]]
    with serve(files, 50).start() as feedd:
        path = feedd.indexed().directory / "hf-1.arrow"
        content = bytearray(path.read_bytes())
        at = content.index(b"\2\0" * 30) + 2 * 9
        content[at] = 77
        path.unlink()
        path.write_bytes(content)
        done = feedd.ctl("read", "hf", "--epochs=1", "--verify", check=False)
        place = f"field tokens of sample 0 (number 0 of the batch) differs at byte 78: 2 was delivered, {path} has 77"
        assert done.returncode == 1 and f"{place} at offset {at}" in done.stderr, done


def test_show_and_check():
    with serve(SEVERAL, 20, cu_seqlens="yes") as feedd:
        stdout = feedd.check().stdout
        for part in ("tokens: u16[21]", "position: i32[21]", "document: i32[21]", "cu_seqlens"):
            assert part in stdout, stdout
        feedd.start()
        done = feedd.ctl("show", "hf", "1")
        for part in ("tokens", "position", "document", "cu_seqlens"):
            assert part in done.stdout, done


def test_views_and_transforms():
    with serve(SEVERAL, 20, transform_tokens="cast i64") as feedd:
        feedd.add_view("val", "hf", samples="80%..", split_seed=1, transform_position="cast f32")
        feedd.start()
        content = windows(SEVERAL, 20)
        content["tokens"] = [struct.pack("<21q", *struct.unpack("<21H", window)) for window in content["tokens"]]
        check(feedd, content, shuffle=True)
        count = len(content["tokens"])
        right = expected.view(content, count * 80 // 100, count, 1)
        floats = [struct.pack("<21f", *struct.unpack("<21i", window)) for window in right["position"]]
        check(feedd, {**right, "position": floats}, name="val", epochs=2, shuffle=True)


def test_a_mix_with_windows_of_pairs():
    documents = test_megatron.some(200, 9)
    with serve(SEVERAL, 20) as feedd:
        test_megatron.pair(feedd.directory / "x", documents)
        feedd.add_dataset("pair", format="megatron", path="x.idx", pack=20)
        feedd.add_mix("both", {"hf": 1, "pair": 2}, 300)
        feedd.start()
        sources = [windows(SEVERAL, 20), test_megatron.windows([documents], 20)]
        mix = expected.Mixed([expected.Source(content) for content in sources], [1, 2], 300)
        mix.check(consumer.read(feedd, "both", 6, shuffle=True, epochs=1), shuffle=True)


def test_shuffled_by_files():
    """With shuffle_window, windows belong to the file that they begin in, of which some have none."""
    with serve(SEVERAL, 50, shuffle_window=2).start() as feedd:
        files = [[document for one in batches for document in one] for batches in SEVERAL]
        order = {"shuffle": True, "seed": 3, "epochs": 2}
        batches = consumer.read(feedd, "hf", 8, **order)
        groups = expected.Shuffled(2, test_megatron.groups(files, 50))
        assert len(groups.groups) == 3
        expected.check_run(windows(SEVERAL, 50), batches, 8, windows=groups, **order)


def test_resumed_with_another_world_size():
    content = windows(SEVERAL, 20)
    order = {"shuffle": True, "seed": 21, "epochs": 2}
    with serve(SEVERAL, 20).start() as feedd:
        with consumer.Consumer(feedd, "hf", 10, step=True, **order) as reader:
            reader.attached()
            together, token = reader.take(13), reader.token()
        for rank in range(3):
            shape = {"rank": rank, "world_size": 3, "local_world_size": 1}
            after = consumer.read(feedd, "hf", 10, resume=token, **{**order, **shape})
            expected.check_bytes(content, after)
            together += after
        assert expected.check_exactly_once(len(content["tokens"]), together) == 2


def test_loaders_and_daemon_die():
    content = windows(SEVERAL, 10)
    with serve(SEVERAL, 10, cu_seqlens="yes").start() as feedd:
        count = -(-len(content["tokens"]) // 8)
        batches = consumer.read_through_kills(feedd, "hf", 8, count, shuffle=True, epochs=1)
        expected.check_run(boundaries(SEVERAL, 10), batches, 8, shuffle=True)


def test_a_file_that_is_cut_later():
    """Windows that lie in what is missing are skipped, also those that begin before it."""
    files = [[[[1] * 1000]], [[[2] * 1000], [[3] * 1000]], [[[4] * 1000]]]
    with serve(files, 300, {"io": "pread"}, on_error="skip") as feedd:
        path = feedd.directory / "hf-1.arrow"
        feedd.start().indexed()
        os.truncate(path, path.read_bytes().index(b"\3\0" * 9) + 2 * 500)
        batches = consumer.read(feedd, "hf", 4)
        assert sum(batch["skipped"] for batch in batches) == 2  # with tokens from 2500 up to 3000
        expected.check_bytes(windows(files, 300), batches)


# ---- The index ---------------------------------------------------------------------------------------------


def test_a_kept_index():
    """It serves the same, as long as fields, windows and files are the same."""
    for more in ({}, {"cu_seqlens": "yes"}):
        with serve(SEVERAL, 20, {"index_folder": "kept"}, **more) as feedd:
            (feedd.directory / "kept").mkdir(mode=0o755)
            assert "made in" in feedd.check().stdout and "read in" in feedd.check().stdout
            feedd.start()
            content = boundaries(SEVERAL, 20) if more else windows(SEVERAL, 20)
            check(feedd, content, shuffle=True)
            done = feedd.ctl("read", "hf", "--epochs=1", "--verify")
            assert "all bytes equal" in done.stdout, done
            feedd.datasets["hf"]["pack"] = 21
            feedd.write_config()
            assert "made in" in feedd.check().stdout and "read in" in feedd.check().stdout
            write(feedd, [*SEVERAL[:3], [[[1, 2, 3]]]])
            assert "made in" in feedd.check().stdout and "read in" in feedd.check().stdout


def test_a_kept_index_of_windows_and_of_documents():
    """The same files, with pack and without."""
    with serve(SEVERAL, 20, {"index_folder": "kept"}) as feedd:
        (feedd.directory / "kept").mkdir(mode=0o755)
        assert "made in" in feedd.check().stdout
        del feedd.datasets["hf"]["pack"]
        feedd.write_config()
        assert "made in" in feedd.check().stdout and "read in" in feedd.check().stdout


def test_many_record_batches():
    """10,000 of them, whose index is made and read soon, and of which each window lies in several."""
    files = [[[[number % 7]] * 3 for number in range(first, first + 5000)] for first in (0, 5000)]
    with serve(files, 99, {"index_folder": "kept"}) as feedd:
        (feedd.directory / "kept").mkdir(mode=0o755)
        assert "made in" in feedd.check().stdout and "read in" in feedd.check().stdout
        feedd.start()
        check(feedd, windows(files, 99), 20, shuffle=True)


# ---- What is refused ---------------------------------------------------------------------------------------


def refuse(files, *parts, pack=4, content=None, **options):
    with serve(files, pack, **options) as instance:
        if content:
            (instance.directory / "hf-0.arrow").write_bytes(content)
        done = instance.check()
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done
        for part in ("[dataset hf] ", *parts):
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def test_declarations():
    one = [[[[1, 2, 3], [4, 5]]]]
    refuse(one, 'pack: found 2 fields, wanted one, which has the documents', field_row="i32")
    for value in ("f32[] @ input_ids", "u16 @ input_ids", "u16[2,2] @ input_ids", "length @ input_ids"):
        refuse(one, f'field.tokens: found "{value}", wanted what pack can lay end to end: DTYPE[] or DTYPE[N] of integers',
               column=value)  # fmt: skip
    refuse(one, 'found column "input_ids" of type list, which can be declared as u16[]', column="i32[] @ input_ids")
    refuse(one, "pad.tokens: found no field of that name with samples of different lengths", pad_tokens="4")
    for name in ("position", "document", "cu_seqlens"):
        refuse(one, f"field.{name}: found the name of a field that pack adds, wanted another one, such as tokens", column=None,
               **{f"field_{name}": "u16[] @ input_ids"})  # fmt: skip
    refuse(one, "cu_seqlens: found \"yes\" without pack", pack=None, cu_seqlens="yes")
    refuse(one, "found 5 tokens in all files, wanted at least 6, which is one window of pack+1", pack=5)
    refuse([[], []], "found 0 tokens in all files, wanted at least 5")
    refuse(one, "found samples of u64[134217729], wanted from 1 byte to 1 GiB each", pack=1 << 27, column="u64[] @ input_ids")


def test_windows_in_too_many_batches():
    files = [[[[1]]] * 1024, [[[1]]]]
    with serve(files, 1023).start() as feedd:
        check(feedd, windows(files, 1023), 1)
    refuse(files, "found a window in 1025 record batches or row groups, wanted at most 1024; write larger ones", pack=1024)


def test_nulls():
    rows = [b"", bytes(8), b"", arrow.offsets([2, 3]), b"", struct.pack("<5H", *range(5))]
    for nodes in ([(2, 0), (2, 1), (5, 0)], [(2, 0), (2, 0), (5, 1)]):
        content = arrow.stream(columns(), [arrow.batch(2, nodes, rows)])
        refuse([[]], 'batch 1: found 1 null in column "input_ids", wanted none', content=content)


def test_offsets_that_lie():
    def lie(*values, form="i", **options):
        raw = struct.pack(f"<{len(values)}{form}", *values)
        count = len(values) - 1
        rows = [b"", bytes(4 * count), b"", raw, b"", struct.pack("<10H", *range(10))]
        one = arrow.batch(count, [(count, 0), (count, 0), (10, 0)], rows)
        kind = arrow.LIST if form == "i" else arrow.LARGE_LIST
        refuse([[]], 'of column "input_ids", wanted them to rise and to end by 10',
               content=arrow.stream(columns(kind=kind), [one]), **options)  # fmt: skip

    lie(0, 5, 4)
    lie(0, 11)
    lie(-1, 5)
    lie(0, -1, 5)
    lie(0, 5, 1 << 40, form="q")
    lie(-(1 << 63), 5, form="q")
