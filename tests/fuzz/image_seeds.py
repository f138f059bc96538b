"""Seeds of fuzz_image: small images of each kind, made by hand."""

import base64
import struct
import zlib

# Lossy, lossless, and lossy with transparency: 24 x 20 pixels, as libwebp writes them.
WEBP = {
    "lossy":
        "UklGRnIAAABXRUJQVlA4IGYAAADwBACdASoYABQAPtFUoU21pKMiN+gCsBoJZgC1GoSCmEJ/dXBDRp5MYu2LTt951gAA/vWW8cAd"
        "2xCcls7W7efNIcPL1ztqOTE4ab6s55110ngXryYn10YEWYMZ/FRoC/diogtjcAA=",
    "lossless":
        "UklGRjQAAABXRUJQVlA4TCcAAAAvF8AEALmM6H8sAILw3y0iBrz/IWwgmrap7f9P186NJrQgJuDUzggA",
    "transparent":
        "UklGRpQAAABXRUJQVlA4WAoAAAAQAAAAFwAAEwAAQUxQSBEAAAAFINK2mX/FY6OnZxExAbnmRgBWUDggXAAAAHAEAJ0BKhgAFAA+"
        "9WSnUDSlo6K36AKQHolmALsyhH9QQn/SrWO6gH8pnd4wAP7xCtgTDuBhD5BWd3PapNnGIbrmhaC5wYNmo3JnYFEgTJ4yTH5WoEKG"
        "sD2tgAAA",
}
GREY, ORIENTED, FAST, LABELS = 1, 2, 4, 8


def segment(marker, content):
    return bytes([0xFF, marker]) + struct.pack(">H", 2 + len(content)) + content


def exif(orientation, order="<"):
    tiff = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "IHHHIHHI", 8, 1, 0x112, 3, 1, orientation, 0, 0)
    return b"Exif\0\0" + tiff


def huffman(kind, *symbols):
    """A table in which all codes, at most three, have two bits."""
    return segment(0xC4, bytes([kind, 0, len(symbols)]) + bytes(14) + bytes(symbols))


def scan(components, bits, first=0, last=63, approximation=0):
    """A scan with any bits as its data."""
    parts = b"".join(bytes([number, 0]) for number in components)
    head = segment(0xDA, bytes([len(components)]) + parts + bytes([first, last, approximation]))
    return head + bits.replace(b"\xff", b"\xff\0")


def jpeg(width, height, samplings, scans, kind=0xC0, before=b""):
    frame = bytes([8]) + struct.pack(">HHB", height, width, len(samplings))
    frame += b"".join(bytes([number + 1, sampling, 0]) for number, sampling in enumerate(samplings))
    tables = segment(0xDB, bytes([0]) + bytes(range(1, 65))) + huffman(0x00, 0, 2, 4) + huffman(0x10, 0, 1, 0x23)
    return b"\xff\xd8" + before + tables + segment(kind, frame) + scans + b"\xff\xd9"


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, kind, depth, rows, interlaced=0, more=b""):
    head = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + more + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def images():
    bits = bytes(index * 73 % 251 for index in range(600))
    whole, part, fast = bytes([0, 0, 255, 0, 255, 0, 0]), bytes([0, 90, 60, 40, 99, 0, 0]), bytes([FAST, 9, 255, 9, 255, 4, 4])
    yield "jpeg-grey", bytes([GREY]) + whole[1:] + jpeg(40, 30, [0x11], scan([1], bits))
    for name, luma in {"444": 0x11, "420": 0x22, "422": 0x21, "440": 0x12}.items():
        samplings = [luma, 0x11, 0x11]
        yield f"jpeg-{name}", part + jpeg(70, 50, samplings, scan([1, 2, 3], bits))
        yield f"jpeg-{name}-fast", fast + jpeg(70, 50, samplings, scan([1, 2, 3], bits))
    yield "jpeg-cmyk", part + jpeg(30, 20, [0x11] * 4, scan([1, 2, 3, 4], bits))
    adobe = segment(0xEE, b"Adobe\0\x64\0\0\0\0\x02")
    yield "jpeg-ycck", part + jpeg(30, 20, [0x22, 0x11, 0x11, 0x22], scan([1, 2, 3, 4], bits), before=adobe)
    yield "jpeg-oriented", bytes([ORIENTED]) + part[1:] + jpeg(40, 30, [0x11], scan([1], bits), before=segment(0xE1, exif(6)))
    big = segment(0xE1, exif(7, ">"))
    yield "jpeg-oriented-big", bytes([ORIENTED]) + fast[1:] + jpeg(40, 30, [0x11], scan([1], bits), before=big)
    scans = scan([1, 2, 3], bits[:60], 0, 0, 1) + scan([1], bits[:80], 1, 5, 2) + scan([1], bits[:40], 1, 5, 0x21)
    yield "jpeg-progressive", part + jpeg(70, 50, [0x22, 0x11, 0x11], scans + scan([1, 2, 3], bits[:30], 0, 0, 0x10), 0xC2)
    yield "jpeg-arithmetic", part + jpeg(40, 30, [0x21, 0x11, 0x11], scan([1, 2, 3], bits), 0xC9)
    yield "jpeg-restarts", part + jpeg(40, 30, [0x11], scan([1], b"abc"), before=segment(0xDD, b"\0\1"))
    for kind, samples in {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}.items():
        colours = chunk(b"PLTE", bits[:30]) + chunk(b"tRNS", b"\x80") if kind == 3 else b""
        rows = b"".join(bytes([row % 5]) + bytes(value % 10 for value in bits[row : row + 9 * samples]) for row in range(7))
        yield f"png-{kind}", part + png(9, 7, kind, 8, rows, more=colours)
        if kind == 3:
            yield "png-labels", bytes([GREY | LABELS]) + part[1:] + png(9, 7, kind, 8, rows, more=colours)
            yield "png-labels-4", bytes([GREY | LABELS]) + whole[1:] + png(17, 7, kind, 4, rows[:70], 0, colours)
    yield "png-labels-16", bytes([GREY | LABELS]) + part[1:] + png(4, 7, 0, 16, (b"\0" + b"\0\7" * 3 + b"\1\0") * 7)
    yield "png-grey-16", part + png(9, 7, 0, 16, b"".join(b"\1" + bits[row : row + 18] for row in range(7)))
    yield "png-bits", bytes([GREY]) + part[1:] + png(20, 7, 0, 1, b"\2abc" * 7)
    passes = (1, 1, 2, 3, 3, 2, 2, 2, 5, 5)  # pixels per row
    yield "png-interlaced", whole + png(5, 5, 2, 8, b"".join(b"\1" + bits[: 3 * count] for count in passes), 1)
    yield "png-exif", bytes([ORIENTED]) + part[1:] + png(2, 3, 0, 8, b"\0ab" * 3, more=chunk(b"eXIf", exif(8, ">")[6:]))
    for name, stored in WEBP.items():
        yield f"webp-{name}", part + base64.b64decode(stored)
