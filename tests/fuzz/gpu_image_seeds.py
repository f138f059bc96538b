"""Seeds of fuzz_gpu_image: batches of JPEGs as loaders put them into a ring, whose records say the truth or lie."""

import struct

from image_seeds import jpeg, scan, segment
from parts import number

AGAIN, NO_ENGINE = 1, 2  # of the batch
LIE, FINISHED = 1, 2  # of a sample
WORDS = ("kind", "bytes", "sampling", "flags", "x", "y", "width", "height", "image_width", "image_height", "crop_x", "crop_y",
         "crop_width", "crop_height", "result_width", "result_height", "part_x", "part_y", "part_width", "part_height", "left",
         "top", "fill")  # fmt: skip


def sample(data, flags=0, **lies):
    words = b"".join(bytes([WORDS.index(name)]) + number(value) for name, value in lies.items())
    flags |= LIE if lies else 0
    return bytes([flags]) + struct.pack("<H", len(data)) + data + (bytes([len(lies)]) + words if lies else b"")


def seeds():
    bits = bytes(index * 73 % 251 for index in range(600))
    grey = jpeg(40, 30, [0x11], scan([1], bits))
    colours = {name: jpeg(70, 50, [luma, 0x11, 0x11], scan([1, 2, 3], bits)) for name, luma in
               {"444": 0x11, "422": 0x21, "420": 0x22}.items()}  # fmt: skip
    honest = sample(grey) + sample(colours["420"])
    for flags, name in enumerate(("engine", "again", "without-engine")):
        yield name, bytes([flags]) + honest + sample(colours["444"])
    yield "turned", b"\0" + sample(colours["422"], 7 << 4) + sample(colours["420"], 5 << 4) + sample(grey, 2 << 4)
    yield "422", b"\0" + sample(colours["422"]) * 3
    yield "finished", b"\0" + sample(bytes(768), FINISHED) + honest
    yield "finished-beyond", b"\0" + sample(b"", FINISHED, bytes=4097) + honest
    for flags in (0, NO_ENGINE):
        for lie in ({"width": 200}, {"image_width": 71}, {"sampling": 1}, {"x": 15}, {"bytes": 5000}, {"bytes": 30},
                    {"crop_x": 0x7FFFFFFF, "crop_width": 65535, "result_width": 65535}, {"kind": 2}, {"left": 60, "flags": 127},
                    {"image_width": 65535, "image_height": 65535}, {"part_width": 0}):  # fmt: skip
            name = "-".join(lie) + ("-without-engine" if flags else "")
            yield f"lie-{name}", bytes([flags]) + sample(colours["420"], **lie) + honest
    large = jpeg(200, 200, [0x22, 0x11, 0x11], scan([1, 2, 3], bits))
    for flags, name in enumerate(("engine", "again", "without-engine")):
        beyond = sample(large, sampling=3, width=200, height=200, image_width=200, image_height=200)
        yield f"beyond-the-pool-{name}", bytes([flags]) + beyond + honest
    for name, data in {
        "progressive": jpeg(70, 50, [0x22, 0x11, 0x11], scan([1, 2, 3], bits[:60], 0, 0), 0xC2),
        "cmyk": jpeg(30, 20, [0x11] * 4, scan([1, 2, 3, 4], bits)),
        "two-frames": grey[:-2] + segment(0xC0, bytes([8]) + struct.pack(">HHB", 30, 40, 1) + b"\1\x11\0") + b"\xff\xd9",
        "cut": colours["420"][:300],
        "more": grey + b"more",
    }.items():
        yield name, bytes([0]) + sample(data) + honest
