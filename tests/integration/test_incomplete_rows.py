"""Rows of Arrow, Parquet and CSV files that are incomplete: listed, counted, and left out or replaced, as on_error says."""

import random
import struct

import consumer
import expected
import harness
import pyarrow as pa
import test_errors
import test_folder
import test_ragged_errors
from pyarrow import parquet

COUNT = 120
FIELDS = {
    "field_number": "i64", "field_flag": "bool", "field_text": "bytes", "field_size": "length @ text", "field_list": "i32[]",
    "field_three": "f32[3]", "field_equal": "i16[2]", "field_image": "bytes @ image.bytes", "field_fixed": "u8[5]",
}  # fmt: skip
TYPES = {
    "number": pa.int64(), "flag": pa.bool_(), "text": pa.string(), "list": pa.list_(pa.int32()),
    "three": pa.list_(pa.float32(), 3), "equal": pa.list_(pa.int16()),
    "image": pa.struct([("bytes", pa.large_binary()), ("n", pa.int8())]), "fixed": pa.binary(5),
}  # fmt: skip


def whole(number, dice):
    return {
        "number": number, "flag": number % 3 == 0, "text": "x" * dice.randrange(40), "equal": [number, -number],
        "list": [dice.randrange(1000) for _ in range(dice.randrange(6))], "three": [number + 0.5, 1.0, 2.0],
        "image": {"bytes": dice.randbytes(dice.randrange(300)), "n": None}, "fixed": dice.randbytes(5),
    }  # fmt: skip


def spoil(row, number):
    """What is wrong with every seventh row: each field in turn, and values inside of it."""
    wrong = [
        ("number", None), ("flag", None), ("text", None), ("list", None), ("three", None), ("equal", None), ("image", None),
        ("fixed", None), ("list", [1, None, 3]), ("list", [None]), ("equal", [5]), ("equal", [5, None]),
        ("image", {"bytes": None, "n": 1}),
    ]  # fmt: skip
    field, value = wrong[number // 7 % len(wrong)]
    row[field] = value
    return field


def table_of(count=COUNT):
    """A table, the numbers of the rows that are wrong and their columns, and what is to be delivered."""
    dice = random.Random(3)
    rows, bad = [], {}
    for number in range(count):
        rows.append(whole(number, dice))
        if number % 7 == 3:
            bad[number] = spoil(rows[-1], number)
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()})
    good = [whole(0, random.Random(1)) if number in bad else row for number, row in enumerate(rows)]
    content = {
        "number": [struct.pack("<q", row["number"]) for row in good],
        "flag": [bytes([row["flag"]]) for row in good],
        "text": expected.Ragged(row["text"].encode() for row in good),
        "size": [struct.pack("<q", len(row["text"])) for row in good],
        "list": expected.Ragged([struct.pack(f"<{len(row['list'])}i", *row["list"]) for row in good], 4),
        "three": [struct.pack("<3f", *row["three"]) for row in good],
        "equal": [struct.pack("<2h", *row["equal"]) for row in good],
        "image": expected.Ragged(row["image"]["bytes"] for row in good),
        "fixed": [row["fixed"] for row in good],
    }
    return table, bad, content


def write_arrow(path, table, compression=None):
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=50)


def check_both(feedd, content, bad, name="rows"):
    """Left out, and then replaced."""
    for on_error in ("skip", "replace"):
        feedd.datasets[name]["on_error"] = on_error
        feedd.write_config()
        feedd.ctl("reload")
        feedd.indexed()
        for device in (None, "host:0"):
            run = {"shuffle": True, "epochs": 2}
            batches = consumer.read(feedd, name, 7, device=device, **run)
            if on_error == "skip":
                test_ragged_errors.check_skipped(content, set(bad), batches, 7, **run)
            else:
                assert expected.check_replaced(content, set(bad), batches, 7, **run) == 2 * len(bad)


def check_listed(feedd, bad, reason, name="rows"):
    found = test_errors.errors(feedd, name)
    assert found["incomplete"] == len(bad) and [row["sample"] for row in found["samples"]] == sorted(bad)[:64], found
    for row in found["samples"]:
        assert reason(row["sample"]) in row["reason"], row
    word = f"{len(bad)} sample{'s are' if len(bad) > 1 else ' is'} incomplete"
    assert word in feedd.check().stdout, feedd.check().stdout
    return found


def refused(feedd, *parts, name="rows"):
    feedd.datasets[name]["on_error"] = "fail"
    feedd.write_config()
    done = feedd.check()
    assert done.returncode == 1 and all(part in done.stderr for part in parts), done


def check_rows(feedd, format, path, content, bad, **fields):
    feedd.add_dataset("rows", format=format, path=path, on_error="skip", **fields)
    feedd.start().indexed()
    check_both(feedd, content, bad)
    check_listed(feedd, bad, lambda sample: f'in row {sample} of column "{bad[sample]}')
    assert "all bytes equal" in feedd.ctl("read", "rows", "--epochs=1", "--verify").stdout


def test_nulls_in_arrow_files():
    for compression in (None, "lz4", "zstd"):
        with harness.Instance() as feedd:
            table, bad, content = table_of()
            write_arrow(feedd.directory / "a.arrow", table, compression)
            check_rows(feedd, "arrow", "a.arrow", content, bad, **FIELDS)
            refused(feedd, "a.arrow: batch 1: found 1 null in column ")


def test_nulls_in_parquet_files():
    ways = [
        {}, {"use_dictionary": False}, {"compression": "none", "use_dictionary": False, "data_page_size": 200},
        {"data_page_version": "2.0"}, {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY",
         "fixed": "BYTE_STREAM_SPLIT", "number": "DELTA_BINARY_PACKED"}},
    ]  # fmt: skip
    for way in ways:
        with harness.Instance() as feedd:
            table, bad, content = table_of()
            parquet.write_table(table, feedd.directory / "a.parquet", row_group_size=50, **way)
            check_rows(feedd, "parquet", "a.parquet", content, bad, **FIELDS)
            refused(feedd, "a.parquet: row group 1: column ", "found a null in row ")


def test_row_groups_and_files_without_values():
    """Of which the index has nothing that lies in a file; kept and read again."""
    for format in ("arrow", "parquet"):
        with harness.Instance(index_folder="kept") as feedd:
            (feedd.directory / "kept").mkdir()
            texts = [["a", "bc"] * 25, [None] * 30, [None, "def", None]]
            for number, some in enumerate(texts):
                table = pa.table({"text": pa.array(some, pa.string())})
                path = feedd.directory / f"{number}.{format}"
                write_arrow(path, table) if format == "arrow" else parquet.write_table(table, path, row_group_size=20)
            flat = sum(texts, [])
            bad = {number for number, text in enumerate(flat) if text is None}
            content = {"text": expected.Ragged((text or "").encode() for text in flat)}
            feedd.add_dataset("rows", format=format, path=f"*.{format}", on_error="skip", field_text="bytes")
            feedd.start().indexed()
            check_both(feedd, content, bad)
            assert ", read in" in feedd.check().stdout


def test_rows_of_csv_files():
    wrong = {
        2: ("missing.jpg,1", "line 4 of list.csv: found \"missing.jpg\", wanted a file that is in the folder"),
        5: ("a,1", 'line 7 of list.csv: found "a", which is a folder'),
        6: ("/etc/passwd,1", "which leads out of the folder"),
        11: ("a/11.jpg,cat", 'line 13 of list.csv: found "cat", wanted a number of type i32 for field n'),
        19: (",3", "wanted the path of a file"),
    }
    for pad, names in (({}, True), ({"pad_image": 20}, True), ({}, False)):  # without names, paths are in parts
        with harness.Instance(index_folder="kept") as feedd:
            (feedd.directory / "kept").mkdir()
            root = feedd.directory / "pictures"
            test_folder.write(root, {f"a/{number}.jpg": b"%d" % number for number in range(20)})
            rows = [wrong[number][0] if number in wrong else f"a/{number}.jpg,{number}" for number in range(20)]
            (feedd.directory / "list.csv").write_text("\n".join(["file,n", *rows]))
            feedd.add_dataset("rows", format="folder", path=root, csv="list.csv", on_error="skip", field_n="i32",
                              field_image="bytes @ file", **pad, **({"field_name": "bytes"} if names else {}))  # fmt: skip
            images = [b"%d" % number for number in range(20)]
            content = {
                "n": [struct.pack("<i", number) for number in range(20)],
                "image": [image + bytes(20 - len(image)) for image in images] if pad else expected.Ragged(images),
                "name": expected.Ragged(b"a/%d.jpg" % number for number in range(20)),
            }
            if not names:
                del content["name"]
            feedd.start().indexed()
            check_both(feedd, content, wrong)
            check_listed(feedd, wrong, lambda sample: wrong[sample][1])
            refused(feedd, 'list.csv: line 4: found "missing.jpg", wanted a file that is in the folder')
            # It comes, and is served.
            feedd.datasets["rows"]["on_error"] = "skip"
            (root / "missing.jpg").write_bytes(b"2")
            feedd.write_config()
            feedd.ctl("reload")
            feedd.indexed()
            content["n"][2] = struct.pack("<i", 1)
            if names:
                content["name"][2] = b"missing.jpg"
            test_ragged_errors.check_skipped(content, set(wrong) - {2}, consumer.read(feedd, "rows", 7), 7)


def test_no_complete_row():
    with harness.Instance() as feedd:
        parquet.write_table(pa.table({"x": pa.array([None] * 5, pa.int64())}), feedd.directory / "a.parquet")
        feedd.add_dataset("rows", format="parquet", path="a.parquet", on_error="skip", field_x="i64")
        done = feedd.check()
        assert done.returncode == 1 and 'a.parquet: found no complete sample; of the first one: found a null in row 0 of' in (
            done.stderr
        ), done
