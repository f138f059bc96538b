"""Small datasets in which every byte is known."""

import pathlib
import struct


def sample_bytes(index, size, salt=0):
    """The content of sample `index`: its number, then bytes that depend on the number and their position."""
    body = bytes((index * 31 + place * 7 + salt) & 255 for place in range(max(size - 8, 0)))
    return (struct.pack("<Q", index) + body)[:size]


def write_records(path, samples, size, first=0):
    """A file of fixed-size records, samples first..first+samples-1."""
    pathlib.Path(path).write_bytes(b"".join(sample_bytes(first + index, size) for index in range(samples)))


def write_idx(path, shape, content, code=0x08):
    """An idx file (the format of MNIST): big-endian header, then `content`."""
    header = struct.pack(">BBBB", 0, 0, code, len(shape)) + b"".join(struct.pack(">I", size) for size in shape)
    pathlib.Path(path).write_bytes(header + content)


def write_npy(path, descr, shape, content, fortran=False, version=(1, 0)):
    """A NumPy file with that header, correct or not."""
    header = f"{{'descr': {descr!r}, 'fortran_order': {fortran}, 'shape': {shape!r}, }}"
    prefix = 10 if version[0] == 1 else 12
    header += " " * (-(prefix + len(header) + 1) % 64) + "\n"
    size = struct.pack("<H" if version[0] == 1 else "<I", len(header))
    pathlib.Path(path).write_bytes(b"\x93NUMPY" + bytes(version) + size + header.encode() + content)


def add_records(instance, name="numbers", samples=1000, size=64, **options):
    """A dataset of records with one field `x` of bytes."""
    path = instance.directory / f"{name}.bin"
    write_records(path, samples, size)
    field = {"field_x": f"u8[{size}] @ 0"}
    instance.add_dataset(name, format="records", path=path, record_bytes=size, **field, **options)
    return path
