"""Pairs of .idx and .bin as Megatron-LM writes them: windows of packed documents, against plain slicing."""

import itertools
import os
import random
import struct
import sys

import consumer
import expected
import harness

TYPES = {1: "B", 2: "b", 3: "h", 4: "i", 5: "q", 8: "H"}


def pair(path, documents, kind=8, sequences=None):
    """documents: lists of tokens. `sequences`: how many each document is cut into."""
    parts, boundaries = [], [0]
    for number, document in enumerate(documents):
        cuts = sequences[number] if sequences else 1
        size = len(document) // cuts
        parts += [document[i * size : (i + 1) * size if i + 1 < cuts else None] for i in range(cuts)]
        boundaries.append(len(parts))
    item = struct.calcsize(TYPES[kind])
    offsets, at = [], 0
    for part in parts:
        offsets.append(at)
        at += len(part) * item
    header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, kind, len(parts), len(boundaries))
    lengths = struct.pack(f"<{len(parts)}i", *map(len, parts))
    places = struct.pack(f"<{len(parts)}q{len(boundaries)}q", *offsets, *boundaries)
    path.with_suffix(".idx").write_bytes(header + lengths + places)
    path.with_suffix(".bin").write_bytes(b"".join(struct.pack(f"<{len(d)}{TYPES[kind]}", *d) for d in documents))


def some(count, seed=1, most=50, limit=60000):
    dice = random.Random(seed)
    return [[dice.randrange(limit) for _ in range(dice.choice((0, 1, dice.randrange(most))))] for _ in range(count)]


def windows(pairs, length, kind=8):
    """The fields of every window. `kind` is a number of TYPES, or a code of struct."""
    content = {"tokens": [], "position": [], "document": []}
    first, kind = 0, TYPES.get(kind, kind)
    for documents in pairs:
        flat = [(token, place, first + number) for number, d in enumerate(documents) for place, token in enumerate(d)]
        for at in range(0, (len(flat) - 1) // length * length, length):
            window = flat[at : at + length + 1]
            for field, code, values in zip(content, (kind, "i", "i"), zip(*window)):
                content[field].append(struct.pack(f"<{len(values)}{code}", *values))
        first += len(documents)
    return content


def groups(parts, length):
    """How many windows begin in each of these parts of one sequence of documents, of those that have any."""
    ends = list(itertools.accumulate(sum(map(len, documents)) for documents in parts))
    count = (ends[-1] - 1) // length
    begun = [min(count, -(-end // length)) for end in ends]
    return [now - before for before, now in zip([0, *begun], begun) if now > before]


def serve(pairs, length, kind=8, **options):
    instance = harness.Instance()
    for number, documents in enumerate(pairs):
        pair(instance.directory / f"text-{number}", documents, kind)
    instance.add_dataset("text", format="megatron", path="text-*.idx", pack=length, **options)
    return instance


def check(feedd, content, batch_size=5, name="text", **options):
    expected.check_run(content, consumer.read(feedd, name, batch_size, **options), batch_size, **options)


def test_windows_of_two_pairs():
    """Documents without tokens, of one, and longer than windows."""
    pairs = [some(200), [[], [], *some(150, 2, 200), []]]
    for length in (1, 7, 64):
        for io in ("uring", "mapped"):
            with serve(pairs, length, io=io).start() as feedd:
                content = windows(pairs, length)
                check(feedd, content, batch_size=33)
                check(feedd, content, batch_size=50, epochs=2, shuffle=True, seed=3)


def test_every_type():
    for kind in TYPES:
        documents = some(30, kind, limit=100)
        with serve([documents], 16, kind).start() as feedd:
            check(feedd, windows([documents], 16, kind), shuffle=True)


def test_documents_of_several_sequences():
    documents = some(60, most=90)
    with harness.Instance() as feedd:
        pair(feedd.directory / "x", documents, sequences=[1 + number % 4 for number in range(60)])
        feedd.add_dataset("text", format="megatron", path="x.idx", pack=32)
        feedd.start()
        check(feedd, windows([documents], 32))


def test_one_document():
    with serve([[list(range(100))]], 33).start() as feedd:
        check(feedd, windows([[list(range(100))]], 33))


def test_views_and_transforms():
    documents = some(300)
    with serve([documents], 20) as feedd:
        feedd.add_view("val", "text", samples="80%..", split_seed=1, transform_position="cast f32")
        feedd.start()
        content = windows([documents], 20)
        count = len(content["tokens"])
        right = expected.view(content, count * 80 // 100, count, 1)
        floats = [struct.pack("<21f", *struct.unpack("<21i", window)) for window in right["position"]]
        check(feedd, {**right, "position": floats}, name="val", epochs=2, shuffle=True)


def test_verify():
    with serve([some(200), [[], [], *some(150, 2, 200), []]], 20) as feedd:
        feedd.add_view("val", "text", samples="80%..", split_seed=1)
        feedd.start()
        for name in ("text", "val"):
            done = feedd.ctl("read", name, "--epochs=2", "--shuffle", "--verify")
            assert "all bytes equal to the files', as feedd's index describes them" in done.stdout, done


def test_loaders_and_daemon_die():
    pairs = [some(300), some(200, 2)]
    content = windows(pairs, 10)
    with serve(pairs, 10).start() as feedd:
        count = -(-len(content["tokens"]) // 8)
        batches = consumer.read_through_kills(feedd, "text", 8, count, shuffle=True, epochs=1)
        expected.check_run(content, batches, 8, shuffle=True)


# ---- cu_seqlens --------------------------------------------------------------------------------------------


def boundaries(pairs, length, kind=8):
    """The fields of every window, with where documents begin and end among its first `length` tokens."""
    content = windows(pairs, length, kind)
    lists = []
    for window in content["document"]:
        numbers = struct.unpack(f"<{length + 1}i", window)[:length]
        inner = [at for at in range(1, length) if numbers[at] != numbers[at - 1]]
        lists.append(struct.pack(f"<{len(inner) + 2}i", 0, *inner, length))
    return {**content, "cu_seqlens": expected.Ragged(lists, 4)}


def test_cu_seqlens():
    """Of documents without tokens, of one, of those that end where a window does, and longer ones."""
    pairs = [some(200), [[], [], *some(150, 2, 200), []], [[1] * 7, [2] * 7, [3] * 8, [], [4] * 64, [5]]]
    for length in (1, 7, 64):
        with serve(pairs, length, cu_seqlens="yes").start() as feedd:
            content = boundaries(pairs, length)
            check(feedd, content, batch_size=33)
            check(feedd, content, batch_size=50, epochs=2, shuffle=True, seed=3)
            expected.check_run(content, consumer.read(feedd, "text", 8, shuffle=True, device="host:0"), 8, shuffle=True)
            done = feedd.ctl("read", "text", "--epochs=2", "--shuffle", "--verify")
            assert "all bytes equal to the files', as feedd's index describes them" in done.stdout, done


def test_cu_seqlens_of_one_length():
    """Filled up with the end of the window: documents without tokens, which kernels pass over."""
    documents = some(300)
    content = boundaries([documents], 20)
    rows = [struct.unpack(f"<{len(row) // 4}i", row) for row in content["cu_seqlens"]]
    assert 3 < max(map(len, rows)) < 16
    padded = [struct.pack("<16i", *(*row, *[20] * 16)[:16]) for row in rows]
    with serve([documents], 20, cu_seqlens="yes", pad_cu_seqlens="16 20") as feedd:
        feedd.add_view("val", "text", samples="80%..", split_seed=1)
        feedd.start()
        content = {**content, "cu_seqlens": padded}
        check(feedd, content, shuffle=True)
        assert "verified" in feedd.ctl("read", "text", "--epochs=1", "--verify").stdout
        count = len(padded)
        check(feedd, expected.view(content, count * 80 // 100, count, 1), name="val")


def test_cu_seqlens_while_loaders_and_daemon_die():
    pairs = [some(300), some(200, 2)]
    content = boundaries(pairs, 10)
    with serve(pairs, 10, cu_seqlens="yes").start() as feedd:
        count = -(-len(content["tokens"]) // 8)
        batches = consumer.read_through_kills(feedd, "text", 8, count, shuffle=True, epochs=1)
        expected.check_run(content, batches, 8, shuffle=True)


# ---- What is refused ---------------------------------------------------------------------------------------


def refuse(change, *parts, documents=None, pack=4, name="x.idx"):
    """change(index, data) alters the bytes of the pair."""
    with harness.Instance() as instance:
        path = instance.directory / "x"
        pair(path, documents or [[1, 2, 3], [4, 5], [6]])
        index, data = bytearray(path.with_suffix(".idx").read_bytes()), bytearray(path.with_suffix(".bin").read_bytes())
        changed = change(index, data) or (index, data)
        path.with_suffix(".idx").write_bytes(changed[0])
        path.with_suffix(".bin").write_bytes(changed[1])
        instance.add_dataset("text", format="megatron", path=name, pack=pack)
        done = instance.check()
        assert done.returncode != 0 and len(done.stderr.splitlines()) == 1, done
        for part in ("[dataset text] ", *parts):
            assert part in done.stderr, f"no {part!r} in {done.stderr!r}"


def put(offset, code, *values):
    def change(index, _):
        struct.pack_into("<" + code, index, offset, *values)

    return change


def test_indices_that_lie():
    """34 bytes of head, lengths at 34, offsets at 46, boundaries at 70."""
    refuse(put(0, "B", 0), "found no Megatron index")
    refuse(put(9, "Q", 2), "found version 2, wanted 1")
    for kind in (0, 6, 7, 9, 255):
        refuse(put(17, "B", kind), f"found tokens of type {kind}, wanted 1 to 5 or 8")
    for count in (2, 4, 1 << 40, (1 << 64) - 1, (1 << 64) // 12 + 1):
        refuse(put(18, "Q", count), f"12 for each of {count} sequences")
        refuse(put(26, "Q", count + 1 & (1 << 64) - 1), "boundaries of documents")
    refuse(put(34, "i", -1), "found a length of -1 for sequence 0")
    refuse(put(34, "i", 4), "found sequence 1 at offset 6, wanted 8: sequences that follow each other without gaps")
    refuse(put(46, "q", 2), "found sequence 0 at offset 2, wanted 0")
    refuse(put(62, "q", -2), "found sequence 2 at offset -2, wanted 10")
    refuse(put(70, "q", 1), "found sequence 1 where document 0 begins")
    refuse(put(78, "qq", 3, 2), "found sequence 2 where document 2 begins")
    refuse(put(94, "q", 2), "found sequence 2 where document 3 begins")
    refuse(put(94, "q", 4), "found sequence 4 where document 3 begins")
    refuse(lambda index, data: (index[:60], data), "found 60 bytes, wanted 34")
    refuse(lambda index, data: (index[:20], data), "found the end of the file")
    refuse(lambda index, data: (index[:34][:18] + struct.pack("<QQ", 0, 1) + bytes(8), data), "found no documents")


def test_a_document_that_is_too_long():
    """A position would not fit into 32 bits. No more than the index is read before that is found out."""
    length = (1 << 31) - 2

    def change(index, data):
        head = index[:18] + struct.pack("<QQ", 2, 2)
        return head + struct.pack("<2i2q2q", length, 2, 0, 2 * length, 0, 2), data

    refuse(change, "x.idx: found document 0 with 2147483648 tokens, wanted fewer than 2^31")


@harness.limit(60)
def test_sequences_take_no_memory():
    """Eight million of no tokens, in a file with holes: only documents count."""
    if harness.sanitized():
        harness.skip("the address sanitizer takes more memory than what is looked for")
    sequences, tokens = 8_000_000, 100
    with harness.Instance() as feedd:
        with (feedd.directory / "x.idx").open("wb") as index:
            index.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, sequences, 2))
            index.seek(4 * (sequences - 1), os.SEEK_CUR)
            index.write(struct.pack("<i", tokens))
            index.seek(8 * sequences, os.SEEK_CUR)
            index.write(struct.pack("<qq", 0, sequences))
        (feedd.directory / "x.bin").write_bytes(bytes(2 * tokens))
        feedd.add_dataset("text", format="megatron", path="x.idx", pack=9)
        feedd.write_config()
        # By a small program: until a child executes feedd, what its parent has counts as its own.
        measure = "import resource as r, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)"
        measure += "; print(r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss)"
        command = [harness.PROGRAMS / "feedd", "--config", feedd.config, "--check"]
        used_kib = int(feedd.program(sys.executable, "-c", measure, *command).stdout)
        assert used_kib < 40 << 10, used_kib


def test_pairs_that_do_not_match():
    refuse(lambda index, data: (index, data[:-1]), "x.bin: found 11 bytes, wanted 12, which its index says")
    refuse(lambda index, data: (index, data + b"1"), "x.bin: found 13 bytes, wanted 12")
    refuse(lambda index, data: None, "x.bin: found 6 tokens, wanted at least 7", pack=6)
    refuse(lambda index, data: None, "x.bin: found another name, wanted one that ends with .idx", name="x.bin")
    with harness.Instance() as instance:
        pair(instance.directory / "a", [[1, 2, 3]], 8)
        pair(instance.directory / "b", [[1, 2, 3]], 4)
        instance.add_dataset("text", format="megatron", path="*.idx", pack=2)
        done = instance.check()
        assert "b.idx: found tokens of i32, wanted u16 as in the first file" in done.stderr, done
        (instance.directory / "b.bin").unlink()
        (instance.directory / "b.idx").unlink()
        assert instance.check().returncode == 0
        (instance.directory / "a.bin").unlink()
        assert "a.bin: the file cannot be opened: No such file or directory" in instance.check().stderr
