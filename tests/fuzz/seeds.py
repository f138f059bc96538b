#!/usr/bin/env python3
"""Makes the seed corpus, tests/fuzz/corpus: small inputs from which the fuzz targets start.

Each target's file says how its input is taken apart; the functions here put it together. Run it again when that changes. Other
files in the corpus are inputs that fuzzing has found.
"""

import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests/integration"))
import arrow_seeds  # noqa: E402
import gpu_image_seeds  # noqa: E402
import image_seeds  # noqa: E402
import image_step_seeds  # noqa: E402
import packed_seeds  # noqa: E402
import parquet_seeds  # noqa: E402
import wire  # noqa: E402
from parts import number, patch, patch_at, u16  # noqa: E402
from seeds_folder import folders  # noqa: E402
from session_seeds import sessions  # noqa: E402
from tar_seeds import archives  # noqa: E402

IDX_IMAGES = bytes([0, 0, 8, 3]) + struct.pack(">3I", 4, 2, 3) + bytes(range(24))
IDX_LABELS = bytes([0, 0, 8, 1]) + struct.pack(">I", 4) + bytes(4)


def client(body, **fields):
    return wire.encode("ClientMessage", {body: fields})


def server(body, **fields):
    return wire.encode("ServerMessage", {body: fields})


def frame(message):
    return struct.pack("<I", len(message)) + message


# ---- Targets ------------------------------------------------------------------------------------------------

ATTACH = {"dataset": "numbers", "batch_size": 8, "shuffle": True, "seed": 7, "world_size": 2, "share": "a", "prefetch": 4}
FIELDS = [
    {"name": "image", "dtype": 12, "shape": [3, 32, 32], "stored": 2, "transform": "scale 1/255"},
    {"name": "label", "dtype": 2},
]
STATUS = {
    "version": "0.1.0", "pid": 7, "uptime_ns": 10**12, "config_path": "/etc/feedd.conf", "ring_memory": 1 << 32,
    "last_errors": ["3 s ago: loader 1 of feed 2 was killed"], "gpus": [{"uuid": "GPU-1-2", "state": "running"}],
}  # fmt: skip
DATASET = {"name": "d", "format": "idx", "samples": 60000, "sample_bytes": 785, "fields": FIELDS}
FEED = {"id": 1, "name": "f", "dataset": "d", "batch_size": 8, "world_size": 2, "slots": 64, "state": "running"}
CLIENT = {"session": 1, "name": "c", "pid": 9, "feed": 1, "prefetch": 4, "held": 2, "device": "cpu"}
EXTENTS = [{"field": 0, "bytes": 8}, {"field": 1, "offset": 8, "bytes": 1}]
PROCESS = {"role": "loader", "pid": 3, "state": "running", "feed": 1, "serial": 2, "reader": "uring"}
ANSWERS = {
    "status": {"status": STATUS},
    "datasets": {"datasets": [DATASET], "next": 0},
    "feeds": {"feeds": [FEED]},
    "clients": {"clients": [CLIENT]},
    "files": {"files": [{"path": "/data/f", "samples": 100, "record_bytes": 9, "extents": EXTENTS}]},
    "processes": {"processes": [PROCESS]},
}


def frames():
    questions = [
        client("hello", version=1, client_name="me"),
        client("attach", **ATTACH),
        client("release", slots=[1, 2, 300], waiting=True),
        client("query", kind=4, name="numbers", start=12),
        client("command", kind=1),
        client("command", kind=3, name="1", count=2),
        client("bring", dataset="numbers", kind=3, count=2, dtype=9, hash=1 << 63),
        client("piece", words=bytes(16)),
    ]
    answers = [
        server("welcome", version=1, daemon_version="0.1.0", pid=4),
        server("attached", feed=1, ring_bytes=65536, prefetch=4),
        server("grant", sequence=5, slots=[0, 1, 2], wait_for=1, fills=[1, 1, 2]),
        server("end"),
        server("error", code=2, text="no"),
        server("done", text="it is done"),
        server("wanted"),
        server("brought", samples=1000),
        server("slot_memory", slot=3, bytes=2 << 20),
    ]
    for name, answer in ANSWERS.items():
        yield f"answer-{name}", bytes([0, 0]) + frame(server("answer", **answer))
    yield "questions", bytes([7, 0]) + b"".join(map(frame, questions))
    yield "answers", bytes([0, 2]) + b"".join(map(frame, answers))
    yield "field-zero", bytes([0, 2]) + frame(bytes.fromhex("1208080110801880 0000"))
    # Each takes two bytes here and some hundred when it is decoded: the arena's limit is what stops it.
    yield "many-feeds", bytes([0, 0]) + frame(server("answer", feeds=[{}] * 6000))
    yield "too-long", bytes([0, 5]) + struct.pack("<I", 65537) + bytes(20)


def configs():
    yield "sample", (ROOT / "systemd/feedd.conf").read_bytes()
    yield "settings", b"""[feedd]
socket = /tmp/s\nsocket_group = users\nsocket_mode = 0600\nring_memory = 2G\nring = 64M\nloaders = 2\nio = uring
mapped_limit = 1T\nqueue_depth = 64\nlog_level = debug\nmax_lag = 5m\nlinger = 1h\nuser_sessions = 9
user_ring_memory = 1G\nsimulated_gpus = 2
"""
    yield "records", b"""[dataset a]
format = records\npath = /data/*.bin ; comment\nrecord_bytes = 12\nfield.x = f32[2] @ 0\nfield.y = i32 @ 8
transform.x = mean 0.5 0.25, std 2, cast f16\non_error = skip
"""
    yield "tokens", b"""[dataset t]\r
format=tokens\r\npath=t.bin\r\ndtype=u16\r\nlength=128\r\nheader_bytes=1024\r\nio_direct=yes\r
"""
    yield "idx", b"""\xef\xbb\xbf[ dataset  i ]
  format = idx\n\tfield.image = a.idx\nfield.label = b.idx\nio = mapped\n# end
"""
    yield "view", b"""[dataset a]
format = records\npath = a.bin\nrecord_bytes = 8\nfield.x = u64 @ 0\ntransform.x = scale 2\nallow_users = root
[view part]\nof = a\nsamples = 10%..33.3333%\nsplit_seed = 3\ntransform.x = cast f16\n[view rest]\nof = a\nsamples = 5..
[view drawn]\nof = a\nweights = w.npy\nepoch_samples = 1000
[view all]\nof = a\nsamples = 5%..\nsplit_seed = 1\nindices = i.npy\nweights = w.npy
[mix both]\nsource.part = 0.25\nepoch_samples = 1000\nsource.a = 3\non_error = skip\nio = uring
"""
    yield "continued", b"""[dataset p]
format = folder\npath = /data ; comment\nfield.image = bytes @ file
transform.image =\n  random_resized_crop 224, ; of any size\n\tflip,\n\n# hue 0.1,\n  rand_augment 2 9 fill 1 2 3\r
  transform.y = cast\n    f16\n[dataset q]\n  format\n"""
    yield "long-line", b"[feedd]\nsocket = /" + b"x" * 8183 + b"\nring = 1M\n " + b"y" * 8193 + b"\n"
    yield "nearly", b"[feedd]\nloader = 2\n[datasett x]\n"


def npy(descr, shape, data, version=1):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    length = struct.pack("<H", len(text)) if version == 1 else struct.pack("<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def sources():
    one_field, transform, exact, listed, weighted, part = 4, 8, 16, 32, 64, 128
    sparse = bytes([0, 0, 8, 3]) + struct.pack(">3I", 1 << 10, 32, 32)
    floats = npy("<f4", "(2, 3)", bytes(24))

    def files(*contents):
        return b"".join(u16(len(data)) + data for data in contents)

    yield "idx", bytes([0 | exact, 1]) + files(IDX_IMAGES, IDX_LABELS)
    yield "idx-two-files", bytes([0 | one_field | exact, 1]) + files(IDX_IMAGES, IDX_IMAGES)
    yield "idx-in-windows", bytes([0 | one_field | exact, 1 + 3 * 2]) + files(IDX_IMAGES, IDX_IMAGES)
    yield "idx-transform", bytes([0 | transform | exact, 0]) + b"scale 1/255, standardise\n" + files(IDX_IMAGES)
    yield "idx-sparse", bytes([0, 0]) + number(16 + (1 << 20)) + files(sparse)
    yield "npy", bytes([1 | exact, 1]) + files(floats, npy("|u1", "(2,)", bytes(2), 2))
    yield "npy-transform", bytes([1 | transform | exact, 0]) + b"mean 1 2 3, std 4, cast bf16\n" + files(floats)
    yield "npy-big-endian", bytes([1 | exact, 0]) + files(npy(">f8", "()", bytes(8)))
    records = number(12) + number(4) + bytes([1]) + b"u8[2,4] @ 0\nf32 @ 8\n"
    yield "records", bytes([2 | exact, 0]) + records + files(bytes(4 + 36))
    yield "indices", bytes([1 | exact | listed, 0]) + files(floats, npy("<i8", "(3,)", struct.pack("<3q", 1, 0, 1)))
    yield "indices-of-bytes", bytes([1 | exact | listed, 0]) + files(floats, npy("|i1", "(2,)", bytes([1, 255])))
    weights = npy("<f4", "(2,)", struct.pack("<2f", 0.5, 3))
    yield "weights", bytes([1 | exact | weighted, 0]) + files(floats, weights)
    doubles = npy("<f8", "(4,)", struct.pack("<4d", 1e300, 0, 5e-324, 1))
    yield "weights-of-doubles", bytes([2 | exact | weighted, 0]) + records + files(bytes(4 + 48), doubles)
    yield "weights-below-0", bytes([1 | exact | weighted, 0]) + files(floats, npy("<i2", "(2,)", struct.pack("<2h", 1, -1)))
    half = b"50%..100%\n\0"
    indices = npy("<i8", "(3,)", struct.pack("<3q", 1, 0, 1))
    yield "part", bytes([1 | exact | part, 0]) + b"1..\n\0" + files(floats)
    yield "part-of-indices", bytes([1 | exact | listed | part, 0]) + b"1..3\n\7" + files(floats, indices)
    yield "weights-of-a-part", bytes([1 | exact | weighted | part, 0]) + half + files(floats, weights)
    yield "weights-of-indices", bytes([1 | exact | listed | weighted, 0]) + files(floats, indices, weights)
    everything = bytes([1 | exact | listed | weighted | part, 0])
    yield "weights-of-a-part-of-indices", everything + b"0%..67%\n\x7f" + files(floats, indices, weights)
    yield "tokens", bytes([3 | exact, 0, 2]) + number(8) + number(6) + files(bytes(6 + 2 * 33))


def documents():
    offsets, padded, u16_data = 1, 2, 4

    def index(lengths, boundaries, kind=8, version=1):
        offsets = [2 * sum(lengths[:number]) for number in range(len(lengths))]
        head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", version, kind, len(lengths), len(boundaries))
        tables = (lengths, "i"), (offsets, "q"), (boundaries, "q")
        return head + b"".join(struct.pack(f"<{len(table)}{code}", *table) for table, code in tables)

    yield "plain", bytes([0, 4]) + number(12) + index([3, 2, 1], [0, 1, 2, 3])
    yield "sequences", bytes([0, 2]) + number(12) + index([3, 0, 2, 1], [0, 2, 2, 4])
    yield "gap", bytes([0, 2]) + number(12) + index([3, 2, 1], [0, 1, 3])[:-24] + bytes(24)
    yield "type", bytes([0, 2]) + number(12) + index([3, 2, 1], [0, 3], kind=6)
    yield "version", bytes([0, 2]) + number(12) + index([3, 2, 1], [0, 3], version=2)
    yield "ragged", bytes([0, 0]) + number(12) + index([3, 0, 2, 1], [0, 1, 2, 2, 4])
    yield "padded", bytes([padded, 0]) + number(12) + index([3, 2, 1], [0, 1, 2, 3])
    wide = npy("<i8", "(4,)", struct.pack("<4q", 1, 3, 3, 6))
    yield "offsets", bytes([offsets | u16_data, 0]) + number(12) + wide
    yield "boundaries", bytes([0, 70]) + number(12) + index([1, 0, 2, 3], [0, 1, 2, 3, 4])
    yield "offsets-packed", bytes([offsets | u16_data, 2]) + number(12) + wide
    yield "offsets-after-a-header", bytes([offsets | padded | u16_data | 6 << 4, 0]) + number(18) + wide
    yield "offsets-that-fall", bytes([offsets, 0]) + number(12) + npy("<u4", "(3,)", struct.pack("<3I", 1, 5, 4))
    yield "offsets-below-0", bytes([offsets, 0]) + number(12) + npy("<i4", "(3,)", struct.pack("<3i", -1, 5, 6))


def texts():
    for name, more in (("token", b"feedd1.1"), ("mix", b"feedd2.1")):
        yield name, b"\0" + more + b".00000000deadbeef.7.3.640" + b".1.17.3:12,1:5" * (name == "mix")
    steps = b"scale 1/255, shift -.5e-3, mean 1 2 3, std 4, standardise, cast f16"
    yield "transform", b"\x01\x02\x03\x02\x03\x03" + steps
    yield "layout", b"\x01\x02\x03\x07\x07\x02layout chw, mean 1 2 3, cast i64"
    yield "channels", b"\x01\x02\x01\x1f" + b"std" + b" 2" * 32 + b", mean 1" + b" 0" * 30
    yield "names", b"\x02log_level\nlinger\nlog_lvl\n"
    yield "dtype", b"\x02u8\nf32\ntorch.float32_t\n"
    yield "size", b"\x0364M"
    yield "duration", b"\x0390m"
    yield "mode", b"\x030660"
    words = b"a long line of words to be folded\nwarning: mind this\xc2\x9b\nthree\n1\n2\n3\n"
    yield "printing", b"\x04\x14\x3f\x7f\xff\xff\xff\x01" + words
    yield "weights", b"\x053\n0.25\n1e-3\n.5E+2\n"
    yield "large-weights", b"\x05123456789012345678\n1e1000\n0.001e-997\n"


def samples():
    """Type, dimensions, shape; width, values, flags (1: so many values, 2: 24-bit colours, 4: draw); bytes."""
    u8, i64, f16, f32, c64, draw = 1, 8, 9, 11, 13, 4
    yield "text", bytes([u8, 1, 15, 9, 0, 0]) + "größe 犬\n\"".encode().ljust(16, b"\0")
    yield "escape", bytes([u8, 1, 9, 80, 5, 1]) + b"\x1b[31mred\xc2\x9b"
    yield "grey", bytes([u8, 2, 11, 9, 40, 0, draw]) + bytes(range(120))
    yield "channels-first", bytes([f32, 3, 2, 9, 8, 15, 0, draw | 2]) + bytes(range(0, 256, 3))
    yield "channels-last", bytes([f16, 3, 9, 8, 3, 15, 0, draw]) + bytes(range(1, 256, 5))
    yield "integers", bytes([i64, 0, 80, 0, 0]) + b"\xff" * 8
    yield "pairs", bytes([c64, 1, 3, 80, 2, 1]) + b"\x00\x00\xc0\x7f\x00\x00\x80\xff"


def statistics():
    yield "plain", bytes([0, 0, 0, 0])
    yield "one-feed", bytes([1 | 80 << 1, 0, 0, 1]) + patch(1, 16, b"name of a feed\x00")
    yield "odd-version", bytes([2, 0, 1]) + patch(1, 0, b"\x01") + bytes([0]) + patch(1, 0, b"\x02")
    yield "gpu", bytes([0, 0, 2]) + patch(5, 16 + 24, b"-" * 16) + patch(6, 80, b"NVIDIA H200") + bytes([0])
    yield "long-uuid", bytes([0, 0, 4]) + b"".join(patch(5, at, b"U" * 16) for at in range(16, 80, 16)) + bytes([0])
    yield "another-build", bytes([0, 0, 1]) + patch(0, 8, b"\x63") + bytes([0])
    yield "short", bytes([4, 40, 0, 0])


def rings():
    device, put_right, other_size, writable, ragged = 1, 2, 4, 8, 16
    yield "host", bytes([writable, 0])
    yield "device", bytes([device | writable, 0])
    yield "longer", bytes([put_right | other_size | writable]) + number(1 << 20) + bytes([0])
    yield "slots", bytes([put_right, 1]) + patch(0, 24, b"\x04")
    yield "shape", bytes([0, 2]) + patch(0, 144 + 40, b"\x05") + patch(0, 144 + 48, b"\x04")
    yield "ragged", bytes([ragged | writable, 0]) + b"\x00\x03\x46\x01" * 8
    yield "ragged-device", bytes([ragged | device | writable, 0])
    yield "ragged-values", bytes([ragged | put_right, 1]) + patch(0, 144 + 3 * 136 - 8, b"\x02")
    yield "few-skip-words", bytes([0, 1]) + patch(0, 72, bytes(4))
    skips = 4096 + 8 * 128 + 64  # after the records and the chunk words of 8 slots
    yield "holes", bytes([0, 2]) + patch(1, 48, b"\x40\0\0\0\x02\0\0\0") + patch_at(skips, b"\x06")
    yield "record", bytes([0, 1]) + patch(1, 48, b"\x40\0\0\0\x02\0\0\0")


# Steps of hostile_step in fuzz_client.c; `use` makes the application take one.
WELCOME, ATTACHED, GRANT, END, ERROR, PATCH, HANG_UP = bytes([3, 1]), b"\x04", b"\x00", b"\x06", b"\x07", b"\x0a", b"\x0b"
WANTED, BROUGHT, SLOT_MEMORY = b"\x0c", b"\x0d", b"\x0e"
DAEMON, NEXT, RELEASE, ASK = b"\x06", b"\x00\x07", b"\x03\x00", b"\x05\x00\x00\x00"


def clients():
    begin = WELCOME + ATTACHED
    granted = DAEMON + GRANT + bytes([3, 0, 1, 2]) + NEXT * 3 + RELEASE * 2
    yield "host", bytes([0]) + begin + granted + ASK + granted + NEXT + END
    yield "device", bytes([1]) + begin + granted + ASK + RELEASE
    yield "reconnect", bytes([2 | 4]) + begin + granted + DAEMON + HANG_UP + NEXT + begin + granted + ASK
    with_view = WELCOME + WANTED + BROUGHT + ATTACHED
    yield "view", bytes([8]) + with_view + granted + ASK
    yield "view-known", bytes([8]) + WELCOME + BROUGHT + ATTACHED + granted
    yield "view-refused", bytes([8]) + WELCOME + WANTED + ERROR + number(34) + b"no such sample\n"
    yield "view-wanted-twice", bytes([8]) + WELCOME + WANTED * 2 + BROUGHT + ATTACHED
    yield "view-again", bytes([8 | 2]) + with_view + granted + DAEMON + HANG_UP + NEXT + with_view + granted
    yield "error", bytes([0]) + begin + DAEMON + ERROR + number(62) + b"too slow\n" + NEXT
    yield "ragged", bytes([16]) + begin + granted + ASK + granted + NEXT + END
    yield "ragged-device", bytes([1 | 16]) + begin + granted + ASK + RELEASE
    grown = (DAEMON + SLOT_MEMORY + bytes([1]) + DAEMON + GRANT + bytes([1, 1]) + NEXT + RELEASE) * 2
    yield "ragged-device-grows", bytes([1 | 16]) + begin + grown + DAEMON + SLOT_MEMORY + bytes([17]) + granted
    lie = DAEMON + SLOT_MEMORY + bytes([128]) + number(1) + number(1 << 40)
    yield "ragged-device-lies", bytes([1 | 16]) + begin + granted + lie
    change = DAEMON + PATCH + b"\x00" + patch(1, 3 * 128, b"\x09")
    yield "changed", bytes([0]) + begin + DAEMON + GRANT + b"\x01\x03" + change + NEXT * 2
    lie = DAEMON + PATCH + b"\x00" + patch(1, 48, b"\xff\xff")
    yield "too-many-samples", bytes([0]) + begin + DAEMON + GRANT + b"\x01\x00" + lie + NEXT + ASK
    yield "frames", bytes([0]) + b"\x08" + u16(6) + server("welcome", version=1) + b"\x04" + NEXT
    yield "lies", bytes([0]) + WELCOME + b"\x05" + number(1) * 4 + number(0) + b"\x01\x00" + NEXT


def commands():
    names = ["status", "status", "datasets", "datasets", "feeds", "feeds", "clients", "clients", "files"]
    for what, name in enumerate(names):
        answer = server("answer", **ANSWERS[name])
        more = server("answer", **ANSWERS["processes"])
        yield f"{name}-{what}", bytes([what, 0]) + b"\x04" + u16(len(answer)) + answer + b"\x04" + u16(len(more)) + more
    wrong = server("answer", files=[{"path": "f", "extents": [{"field": 40}]}])
    yield "unknown-field", bytes([8, 0]) + b"\x04" + u16(len(wrong)) + wrong
    part = {"kind": 2, "of": 3, "first": 1, "count": 2, "seed": 7}
    for view, selection in enumerate((part, {**part, "count": 3}, {**part, "kind": 3})):
        answer = server("answer", selection=selection, **ANSWERS["files"])
        yield f"view-{view}", bytes([8, 0]) + b"\x04" + u16(len(answer)) + answer
    file = {**ANSWERS["files"]["files"][0], "samples": 3}
    drawn = server("answer", selection={"kind": 4, "of": 3, "count": 100}, files=[file])
    for name, sums in (("drawn", [0, 2, 7]), ("drawn-by-nothing", [0, 0, 0]), ("drawn-by-falling-sums", [5, 4, 7])):
        shares = server("answer", shares=sums)
        yield name, bytes([8, 0]) + b"\x04" + u16(len(drawn)) + drawn + b"\x04" + u16(len(shares)) + shares
    def indexed(columns, index):
        listed = server("answer", files=[{"path": "f", "samples": 100}], columns=columns)
        words = server("answer", index=index)
        return bytes([8, 0]) + b"\x04" + u16(len(listed)) + listed + b"\x04" + u16(len(words)) + words

    label = {"field": 1, "kind": 1, "offset": 8, "bytes": 8}
    yield "indexed", indexed([{"field": 0, "offset": 8, "bytes": 8, "pad": 7}, label], [201 * 8, *range(200)])
    yield "indexed-in-part", indexed([{"field": 0, "transformed": 1}, label], [90 * 8, *range(89)])
    blocks = {"field": 0, "kind": 6, "offset": 8, "bytes": 8, "blocks": 201 * 8, "block_count": 2}
    extents = [word for sample in range(100) for word in (sample % 50, sample // 50 | 8 << 32)]
    table = [word for first in (0, 50) for word in (first, 9, 0, 0, 58, 0, 1 << 32, 0, 0, first << 32)]
    yield "blocks", indexed([blocks, label], [221 * 8, *extents, *table])
    yield "blocks-elsewhere", indexed([blocks, label], [221 * 8, *extents[::-1], *table])
    documents = [{"field": 0, "kind": 2, "offset": 8, "bytes": 8}, {"field": 1, "kind": 3, "offset": 8, "bytes": 8}]
    yield "documents", indexed(documents, [6 * 8, 0, 2, 32, 0, 50])
    yield "documents-elsewhere", indexed(documents, [6 * 8, 0, 2, 40, 0, 50])
    across = [{"field": 0, "kind": 7, "offset": 8, "bytes": 8}, {**documents[1], "offset": 72, "across": 1}]
    stretches = [800, 2, 0, 7, 0, 400, 9, 0, 0, 1, 96, 0]
    yield "windows-across", indexed(across, [13 * 8, *stretches])
    yield "windows-elsewhere", indexed(across, [13 * 8, 700, 2, 8, 7, 0, 400, 9, 0, 0, 1, 96, 0])
    across[0] |= {"blocks": 104, "block_count": 1}
    yield "windows-in-blocks", indexed(across, [23 * 8, *stretches, *table[:10]])
    file = {"path": "f", "samples": 100, "record_bytes": 16, "extents": [{"bytes": 8}, {"field": 1, "offset": 8, "bytes": 8}]}
    for name, words in (("windows", [2, 3, 0, 30, 60, 100]), ("windows-of-nothing", [2, 2, 0, 0, 100])):
        listed, groups = server("answer", files=[file]), server("answer", groups=words)
        yield name, bytes([10, 0]) + b"\x04" + u16(len(listed)) + listed + b"\x04" + u16(len(groups)) + groups
    done = server("done", text="serving 2 datasets\nwarning: mind this")
    yield "command", bytes([9, 0]) + b"\x04" + u16(len(done)) + done


def sample_caches():
    """fuzz_sample_cache: patches of the file, then what is looked for (0, 1) and stored (2, 3)."""
    look = b"".join(bytes([entry, 0]) for entry in range(6))
    yield "whole", b"\0" + look
    yield "stored", b"\0" + bytes([4, 2, 19, 19, 5, 3, 7, 9]) + look
    yield "other-head", bytes([1, 0, 2, 8]) + b"12345678" + look
    yield "word-of-another", bytes([1, 1, 0, 8]) + (5 | 20 << 32 | 19 << 48).to_bytes(8, "little") + look
    yield "word-beyond", bytes([1, 1, 2, 8]) + b"\xff" * 8 + look + bytes([1, 2, 5, 5])
    yield "pixels", bytes([1, 2, 40, 4]) + b"\xaa" * 4 + look + bytes([0, 2, 19, 19]) + look


TARGETS = {"frame": frames, "config": configs, "source": sources, "tar": archives, "documents": documents, "sample": samples,
           "text": texts, "stats": statistics, "ring": rings, "client": clients, "ctl": commands,
           "session": sessions, "arrow": arrow_seeds.seeds, "parquet": parquet_seeds.seeds, "folder": folders,
           "packed": packed_seeds.seeds, "image": image_seeds.images, "image_steps": image_step_seeds.seeds,
           "sample_cache": sample_caches, "gpu_image": gpu_image_seeds.seeds}  # fmt: skip


def main():
    for target, seeds in TARGETS.items():
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in seeds():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
