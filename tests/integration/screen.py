"""What feedctl draws: on a terminal of some width, and in PNG files. Standard library alone."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import zlib

import harness

COLOUR = re.compile(r"\033\[[0-9;]*m")
HALF = "▀"


def open_terminal(instance, columns, *arguments, **environment):
    """Starts feedctl on a terminal of that width; returns the process and the terminal's other end."""
    plain = {"TERM": "xterm-256color", "COLORTERM": "", "NO_COLOR": ""}
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [harness.PROGRAMS / "feedctl", *arguments], stdin=subprocess.DEVNULL, stdout=its, stderr=its, cwd=instance.directory,
        preexec_fn=harness.die_with_parent, env=instance.environment(**{**plain, **environment}),
    )  # fmt: skip
    os.close(its)
    return process, ours


def close_terminal(process, terminal, status=0):
    """Waits until feedctl has ended with that status; returns what it wrote."""
    text = b""
    with contextlib.suppress(OSError):  # EIO: nobody has the other end any more
        while part := os.read(terminal, 65536):
            text += part
    os.close(terminal)
    assert process.wait(25 * harness.SLOWNESS) == status, (process.returncode, text)
    return text.decode().replace("\r\n", "\n")


def on_terminal(instance, columns, *arguments, **environment):
    return close_terminal(*open_terminal(instance, columns, *arguments, **environment))


def drawn(text):
    """The colours of the only image in `text`: rows of (red, green, blue), or of numbers of 256 colours."""
    rows = []
    for line in text.splitlines():
        if HALF not in line:
            continue
        upper, lower, colours = [], [], {"38": None, "48": None}
        for code, half in re.findall(rf"\033\[([0-9;]*)m|({HALF})", line):
            if half:
                upper.append(colours["38"]), lower.append(colours["48"])
                continue
            what, kind, *numbers = [*code.split(";"), "", ""][:5] if ";" in code else ["", ""]
            if what:
                numbers = tuple(int(number) for number in numbers if number)
                colours[what] = numbers if kind == "2" else numbers[0]
        rows += [upper, lower]
    return rows if rows[-1][0] is not None else rows[:-1]


def read_png(path):
    """Rows of pixels and the number of channels; every check word and every filter is looked at."""
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n", content[:8]
    chunks, at = {}, 8
    while at < len(content):
        size, kind = struct.unpack_from(">I4s", content, at)
        body = content[at + 8 : at + 8 + size]
        assert struct.unpack_from(">I", content, at + 8 + size)[0] == zlib.crc32(kind + body), kind
        chunks[kind] = chunks.get(kind, b"") + body
        at += 12 + size
    width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    channels = {0: 1, 2: 3, 6: 4}[colours]
    assert depth == 8 and not interlaced and b"PLTE" not in chunks and b"IEND" in chunks, chunks.keys()
    return unfilter(zlib.decompress(chunks[b"IDAT"]), width * channels, height, channels), channels


def make_png(rows):
    """A PNG file of rows of RGB pixels."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    stream = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", stream) + chunk(b"IEND", b"")


def unfilter(stream, row_bytes, height, step):
    rows, above = [], bytes(row_bytes)
    assert len(stream) == height * (row_bytes + 1)
    for start in range(0, len(stream), row_bytes + 1):
        kind, row = stream[start], bytearray(stream[start + 1 : start + 1 + row_bytes])
        for x in range(row_bytes):
            left, up = row[x - step] if x >= step else 0, above[x]
            corner = above[x - step] if x >= step else 0
            paeth = min((left, up, corner), key=lambda value: abs(left + up - corner - value))
            row[x] = row[x] + (0, left, up, (left + up) // 2, paeth)[kind] & 255
        rows.append(bytes(row))
        above = rows[-1]
    return rows
