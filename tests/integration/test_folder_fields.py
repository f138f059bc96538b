"""Folders whose fields are not declared: those of images in classes."""

import os
import struct

import expected
import harness
from test_folder import ROOM, check, in_order, read, some, write


def test_fields_that_are_not_given():
    """A folder alone has image and label, and so has its view; with a CSV file, there is nothing to guess."""
    with harness.Instance() as feedd:
        root = feedd.directory / "pictures"
        write(root, {**some(40), "left-out": b"x"})
        feedd.add_dataset("pictures", format="folder", path=root)
        feedd.add_dataset("padded", format="folder", path=root, pad_image=ROOM, transform_label="cast f32")
        feedd.add_view("part", "pictures", samples="10..")
        feedd.start()
        samples = in_order(root)
        assert len(samples) == 40
        for name, first in (("pictures", 0), ("part", 10)):
            content = {
                "image": expected.Ragged(read(root, path) for _, _, path in samples[first:]),
                "label": [struct.pack("<q", number) for number, _, _ in samples[first:]],
            }
            check(feedd, content, batch_size=9, name=name, epochs=2, shuffle=True)
        assert "padded: format folder, 40 samples" in feedd.check().stdout, feedd.check()
        assert f"image: u8[{ROOM}]" in feedd.check().stdout and "label: f32" in feedd.check().stdout, feedd.check()
    with harness.Instance() as feedd:
        feedd.add_dataset("listed", format="folder", path=feedd.directory, csv="list.csv")
        done = feedd.check()
        assert done.returncode == os.EX_CONFIG and "[dataset listed] field.NAME: found nothing, wanted" in done.stderr, done
