"""feedctl show: samples as values, text and images, of every format, in terminals of every width."""

import json
import os
import re
import signal
import struct

import data
import harness
import screen

try:
    import numpy as np
except ImportError:
    np = None



def show(instance, *arguments, **options):
    return instance.ctl("show", *arguments, **options).stdout


def show_json(instance, *arguments):
    return [json.loads(line) for line in show(instance, "--json", *arguments).splitlines()]


def fields_of(sample):
    return {field["name"]: field for field in sample["fields"]}


def refused(instance, *arguments, status=1):
    done = instance.ctl("show", *arguments, check=False)
    assert done.returncode == status and not done.stdout, done
    assert status != 1 or len(done.stderr.splitlines()) == 1, done
    return done.stderr


# ---- Values ------------------------------------------------------------------------------------------------


def test_samples_of_idx():
    with harness.Instance() as feedd:
        images, labels = feedd.directory / "images-idx3", feedd.directory / "labels-idx1"
        data.write_idx(images, (20, 2, 3), bytes(range(120)))
        data.write_idx(labels, (20,), bytes(range(100, 120)))
        feedd.add_dataset("idx", format="idx", field_image=images, field_label=labels)
        feedd.start()
        blocks = show(feedd, "idx").split("\n\n")
        assert len(blocks) == 3, blocks
        for number, block in enumerate(blocks):
            first = 6 * number
            assert block.strip("\n").splitlines() == [
                f"sample {number} of idx", "  image  u8[2,3]", "    " + " ".join(map(str, range(first, first + 6))),
                f"    min {first}, max {first + 5}, mean {first + 2.5}", "  label  u8", f"    {100 + number}",
            ], block  # fmt: skip
        # In the order of the arguments, also twice.
        samples = show_json(feedd, "idx", "19", "4", "19")
        found = [(sample["sample"], fields_of(sample)["label"]["values"]) for sample in samples]
        assert found == [(19, [119]), (4, [104]), (19, [119])], found
        # Of a dataset with fewer than three samples, all.
        feedd.add_view("two", "idx", samples="5..7")
        feedd.write_config()
        feedd.ctl("reload")
        assert [fields_of(sample)["label"]["values"] for sample in show_json(feedd, "two")] == [[105], [106]]


def test_samples_of_tokens():
    with harness.Instance() as feedd:
        path = feedd.directory / "tokens.bin"
        path.write_bytes(struct.pack("<1000I", *(1000 * token for token in range(1000))))
        feedd.add_dataset("tokens", format="tokens", path=path, dtype="u32", length=9)
        feedd.start()
        (sample,) = show_json(feedd, "tokens", "7")
        (field,) = sample["fields"]
        assert (field["dtype"], field["shape"], field["image"]) == ("u32", [10], None), field
        assert len(set(field["values"])) == 10 and field["values"][0] % 9000 == 0, field
        assert field["values"] == list(range(field["values"][0], field["values"][0] + 10_000, 1000)), field
        text = show(feedd, "tokens", "7", "--values", "3")
        assert text.splitlines()[2] == "    " + " ".join(map(str, field["values"][:3])) + " ...", text
        assert show_json(feedd, "tokens", "7", "--values", "3")[0]["fields"][0]["values"] == field["values"][:3]
        check_widths(feedd, [str(value) for value in field["values"]])


def check_widths(feedd, values):
    """One line has as many values as fit, whatever the width; all values take as many lines as they need."""
    for width in range(20, 90):
        environment = {"COLUMNS": str(width)}
        line = show(feedd, "tokens", "7", environment=environment).splitlines()[2]
        shown = line.split()
        if shown[-1] == "...":
            shown.pop()
            more = f"    {' '.join(values[: len(shown) + 1])}" + " ..." * (len(shown) + 1 < len(values))
            assert len(line) <= width < len(more), (width, line, more)
        assert shown == values[: len(shown)] and (len(shown) == len(values) or "..." in line), (width, line)
        text = show(feedd, "tokens", "7", "--values=0", environment=environment)
        lines = text.partition("]\n")[2].partition("    min")[0].splitlines()
        assert " ".join(lines).split() == values and max(map(len, lines)) <= width, (width, lines)


def test_samples_of_npy_are_what_numpy_reads():
    """Every dtype that NumPy has, to the last digit."""
    if np is None:
        harness.skip("this Python has no NumPy")
    dice = np.random.default_rng(1)
    with harness.Instance() as feedd:
        arrays, fields = {}, {}
        for descr in ("?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"):
            array = np.frombuffer(dice.bytes(7 * 30 * np.dtype(descr).itemsize), descr).reshape(7, 5, 6)
            if descr in "?":
                array = dice.integers(0, 2, (7, 5, 6)).astype("?")
            arrays[f"x{descr.replace('?', 'b')}"] = array
        for name, array in arrays.items():
            fields[f"field_{name}"] = feedd.directory / f"{name}.npy"
            np.save(fields[f"field_{name}"], array)
        feedd.add_dataset("arrays", format="npy", **fields)
        feedd.start()
        for sample in show_json(feedd, "arrays", "0", "6"):
            for name, field in fields_of(sample).items():
                check_numbers(arrays[name][sample["sample"]], field)


def check_numbers(wanted, field):
    values = field["values"]
    if wanted.dtype.kind == "c":
        values = [complex(float(first), float(second)) for first, second in values]
    elif wanted.dtype.kind == "f":
        values = [float(value) for value in values]
    found = np.array([int(value) if wanted.dtype.kind in "iu" else value for value in values], wanted.dtype)
    assert field["shape"] == list(wanted.shape) and field["count"] == wanted.size, field
    np.testing.assert_array_equal(found, wanted.reshape(-1))
    numbers = wanted.reshape(-1)
    nan = np.isnan(numbers) if wanted.dtype.kind in "fc" else np.zeros(len(numbers), bool)
    infinite = ~nan & np.isinf(numbers) if wanted.dtype.kind in "fc" else nan
    finite = numbers[~nan & ~infinite]
    assert (field["nan"], field["infinite"]) == (nan.sum(), infinite.sum()), field
    bounds = np.abs(finite.astype("c16")) if wanted.dtype.kind == "c" else finite
    for key, bound in (("min", bounds.min()), ("max", bounds.max())):
        if wanted.dtype.kind in "iu":
            assert int(field[key]) == int(bound), (key, field, bound)
        else:
            np.testing.assert_allclose(float(field[key]), float(bound), rtol=1e-12)
    wide = finite.astype("g" if wanted.dtype.kind != "c" else "G")
    mean = complex(*field["mean"]) if wanted.dtype.kind == "c" else field["mean"]
    np.testing.assert_allclose(mean, complex(wide.mean()) if wanted.dtype.kind == "c" else float(wide.mean()), rtol=1e-9)


def test_samples_of_views_are_those_of_the_view():
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=100, size=16, transform_x="scale 2, cast f32")
        data.write_npy(feedd.directory / "list.npy", "<i8", (4,), struct.pack("<4q", 77, 3, 99, 3))
        feedd.add_view("some", "numbers", indices="list.npy")
        feedd.add_view("raw", "numbers", samples="90..")
        feedd.start()
        for name, at, number in (("some", 0, 77), ("some", 2, 99), ("some", 3, 3), ("raw", 9, 99), ("numbers", 5, 5)):
            (sample,) = show_json(feedd, name, str(at))
            (field,) = sample["fields"]
            assert field["dtype"] == "f32", field
            assert field["values"] == [2 * byte for byte in data.sample_bytes(number, 16)], (name, at, field)
        assert "wanted numbers from 0 to 3" in refused(feedd, "some", "4")


def test_text_is_shown_as_such():
    texts = ["plain", "größe 犬", 'two\nlines and a "quote"', "\033[31mred", "\x9b31m", "abc\u202ecba", "x\0y", ""]
    with harness.Instance() as feedd:
        path = feedd.directory / "texts.bin"
        path.write_bytes(b"".join(text.encode().ljust(40, b"\0") for text in texts))
        feedd.add_dataset("texts", format="records", path=path, record_bytes=40, field_text="u8[40] @ 0")
        feedd.add_dataset("images", format="records", path=path, record_bytes=40, field_image="u8[5,8] @ 0")
        feedd.start()
        numbers = [str(number) for number in range(len(texts))]
        found = [fields_of(sample)["text"]["text"] for sample in show_json(feedd, "texts", *numbers)]
        assert found == [*texts[:3], None, None, None, None, None], found
        assert all(fields_of(sample)["image"]["text"] is None for sample in show_json(feedd, "images", *numbers))
        said = show(feedd, "texts", *numbers)
        assert '    "plain"\n' in said and '    "größe 犬"\n' in said, said
        assert '    "two\\n\n    lines and a \\"quote\\""\n' in said, said
        assert f"    {' '.join(map(str, b'plain'))}" not in said and "mean" not in said.partition("sample 3")[0], said
        for text in said, screen.on_terminal(feedd, 80, "show", "texts", *numbers):
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text), text


def test_numbers_that_look_like_text():
    """A few values of a fixed field may be numbers; those of a ragged one are text."""
    with harness.Instance() as feedd:
        (feedd.directory / "short.bin").write_bytes(b"AB")
        feedd.add_dataset("short", format="records", path="short.bin", record_bytes=2, field_x="u8[2] @ 0")
        (feedd.directory / "folder").mkdir()
        (feedd.directory / "folder" / "a").write_bytes(b"AB")
        feedd.add_dataset("folder", format="folder", path="folder", field_x="bytes @ file")
        feedd.start()
        said = show(feedd, "short"), show(feedd, "folder")
        assert said[0] == 'sample 0 of short\n  x  u8[2]\n    "AB"\n    65 66\n', said
        assert said[1] == 'sample 0 of folder\n  x  u8[2]\n    "AB"\n', said


def test_long_text_is_cut():
    with harness.Instance() as feedd:
        path = feedd.directory / "long.bin"
        path.write_bytes(("ü" * 3000).encode())
        feedd.add_dataset("long", format="records", path=path, record_bytes=6000, field_x="u8[6000] @ 0")
        feedd.start()
        text = show(feedd, "long")
        assert text.count("ü") == 1000 and "... and 4000 bytes more" in text, text
        assert show(feedd, "long", "--values=7").count("ü") == 3
        assert show(feedd, "long", "--values=0").count("ü") == 3000


# ---- What goes wrong ---------------------------------------------------------------------------------------


def test_what_is_not_there():
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=10, size=8)
        feedd.start()
        assert 'no dataset named "number"; perhaps you mean "numbers"' in refused(feedd, "number")
        said = refused(feedd, "numbers", "3", "10")
        assert said == "feedctl: dataset numbers: found sample number 10, wanted numbers from 0 to 9\n", said
        said = refused(feedd, "numbers", "8..11")
        assert said == "feedctl: dataset numbers: found sample number 10, wanted numbers from 0 to 9\n", said
        said = refused(feedd, "numbers", "--field", "y")
        assert said == "feedctl: dataset numbers has no field y, only x u8[8]\n", said
        for wrong in (), ("numbers", "first"), ("numbers", "-1"), ("numbers", "1.5"), ("numbers", "--json", "--draw"), \
                ("numbers", "--values", "x"), ("numbers", "3..3"), ("numbers", "3.."), ("numbers", "..3"), \
                ("numbers", "0..65537"), ("numbers", "0..9", "--sheet", "x.png", "--json"):  # fmt: skip
            assert "Try `feedctl show --help'" in refused(feedd, *wrong, status=2), wrong
        feedd.stop()
        assert "feedctl: " in refused(feedd, "numbers")


def break_sample(feedd, size, on_error):
    """The file ends within sample 5."""
    path = data.add_records(feedd, samples=10, size=size, on_error=on_error)
    feedd.start()
    os.truncate(path, 5 * size + 7)


def test_a_sample_that_is_skipped():
    with harness.Instance() as feedd:
        break_sample(feedd, 64, "skip")
        done = feedd.ctl("show", "numbers", "4", "5", "0", "--json", check=False)
        assert done.returncode == 1, done
        assert [json.loads(line)["sample"] for line in done.stdout.splitlines()] == [4, 0], done
        left_out = "feedctl: sample 5 of numbers cannot be read, and on_error = skip leaves it out"
        wanted = f"{left_out}: feedctl errors numbers says why\n"
        assert done.stderr == wanted, done


def test_a_sample_that_cannot_be_read():
    """Its neighbours can be."""
    with harness.Instance() as feedd:
        break_sample(feedd, 64, "fail")
        for number in ("4", "2", "0"):
            (sample,) = show_json(feedd, "numbers", number)
            assert bytes(fields_of(sample)["x"]["values"]) == data.sample_bytes(int(number), 64), sample
        assert not feedd.status()["last_errors"], feedd.status()
        said = refused(feedd, "numbers", "5")
        assert "sample 5 cannot be read" in said and "it has shrunk" in said, said


def test_samples_in_a_row_share_a_feed():
    """They are what each of them is by itself, also in the order of an epoch."""
    with harness.Instance(loaders=1, log_level="debug") as feedd:
        data.add_records(feedd, samples=100, size=64)
        feedd.start()

        def attached():
            return feedd.read_log().count(" is rank 0 of feed ")

        for options in ((), ("--shuffle", "--seed", "3", "--epoch", "2")):
            alone = [show_json(feedd, "numbers", str(number), *options)[0] for number in (7, 8, 9, 97, 98, 99, 4)]
            before = attached()
            assert show_json(feedd, "numbers", "7..10", "97..100", "4", *options) == alone
            assert before >= 7 and attached() == before + 3, feedd.read_log()


def test_a_row_with_a_sample_that_cannot_be_read():
    """Those before it are shown, and, if it is skipped, those behind it; one beyond the row does no harm."""
    for on_error, shown in (("fail", [2, 3, 4]), ("skip", [2, 3, 4, 6, 7])):
        with harness.Instance() as feedd:
            root = feedd.directory / "files"
            (root / "class").mkdir(parents=True)
            for number in range(10):
                (root / "class" / str(number)).write_bytes(bytes([number]) * 64)
            feedd.add_dataset("numbers", format="folder", path=root, on_error=on_error)
            feedd.start().indexed()
            os.truncate(root / "class/5", 7)
            assert [sample["sample"] for sample in show_json(feedd, "numbers", "0..5")] == [0, 1, 2, 3, 4]
            done = feedd.ctl("show", "numbers", "2..8", "--json", check=False)
            assert done.returncode == 1 and "sample 5 " in done.stderr and len(done.stderr.splitlines()) == 1, done
            samples = [json.loads(line) for line in done.stdout.splitlines()]
            assert [sample["sample"] for sample in samples] == shown, done
            assert all(fields_of(sample)["image"]["values"] == [sample["sample"]] * 64 for sample in samples), done


def test_a_daemon_that_dies_meanwhile():
    with harness.Instance(loaders=1, io="uring") as feedd:
        data.add_records(feedd, samples=100, size=8, io_delay_us=10_000_000)
        feedd.start()
        process, terminal = screen.open_terminal(feedd, 80, "show", "numbers")
        harness.eventually(lambda: feedd.statistics()["feeds"], 5, "it is attached")
        feedd.kill()
        text = screen.close_terminal(process, terminal, status=1)
        assert text.startswith("feedctl: ") and len(text.splitlines()) == 1, text
        feedd.start()


def test_it_leaves_when_its_reader_does():
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=2000, size=64)
        feedd.start()
        script = f"{harness.PROGRAMS}/feedctl show numbers $(seq 0 1999) | head -n 1; exit ${{PIPESTATUS[0]}}"
        done = feedd.program("bash", "-c", script, check=False)
        assert done.stdout == "sample 0 of numbers\n" and done.returncode in (0, 128 + signal.SIGPIPE), done
        harness.eventually(lambda: not [feed for feed in feedd.statistics()["feeds"] if feed["consumers"]], 5, "nobody is left")
