"""feedctl read --verify of samples in blocks, which feedctl decodes for itself: what is right, and what differs."""

import harness
import numpy as np
import pyarrow as pa
import test_compressed
from pyarrow import parquet

SHUFFLED = ("--shuffle", "--seed=3", "--epochs=2", "--batch-size=16")
FIELDS = {**test_compressed.FIELDS, "field_padded": "bytes @ text", "pad_padded": 9}
RIGHT = "each in its place, none twice, all bytes equal to the files', as feedd's index describes them"
# Of PyArrow: what makes pages and record batches of different forms.
CODECS = ("snappy", "gzip", "lz4", "zstd")
DELTA = {"ids.list.element": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY", "pair.list.element": "BYTE_STREAM_SPLIT"}
WRITERS = {
    "dictionary": {},
    "plain": {"use_dictionary": False},
    "pages": {"use_dictionary": False, "data_page_size": 200, "write_batch_size": 10, "data_page_version": "2.0"},
    "delta": {"use_dictionary": False, "column_encoding": DELTA},
}


def verify(feedd, name, samples, *arguments):
    said = feedd.ctl("read", name, "--verify", *arguments).stdout
    assert f"verified {samples} samples" in said and RIGHT in said, said
    return said


def test_arrow():
    """All kinds of columns, in several files, views of them, and with more blocks than loaders keep."""
    whole = test_compressed.table()
    for codec in ("lz4", "zstd"):
        with harness.Instance(loaders=2) as feedd:
            for number, rows in enumerate((0, 250, 350)):
                path = feedd.directory / f"{number}.arrow"
                test_compressed.write(path, whole.slice(250 if rows == 350 else 0, rows), codec)
            feedd.add_dataset("hf", format="arrow", path=feedd.directory / "*.arrow", block_memory="64K", **FIELDS)
            feedd.add_view("part", "hf", samples="10%..90%", split_seed=2)
            feedd.add_dataset("moved", format="arrow", path="*.arrow", transform_n="cast f32", **FIELDS)
            feedd.start().indexed()
            verify(feedd, "hf", 600)
            verify(feedd, "hf", 1200, *SHUFFLED)
            verify(feedd, "part", 960, *SHUFFLED)
            said = feedd.ctl("read", "moved", "--verify", *SHUFFLED).stdout
            assert "all bytes of ids, text, pair, padded equal" in said and "not verified: the bytes of n" in said, said
            assert test_compressed.blocks(feedd) > 0


def test_parquet():
    whole = test_compressed.table()
    for codec, (name, options) in zip(CODECS, WRITERS.items()):
        with harness.Instance(loaders=2) as feedd:
            for number, rows in enumerate((250, 0, 350)):
                part = whole.slice(0 if number == 0 else 250, rows)
                parquet.write_table(part, feedd.directory / f"{number}.parquet", 60, compression=codec, **options)
            feedd.add_dataset("hub", format="parquet", path="*.parquet", **FIELDS)
            feedd.start().indexed()
            verify(feedd, "hub", 600)
            verify(feedd, "hub", 1200, *SHUFFLED)
            assert test_compressed.blocks(feedd) > 0, name


def test_mixes_that_shuffle_in_windows():
    """Of ragged and fixed fields, in blocks of both formats, with windows of several sizes and without."""
    with harness.Instance(loaders=2) as feedd:
        test_compressed.add(feedd, test_compressed.table(), "lz4", shuffle_window=2)
        parquet.write_table(test_compressed.table(400, 1), feedd.directory / "a.parquet", 50, compression="zstd")
        feedd.add_dataset("hub", format="parquet", path="a.parquet", shuffle_window=3, **test_compressed.FIELDS)
        feedd.add_view("part", "hf", samples="150..500", shuffle_window=1)
        feedd.add_view("split", "hub", samples="..30%", split_seed=4)
        feedd.add_mix("both", {"hf": 3, "hub": 2, "part": 1, "split": 2}, 900)
        feedd.start().indexed()
        verify(feedd, "both", 900)
        verify(feedd, "both", 1800, *SHUFFLED)
        verify(feedd, "part", 700, *SHUFFLED)
        share = verify(feedd, "both", 900, *SHUFFLED, "--world-size=2", "--rank=1")
        assert "only the share of rank 1 of 2" in share, share


def noise(rows=40, each=3000):
    """Values that no codec makes smaller, so that their bytes stand in the file as they are."""
    dice = np.random.default_rng(5)
    return pa.table({"text": pa.array([dice.bytes(each) for _ in range(rows)], pa.binary())})


def write(path, content, codec):
    if path.suffix == ".arrow":
        test_compressed.write(path, content, codec, 10)
    else:
        parquet.write_table(content, path, 10, compression=codec, use_dictionary=False)


def replace(path, at, content):
    """By another file, which loaders, that have the first one open, do not see."""
    data = bytearray(path.read_bytes())
    data[at : at + len(content)] = content
    path.unlink()
    path.write_bytes(data)


def test_what_differs():
    whole = noise()
    value = whole["text"][27].as_py()
    for kind, codec in (("arrow", "lz4"), ("arrow", "zstd"), ("parquet", "snappy"), ("parquet", "zstd")):
        with harness.Instance() as feedd:
            path = feedd.directory / f"a.{kind}"
            write(path, whole, codec)
            feedd.add_dataset("hf", format=kind, path=path, field_text="bytes")
            feedd.add_mix("both", {"hf": 1}, 40)
            feedd.start().indexed()
            verify(feedd, "hf", 40)
            at = path.read_bytes().index(value[:64]) + 50
            replace(path, at, bytes([value[50] ^ 1]))
            for name in ("hf", "both"):
                done = feedd.ctl("read", name, "--epochs=1", "--verify", check=False)
                place = f"field text of sample 27 (number 27 of the batch) differs at byte 50: {value[50]} was delivered, the "
                assert done.returncode == 1 and f"{place}block at offset " in done.stderr, done
                assert f" of {path}, decoded, has {value[50] ^ 1} at offset " in done.stderr, done


def test_blocks_that_feedctl_cannot_decode():
    """The file that feedctl finds is damaged or cut; that of the loaders is not."""
    whole = noise()
    with harness.Instance() as feedd:
        path = feedd.directory / "a.arrow"
        write(path, whole, "zstd")
        feedd.add_dataset("hf", format="arrow", path=path, field_text="bytes")
        feedd.start().indexed()
        begin = test_compressed.frames(path, "zstd")[3]  # of the texts of the second batch
        replace(path, begin, b"none")
        done = feedd.ctl("read", "hf", "--verify", check=False)
        said = f"cannot verify: {path}, offset {begin}: its block cannot be decoded with zstd"
        assert done.returncode == 1 and said in done.stderr, done
        data = path.read_bytes()[: begin + 10]
        path.unlink()
        path.write_bytes(data)
        done = feedd.ctl("read", "hf", "--verify", check=False)
        said = f"cannot read {path} at offset {begin + 10} to verify: the file ends there"
        assert done.returncode == 1 and said in done.stderr, done
        path.unlink()
        done = feedd.ctl("read", "hf", "--verify", check=False)
        assert done.returncode == 1 and f"cannot open {path} to verify against it" in done.stderr, done


def test_blocks_that_nobody_can_decode():
    """Others take the places of their samples, or none."""
    def verified(feedd, content, bad):
        said = feedd.ctl("read", "hf", "--verify", *SHUFFLED).stdout
        fate = "replaced by others" if feedd.datasets["hf"]["on_error"] == "replace" else "skipped as unreadable"
        assert f"; {2 * len(bad)} samples were {fate}" in said and "bytes equal to the files'" in said, said

    def damage(path, at):
        test_compressed.patch(path, at, b"none")

    for codec, fate in (("lz4", "replace"), ("zstd", "skip")):
        test_compressed.damaged(codec, damage, fate, verified)
