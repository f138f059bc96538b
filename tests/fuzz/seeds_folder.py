"""Seeds of fuzz_folder.c, for seeds.py."""


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
