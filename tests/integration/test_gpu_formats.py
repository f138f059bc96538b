"""Every format of README's table, in GPU memory: the same bytes in the same order as in host memory."""

import os
import re
import struct

import data
import expected
import harness
import parquet_writer
import test_arrow
import test_folder
import test_megatron
import test_pack
import test_tar
from test_gpu import check_both


def add_idx(feedd):
    images, labels = feedd.directory / "images.idx", feedd.directory / "labels.idx"
    data.write_idx(images, (200, 28, 27), os.urandom(200 * 28 * 27))
    data.write_idx(labels, (200,), os.urandom(200))
    feedd.add_dataset("idx", format="idx", field_x=images, field_y=labels)
    return {"x": expected.read_idx(images), "y": expected.read_idx(labels)}


def add_records(feedd):
    path = feedd.directory / "numbers.bin"
    data.write_records(path, 150, 61)
    feedd.add_dataset("records", format="records", path=path, record_bytes=61, field_x="u8[61] @ 0")
    return expected.read_records([path], 61, {"x": (0, 61)})


def add_npy(feedd):
    path = feedd.directory / "x.npy"
    data.write_npy(path, "<f4", (150, 7, 5), os.urandom(150 * 7 * 5 * 4))
    feedd.add_dataset("npy", format="npy", field_x=path)
    return {"x": expected.read_npy(path)}


def add_tokens(feedd):
    path = feedd.directory / "tokens.bin"
    path.write_bytes(os.urandom(10001 * 2))
    feedd.add_dataset("tokens", format="tokens", path=path, dtype="u16", length=100)
    return {"tokens": expected.read_tokens([path], 2, 100)}


def add_megatron(feedd):
    documents = test_megatron.some(80)
    test_megatron.pair(feedd.directory / "text", documents)
    feedd.add_dataset("megatron", format="megatron", path="text.idx")
    return {"tokens": expected.Ragged([struct.pack(f"<{len(tokens)}H", *tokens) for tokens in documents], 2)}


def add_folder(feedd):
    return test_folder.add(feedd, test_folder.some(60), name="folder")


def add_tar(feedd):
    return test_tar.add_shards(feedd, [test_tar.some(40), test_tar.some(20, 40)], name="tar")


def add_arrow(feedd):
    return test_arrow.add_files(feedd, name="arrow", pad_text=None) | {
        "text": expected.Ragged(text for text, _ in test_arrow.some(100))
    }


def add_parquet(feedd):
    (feedd.directory / "images.parquet").write_bytes(parquet_writer.images(90))
    feedd.add_dataset("parquet", format="parquet", path="images.parquet", field_image="bytes @ image.bytes", field_label="i64")
    images = expected.Ragged(bytes([number]) * (number + 1) for number in range(90))
    return {"image": images, "label": [struct.pack("<q", number) for number in range(90)]}


FORMATS = {
    "idx": add_idx, "records": add_records, "npy": add_npy, "tokens": add_tokens, "megatron": add_megatron,
    "folder": add_folder, "tar": add_tar, "arrow": add_arrow, "parquet": add_parquet,
}  # fmt: skip


@harness.limit(60)
def test_every_format():
    """Also a format that the table will have one day."""
    table = (harness.ROOT / "README.md").read_text().partition("| format | ")[2].partition("\n\n")[0]
    assert {*FORMATS, "packed"} == set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)), table
    with harness.Instance(ring="1M", device_pool="64K") as feedd:
        contents = {name: add(feedd) for name, add in FORMATS.items()}
        feedd.start()
        test_pack.pack(feedd, "parquet")
        test_pack.serve_packed(feedd, name="packed")
        for number, (name, content) in enumerate({**contents, "packed": contents["parquet"]}.items()):
            check_both(feedd, name, content, shuffle=True, seed=number, epochs=2)
