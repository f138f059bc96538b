"""Images without Pillow: PNG by zlib, JPEG by cjpeg, and the pixels that djpeg finds in them."""

import shutil
import struct
import subprocess
import zlib

JPEG = ([], ["-sample", "1x1"], ["-progressive"], ["-grayscale"], ["-restart", "1"])  # of cjpeg


def refusal():
    """Why there can be none here, or an empty string."""
    missing = [name for name in ("cjpeg", "djpeg") if not shutil.which(name)]
    return f"images: there is no {' and no '.join(missing)}" if missing else ""


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width, height, pixels):
    """Grey or RGB, every second row as differences."""
    channels = len(pixels) // (width * height)
    rows = [pixels[at : at + width * channels] for at in range(0, len(pixels), width * channels)]
    lines = [bytes([number % 2 * 2]) + (bytes((a - b) % 256 for a, b in zip(row, rows[number - 1])) if number % 2 else row)
             for number, row in enumerate(rows)]  # fmt: skip
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    data = zlib.compress(b"".join(lines))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def pixels_of(chance, width, height, channels):
    """Smooth with edges and some noise."""
    a, b, c = (chance.randrange(1, 6) for _ in range(3))
    noise = chance.randbytes(width * height * channels)
    values = ((x * a + y * b + (x // 9 ^ y // 7) * c * (channel + 1)) % 230 for y in range(height) for x in range(width)
              for channel in range(channels))  # fmt: skip
    return bytes(value + grain % 25 for value, grain in zip(values, noise))


def run(*command, data):
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def decoded(jpeg):
    """Width, height and RGB."""
    kind, sides, most, pixels = run("djpeg", "-pnm", data=jpeg).split(b"\n", 3)
    width, height = map(int, sides.split())
    assert most == b"255" and kind in (b"P5", b"P6"), (kind, most)
    return width, height, pixels if kind == b"P6" else bytes(value for value in pixels for _ in range(3))


def encode(number, width, height, pixels):
    """RGB in a format that the number chooses: one in three is PNG, the others are JPEG of all kinds."""
    if number % 3 == 2:
        return png(width, height, pixels)
    return run("cjpeg", "-quality", "85", *JPEG[number % len(JPEG)], data=b"P6\n%d %d\n255\n" % (width, height) + pixels)
