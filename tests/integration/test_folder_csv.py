"""CSV files that list the files of a folder, written and read by Python's csv module, and declarations that are wrong."""

import csv
import random
import struct

import harness
from test_folder import ROOM, check, padded, refuse, some, write


# ---- CSV ---------------------------------------------------------------------------------------------------


def test_a_csv_file():
    """Written by Python's csv module, with everything that it quotes, and read by it."""
    dice = random.Random(5)
    texts = ["", " blanks ", "a,b", 'say "so"', "two\nlines", "two\r\nlines", "é", '"', "=1+1", "\\"]
    for ending in ("\r\n", "\n"):
        with harness.Instance() as feedd:
            root = feedd.directory / "pictures"
            files = some(40)
            files["with, comma/and \"quotes\".jpg"] = b"special"
            write(root, files)
            rows = [
                (text, path, dice.uniform(-1, 1), dice.randrange(1 << 62), text)
                for text, path in zip(texts * 10, [*files, *list(files)[:7]])
            ]
            with open(feedd.directory / "list.csv", "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator=ending)
                writer.writerow(("unused", "file_name", "score", "id", "class"))
                writer.writerows(rows)
            feedd.add_dataset(
                "pictures", format="folder", path=root, csv="list.csv", csv_file="file_name", field_image="bytes @ file",
                pad_image=ROOM, field_score="f64", field_id="u64 @ id", field_text="bytes @ csv:class", pad_text="10 255",
                field_length="length @ csv:class", field_name="bytes", pad_name=40,
            )  # fmt: skip
            feedd.start()
            content = {
                "image": [padded(files[path], pad=0) for _, path, _, _, _ in rows],
                "score": [struct.pack("<d", score) for _, _, score, _, _ in rows],
                "id": [struct.pack("<Q", number) for _, _, _, number, _ in rows],
                "text": [padded(text.encode(), 10, 255) for *_, text in rows],
                "length": [struct.pack("<q", len(text.encode())) for *_, text in rows],
                "name": [padded(path.encode(), 40, 0) for _, path, _, _, _ in rows],
            }
            check(feedd, content, batch_size=11, shuffle=True, epochs=2)


def test_csv_files_by_hand():
    """A byte order mark, blank lines, no last newline, paths with dots, and links."""
    with harness.Instance() as feedd:
        root = feedd.directory / "pictures"
        write(root, {"a/1": b"one", "b/2": b"two"})
        (root / "link").symlink_to("a")
        text = "\ufefffile,n\r\n\r\n./a/1,1\n\n\"link/1\",2\na/../b/2,+3"
        (feedd.directory / "list.csv").write_bytes(text.encode())
        feedd.add_dataset(
            "pictures", format="folder", path=root, csv="list.csv", field_file="bytes", pad_file=3, field_n="i8",
            field_name="bytes", pad_name=8,
        )  # fmt: skip
        feedd.start()
        names = [padded(name, 8, 0) for name in (b"./a/1", b"link/1", b"a/../b/2")]
        check(feedd, {"file": [b"one", b"one", b"two"], "n": [b"\1", b"\2", b"\3"], "name": names}, batch_size=2)


def refuse_csv(text, *parts, **options):
    def make(root):
        (root.parent / "list.csv").write_bytes(text.encode() if isinstance(text, str) else text)

    refuse(make, *parts, csv="list.csv", field_label=None, **options)


def test_csv_files_that_are_wrong():
    path = "list.csv: line "
    refuse_csv("", "list.csv: found an empty file")
    refuse_csv("file\n", "found no rows, wanted the names of columns in the first line and samples below")
    refuse_csv("\n\n\r\n", "found no rows")
    refuse_csv("file,y\na/1\n", path + "2: found 1 column, wanted 2 as in the first line")
    refuse_csv("file\na/1\na/1,\n", path + "3: found 2 columns, wanted 1")
    refuse_csv('file\n"a\n/1\n', path + "2: found a quotation mark that is never closed")
    refuse_csv('file\n"a/1"x\n', path + "2: found text after a closing quotation mark")
    refuse_csv('file,y\n"a\n\n1",2\n"', path + "5: found a quotation mark that is never closed")
    refuse_csv("," * 2000, path + "1: found too many columns, wanted at most 1024")
    refuse_csv("file\nmissing\n", path + '2: found "missing", wanted a file that is in the folder')
    refuse_csv("file\na/1/x\n", path + '2: found "a/1/x", wanted a file that is in the folder')
    refuse_csv("file\na\n", path + '2: found "a", which is a folder')
    refuse_csv("file\n/etc/passwd\n", path + '2: found "/etc/passwd", which leads out of the folder')
    refuse_csv("file\na/1\n\n../list.csv\n", path + '4: found "../list.csv", which leads out of the folder')
    refuse_csv("file,y\n,1\n", path + '2: found "", wanted the path of a file')
    refuse_csv(b"file\na/1\0x\n", path + "2: found", "wanted the path of a file")
    refuse_csv("file,y\na/1,cat\n", path + '2: found "cat", wanted a number of type i64 for field y', field_y="i64")
    refuse_csv("file,y\na/1,256\n", path + '2: found "256", wanted a number of type u8', field_y="u8")
    refuse_csv("x,y\na/1,1\n", 'csv_file: ', 'found no column "file" in the first line', csv_file="file")
    refuse_csv("x,y\na/1,1\n", "field.z: ", 'found no column "z" in the first line, wanted one of these: x, y', field_z="i64")
    refuse_csv("x,y,y\na/1,1,1\n", "field.y: ", 'found more than one column "y"', field_y="i64")


# ---- Declarations ------------------------------------------------------------------------------------------


def nothing(_):
    pass


def test_declarations():
    refuse(nothing, 'field.label: unknown type "int64"; perhaps you mean "i64"', field_label="int64 @ class")
    refuse(nothing, 'field.label: found source "label", wanted file, class or name, or csv = FILE', field_label="i64")
    refuse(nothing, "field.label: found a number @ file, wanted bytes or length @ file", field_label="i64 @ file")
    refuse(nothing, "field.label: found a number @ name", field_label="i64 @ name")
    refuse(nothing, "field.label: found f32 @ class, wanted the type of an integer", field_label="f32 @ class")
    for text in ("i64 @", "i64 x", "i64 x @ class"):
        refuse(nothing, f'field.label: found "{text}", wanted TYPE @ file, class, name', field_label=text)
    refuse(nothing, "pad.label: found no field of that name with samples of different lengths", pad_label="4")
    refuse(nothing, 'extensions: found "jpg png", wanted file extensions without dots', extensions="jpg png")
    refuse(nothing, "csv_file: found without csv, wanted both", csv_file="x")
    refuse_csv("file\na/1\n", "extensions: found together with csv", extensions="jpg")
    refuse_csv("file\na/1\n", 'field.c: found source "class" together with csv', field_c="i64 @ class")
