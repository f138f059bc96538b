"""Seeds of fuzz_folder.c, for seeds.py."""

import struct


def kept(extents, text, table):
    """A kept index: (stem, rest, file) of each sample, the text's strings, and the words at its end."""
    text += bytes(-len(text) % 8)
    rows = b"".join(struct.pack("<QII", stem << 40 | rest, file, 5) for stem, rest, file in extents)
    return bytes([8, len(extents) - 1]) + rows + text + struct.pack(f"<{len(table)}Q", *table)


def kept_indices():
    text = b"a/x_\0.jpg\0\00017\0b/2\0"
    good = [(1, 11, 0), (0, 15, 0)]
    yield "kept", kept(good, text, [0, 1])
    yield "kept-whole", kept([(0, 15, 0)], text, [0])
    yield "kept-without-table", kept([(0, 0, 0)], b"", [])
    for name, stem, rest, file in (("stem", 2, 11, 0), ("rest", 1, 40, 0), ("far", 1, 2**40 - 1, 0), ("file", 1, 11, 1)):
        yield f"kept-no-{name}", kept([(stem, rest, file)], text, [0, 1])
    for name, table in (("stems", [0, 9]), ("many", [0, 2**24]), ("most", [0, 2**64 - 1]), ("open", [0, 2**57 + 1]),
                        ("outside", [40, 1]), ("in-the-table", [24, 1]), ("huge", [2**64 - 1, 1])):
        yield f"kept-{name}", kept(good, text, table)
    yield "kept-second-part", kept([(1, 0, 0)], b"x" * 24, [23, 1])
    yield "kept-long", kept([(1, 2050, 0)], b"a" * 2049 + b"\0" + b"b" * 2045 + b"\0", [0, 1])
    yield "kept-too-long", kept([(1, 2050, 0)], b"a" * 2049 + b"\0" + b"b" * 2053 + b"\0", [0, 1])


def folders():
    csv, extensions = 1, 2
    fields, head = b"bytes @ file\ni64\nbytes @ csv:name\n8 255\nfile\n", b"file,y,name\n"
    rows = b'file,y,name\na/1,1,"cat, ""grey"""\r\nb/2,-5,\n\nb/3,007,"two\nlines"'
    yield "csv", bytes([csv]) + fields + rows
    yield "csv-quoted", bytes([csv]) + fields + b'\xef\xbb\xbf"file","y","name"\n"./a/../a/1","1","x"\n'
    for name, path in (("outside", b"c/passwd"), ("above", b"../x"), ("root", b"/etc"), ("missing", b"a/9"), ("nul", b"a/1\0")):
        yield f"csv-{name}", bytes([csv]) + fields + head + path + b",1,x\n"
    for name, cells in (("open", b'"a/1,1,x\n'), ("after", b'"a/1"b,1,x\n'), ("short", b"a/1,1\n"), ("number", b"a/1,one,x\n")):
        yield f"csv-{name}", bytes([csv]) + fields + head + cells
    fields = b"bytes @ file\ni64 @ class\nbytes @ name\n8\njpg|jpeg\n"
    yield "names", bytes([0]) + fields + b"1.jpg\n\xff\xfe\n\x1b[31m\n" + b"n" * 255 + b"\n"
    yield "extensions", bytes([extensions]) + fields + b"1.JPG\n.jpg\njpg\nx.jpeg\n"
    yield "lengths", bytes([0]) + b"length @ file\nu8 @ class\nlength @ class\n\n\n1\n"
    yield from kept_indices()
