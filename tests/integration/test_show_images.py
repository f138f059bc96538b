"""feedctl show: images in the terminal and in PNG files, compared with the samples pixel by pixel."""

import json

import data
import harness
import screen
from screen import HALF

try:
    import numpy as np
except ImportError:
    np = None


def show(instance, *arguments, **options):
    return instance.ctl("show", *arguments, **options).stdout


LEVELS = (0, 95, 135, 175, 215, 255)
XTERM = {16 + at: (LEVELS[at // 36], LEVELS[at // 6 % 6], LEVELS[at % 6]) for at in range(216)}
XTERM.update({232 + at: (8 + 10 * at,) * 3 for at in range(24)})


def distance(left, right):
    return sum((one - other) ** 2 for one, other in zip(left, right, strict=True))


def gradient(height, width, channels, sample=0):
    """Bytes in which every place and channel differs from its neighbours."""
    return bytes(
        (5 * y + 3 * x + 70 * channel + 11 * sample) % 256
        for y in range(height) for x in range(width) for channel in range(channels)
    )  # fmt: skip


def add_images(instance):
    """Records with an image per number of channels, and a label."""
    sizes = {"grey": 10 * 12, "rgb": 10 * 12 * 3, "rgba": 8 * 9 * 4}
    path = instance.directory / "images.bin"
    path.write_bytes(
        b"".join(
            gradient(10, 12, 1, at) + gradient(10, 12, 3, at) + gradient(8, 9, 4, at) + bytes([at]) for at in range(5)
        )
    )
    fields = {"field_grey": "u8[10,12] @ 0", "field_rgb": "u8[10,12,3] @ 120", "field_rgba": "u8[8,9,4] @ 480"}
    instance.add_dataset(
        "images", format="records", path=path, record_bytes=sum(sizes.values()) + 1, field_label="u8 @ 768", **fields
    )


def test_png_files_have_the_pixels_of_the_samples():
    with harness.Instance() as feedd:
        add_images(feedd)
        feedd.start()
        said = show(feedd, "images", "1", "4", "--output", "out.png")
        for at in (1, 4):
            for name, height, width, channels in (("grey", 10, 12, 1), ("rgb", 10, 12, 3), ("rgba", 8, 9, 4)):
                path = feedd.directory / f"out-{at}-{name}.png"
                rows, found = screen.read_png(path)
                assert found == channels and b"".join(rows) == gradient(height, width, channels, at), (path, rows)
                assert f"    written to {path.name}\n" in said, said
        sample = json.loads(show(feedd, "images", "2", "--field", "rgb", "-o", "one.png", "--json"))
        assert [field["file"] for field in sample["fields"]] == ["one.png"], sample
        assert b"".join(screen.read_png(feedd.directory / "one.png")[0]) == gradient(10, 12, 3, 2)
        show(feedd, "images", "--field", "grey", "-o", "n%d.png")
        names = {path.name for path in feedd.directory.glob("*.png")} - {"one.png"}
        assert {"n0.png", "n1.png", "n2.png"} == {name for name in names if name[0] == "n"} and len(names) == 9, names


def test_png_files_of_floats():
    """Scaled from the least to the greatest value; channels may come first."""
    if np is None:
        harness.skip("this Python has no NumPy")
    dice = np.random.default_rng(2)
    arrays = {
        "first": dice.normal(size=(2, 3, 17, 23)).astype("f4"), "last": dice.normal(size=(2, 17, 23, 4)),
        "half": dice.normal(size=(2, 1, 9, 8)).astype("f2"), "mask": dice.normal(size=(2, 9, 8)) > 0,
    }  # fmt: skip
    arrays["last"][1, 3, 4] = np.nan, np.inf, -np.inf, 0
    with harness.Instance() as feedd:
        for name, array in arrays.items():
            np.save(feedd.directory / f"{name}.npy", array)
        feedd.add_dataset("floats", format="npy", **{f"field_{name}": feedd.directory / f"{name}.npy" for name in arrays})
        feedd.start()
        show(feedd, "floats", "1", "-o", "x.png")
        for name, array in arrays.items():
            sample = array[1].astype("f8")
            if name in ("first", "half"):
                sample = np.moveaxis(sample, 0, -1)
            finite = sample[np.isfinite(sample)]
            least, most = finite.min(), finite.max()
            scaled = np.floor(np.nan_to_num((sample - least) / (most - least), nan=0, posinf=1, neginf=0) * 255 + 0.5)
            rows, channels = screen.read_png(feedd.directory / f"x-{name}.png")
            assert b"".join(rows) == scaled.astype("u1").tobytes(), name
            assert channels == {"first": 3, "last": 4, "half": 1, "mask": 1}[name]


def test_sheets():
    """The images of all samples in one file, in rows, with black in between."""
    with harness.Instance() as feedd:
        add_images(feedd)
        feedd.start()
        said = show(feedd, "images", "4", "0..4", "--sheet", "all.png")
        wanted = {"grey": (10, 12, 1), "rgb": (10, 12, 3), "rgba": (8, 9, 4)}
        assert said.splitlines() == [
            f"all-{name}.png: 5 images of {width} x {height} pixels in 2 rows of 3"
            for name, (height, width, _) in wanted.items()
        ], said
        for name, (height, width, channels) in wanted.items():
            rows, found = screen.read_png(feedd.directory / f"all-{name}.png")
            line = (3 * width + 4) * channels
            assert found == channels and len(rows) == 2 * height + 2 and {len(row) for row in rows} == {line}, name
            whole = bytearray(line * len(rows))
            for place, sample in enumerate((4, 0, 1, 2, 3)):
                pixels, left = gradient(height, width, channels, sample), place % 3 * (width + 2) * channels
                for y in range(height):
                    start = (place // 3 * (height + 2) + y) * line + left
                    whole[start : start + width * channels] = pixels[y * width * channels : (y + 1) * width * channels]
            assert b"".join(rows) == whole, name
        show(feedd, "images", "2", "--sheet", "one.png", "--field", "rgb")
        assert b"".join(screen.read_png(feedd.directory / "one.png")[0]) == gradient(10, 12, 3, 2)
        done = feedd.ctl("show", "images", "--sheet", "nowhere/x.png", check=False)
        assert done.returncode == 1 and "cannot write nowhere/x" in done.stderr and not done.stdout, done


def test_a_sheet_of_samples_that_cannot_be_read():
    """Their places stay black."""
    with harness.Instance() as feedd:
        folder = feedd.directory / "pictures"
        folder.mkdir()
        for number in range(4):
            content = screen.make_png([gradient(10, 12, 3, number)[36 * y : 36 * y + 36] for y in range(10)])
            (folder / f"{number}.png").write_bytes(b"no image" if number == 1 else content)
        feedd.add_dataset("pictures", format="folder", path=folder, field_x="bytes @ file", on_error="skip",
                          transform_x="center_crop 10 12")  # fmt: skip
        feedd.start()
        done = feedd.ctl("show", "pictures", "0..4", "--sheet", "all.png", check=False)
        assert done.returncode == 1 and "sample 1 of pictures cannot be read" in done.stderr, done
        assert done.stdout == "all.png: 3 images of 12 x 10 pixels in 2 rows of 2\n", done
        rows, _ = screen.read_png(feedd.directory / "all.png")
        assert [row[:36] for row in rows[:10]] == [gradient(10, 12, 3, 0)[36 * y : 36 * y + 36] for y in range(10)]
        assert not any(any(row[36:]) for row in rows[:12]) and any(rows[12]), rows
        assert [row[42:] for row in rows[12:]] == [gradient(10, 12, 3, 3)[36 * y : 36 * y + 36] for y in range(10)]


def test_files_that_cannot_be_written():
    with harness.Instance() as feedd:
        add_images(feedd)
        data.add_records(feedd, samples=10, size=64)
        feedd.start()
        done = feedd.ctl("show", "images", "0", "-f", "rgb", "-o", "nowhere/x.png", check=False)
        assert done.returncode == 1 and "cannot write nowhere/x.png: No such file or directory" in done.stderr, done
        done = feedd.ctl("show", "numbers", "-o", "x.png", check=False)
        said = done.stderr
        assert "dataset numbers has no image to write: found x u8[64], wanted bool, u8 or floats" in said, said
        done = feedd.ctl("show", "images", "-f", "label", "-o", "x.png", check=False)
        said = done.stderr
        assert "found label u8, wanted" in said, said
        done = feedd.ctl("show", "images", "0", "-f", "rgb", "-o", "x.jpg", check=False)
        said = " ".join(done.stderr.split())
        assert "has pixels, which are written as PNG: found --output x.jpg, wanted a name that ends in .png" in said, said
        assert not (feedd.directory / "x.png").exists()


def segment(marker, content):
    return bytes([0xFF, marker]) + (len(content) + 2).to_bytes(2, "big") + content


def test_encoded_images():
    """Bytes of image files are recognised and written as they are; pixels need a view that decodes them."""
    frame = segment(0xC4, bytes(30)) + b"\xff" + segment(0xC2, b"\x08" + bytes([1, 44, 1, 244]) + b"\3" + bytes(9))
    files = {
        "0.img": b"\xff\xd8" + segment(0xE0, b"JFIF\0" + bytes(9)) + frame + b"\xff\xd9",
        "1.img": screen.make_png([gradient(10, 12, 3)[36 * y : 36 * y + 36] for y in range(10)]),
        "2.img": b"RIFF\x20\0\0\0WEBPVP8 " + bytes(24), "3.img": b"\xff\xd8\xff" + b"cut off" * 9, "4.img": b"\xff\xd8\xff",
    }  # fmt: skip
    with harness.Instance() as feedd:
        folder = feedd.directory / "pictures"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        feedd.add_dataset("pictures", format="folder", path=folder, field_x="bytes @ file")
        feedd.start()
        said = [show(feedd, "pictures", str(number)) for number in range(5)]
        assert "    encoded as JPEG, 500 x 300 pixels\n" in said[0] and "encoded as PNG, 12 x 10 pixels\n" in said[1], said
        assert "    encoded as WebP\n" in said[2] and "    encoded as JPEG\n" in said[3], said
        assert "encoded" not in said[4], said
        assert "255 216" not in said[0] and "mean" not in said[0] and "255 216 255" in said[4], said
        assert "    255 216 ...\n" in show(feedd, "pictures", "0", "--values=2")
        found = [json.loads(show(feedd, "pictures", str(number), "--json"))["fields"][0]["encoded"] for number in range(5)]
        sizes = [("JPEG", 500, 300), ("PNG", 12, 10), ("WebP", None, None), ("JPEG", None, None)]
        assert [tuple(one.values()) for one in found[:4]] == sizes and found[4] is None, found
        for number, ending in enumerate(("jpg", "png", "webp", "JPEG")):
            said = show(feedd, "pictures", str(number), "-o", f"out.{ending}")
            assert f"    written to out.{ending}\n" in said, said
            assert (feedd.directory / f"out.{ending}").read_bytes() == files[f"{number}.img"], number
        for arguments, wanted in (
            (("0", "-o", "x.png"), "field x of sample 0 of pictures is encoded as JPEG: found --output x.png, wanted a name"
             " that ends in .jpg for the bytes as they are; a view with transform.NAME = decode,"),
            (("4", "-o", "x.png"), "sample 4 of pictures has no image to write: found neither the bytes of a JPEG"),
            (("0..3", "--sheet", "x.png"), "dataset pictures has no pixels to put on a sheet: found x u8[]; if these are"),
            (("0", "-o", "nowhere/x.jpg"), "cannot write nowhere/x.jpg: No such file or directory"),
        ):  # fmt: skip
            done = feedd.ctl("show", "pictures", *arguments, check=False)
            assert done.returncode == 1 and wanted in " ".join(done.stderr.split()), done
        assert not (feedd.directory / "x.png").exists()


def test_images_are_drawn_in_full():
    """Each pixel of an image that fits, in 24-bit colours."""
    with harness.Instance() as feedd:
        add_images(feedd)
        feedd.start()
        pixels = gradient(10, 12, 3, 2)
        wanted = [[tuple(pixels[36 * y + 3 * x : 36 * y + 3 * x + 3]) for x in range(12)] for y in range(10)]
        text = screen.on_terminal(feedd, 80, "show", "images", "2", "--field", "rgb", COLORTERM="truecolor")
        assert screen.drawn(text) == wanted, text
        grey = gradient(10, 12, 1, 2)
        text = screen.on_terminal(feedd, 80, "show", "images", "2", "--field", "grey", COLORTERM="24bit")
        assert screen.drawn(text) == [[(value,) * 3 for value in grey[12 * y : 12 * y + 12]] for y in range(10)], text
        # Every line ends with the terminal's own colours.
        assert all(line.endswith("\033[0m") for line in text.splitlines() if HALF in line), text
        numbers = screen.drawn(screen.on_terminal(feedd, 80, "show", "images", "2", "--field", "rgb"))
        assert [len(row) for row in numbers] == [12] * 10, numbers
        for colour, number in zip(sum(wanted, []), sum(numbers, []), strict=True):
            assert distance(colour, XTERM[number]) == min(distance(colour, other) for other in XTERM.values()), (colour, number)


def test_images_become_as_narrow_as_the_terminal():
    """By averaging; nothing is wider than 40 columns, whatever is shown."""
    with harness.Instance() as feedd:
        path = feedd.directory / "large.bin"
        # Squares of 4 x 4 pixels, half of which are 40 brighter than the other half.
        pixels = bytes(2 * (y // 4) + x // 4 + 40 * (x % 2) for y in range(72) for x in range(144))
        text = "犬 a_very_long_word_that_is_longer_than_a_line".encode().ljust(64, b"\0")
        path.write_bytes(pixels + text + bytes(40))
        name = "a-dataset-whose-name-is-too-long-for-it"
        feedd.add_dataset(
            name, format="records", path=path, record_bytes=10472, field_image="u8[72,144] @ 0", field_text="u8[64] @ 10368",
            field_with_quite_a_long_name="c128[1,1,2] @ 10432", field_x="u8[8] @ 10464",
        )  # fmt: skip
        feedd.start()
        text = screen.on_terminal(feedd, 40, "show", name, COLORTERM="truecolor")
        rows = screen.drawn(text)
        assert [[colour[0] for colour in row] for row in rows] == [[2 * y + x + 20 for x in range(36)] for y in range(18)]
        lines = [screen.COLOUR.sub("", line) for line in text.splitlines()]
        assert max(len(line) + line.count("犬") for line in lines) == 40, lines
        pipe = show(feedd, name, environment={"COLUMNS": "40"})
        assert lines[:4] == pipe.splitlines()[:4] and HALF not in pipe, pipe


def test_where_nothing_is_drawn():
    with harness.Instance() as feedd:
        add_images(feedd)
        feedd.start()
        command = ("images", "0", "--field", "rgb")
        assert HALF in screen.on_terminal(feedd, 80, "show", *command)
        for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            text = screen.on_terminal(feedd, 80, "show", *command, **environment)
            assert "rgb  u8[10,12,3]" in text and "\033" not in text, text
            assert HALF in screen.on_terminal(feedd, 80, "show", *command, "--draw", **environment)
        assert "\033" not in show(feedd, *command)
        assert HALF in show(feedd, *command, "--draw")
        assert "\033" not in screen.on_terminal(feedd, 80, "show", *command, "--json")
