"""Seeds of fuzz_tar.c, for seeds.py."""

import io
import struct
import tarfile


def archive(tar_format, *members):
    """As Python writes it, without the zeros that fill it up."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tar_format) as archive:
        for name, content, pax in members:
            info = tarfile.TarInfo(name)
            info.size, info.pax_headers = len(content), pax
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()[: (file.tell() // 512) * 512].rstrip(b"\0") + bytes(1024)


def archives():
    sums, two = 1, 2
    fields = b"bytes @ jpg|jpeg\ni32 @ cls\nlength @ jpg\n16 255\n"
    one = ("1.jpg", b"image", {}), ("1.cls", b" 7\n", {}), ("2.jpeg", b"", {}), ("2.cls", b"-1", {})
    yield "ustar", bytes([sums]) + fields.replace(b"length @ jpg", b"") + archive(tarfile.USTAR_FORMAT, *one)
    long = "d" * 150
    yield "gnu", bytes([sums]) + fields + archive(tarfile.GNU_FORMAT, *((f"{long}/{long}/{m[0]}", *m[1:]) for m in one[:2]))
    plain = fields.replace(b"length @ jpg", b"").replace(b"16 255", b"")
    yield "ragged", bytes([sums]) + plain + archive(tarfile.USTAR_FORMAT, *one)
    pax = {"comment": "text", "size": "5"}
    yield "pax", bytes([sums]) + fields + archive(tarfile.PAX_FORMAT, (f"{long}{long}.jpg", b"image", pax), one[1])
    whole = archive(tarfile.USTAR_FORMAT, *one[:2])
    yield "two", bytes([sums | two]) + fields + whole * 2
    yield "kept", bytes([sums | 8]) + fields + b"\0" + whole
    for name, place, word in ("offset", 80, 1 << 40), ("file", 88, 5 << 32 | 1), ("size", 88, 5000 << 32), ("count", 56, 9):
        patch = bytes([11, 0, place // 4, 8]) + struct.pack("<Q", word)
        yield f"kept-{name}", bytes([sums | 8]) + fields + patch + whole
    large = bytearray(whole)
    large[124:136] = b"\x80" + bytes(7) + struct.pack(">I", 1 << 30)
    yield "binary-size", bytes([sums]) + fields + bytes(large)
    yield "wrong-sum", bytes([0]) + fields + b"x" + whole[1:]
    for kind in b"125gKSVx":
        other = bytearray(whole)
        other[156] = kind
        yield f"type-{chr(kind)}", bytes([sums]) + fields + bytes(other)
