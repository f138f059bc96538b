"""feedd --check warns of files in a folder of images that are not images, and of no image, whatever its name."""

import harness

FIELDS = {"field_image": "bytes @ file", "transform_image": "resize 40, center_crop 32"}
JPG, PNG, WEBP = b"\xff\xd8\xff\xe0" + bytes(20), b"\x89PNG\r\n\x1a\n" + bytes(20), b"RIFF\x20\0\0\0WEBP" + bytes(20)
IMAGES = {"cat/1.jpg": JPG, "cat/2.PNG": PNG, "dog/3.webp": WEBP, "dog/4.JPEG": JPG, "dog/5.jfif": JPG}
OTHERS = {"README.txt": b"read me", "cat/Thumbs.db": bytes(100), "dog/list.csv": b"file,score\n"}


def write(instance, files, name="pictures"):
    root = instance.directory / name
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


def warnings(instance):
    instance.write_config()
    done = instance.check()
    assert done.returncode == 0, done
    return [line.strip() for line in done.stdout.splitlines() if "warning" in line]


def warnings_of(files, **options):
    with harness.Instance() as feedd:
        feedd.add_dataset("pictures", format="folder", path=write(feedd, files), **{**FIELDS, **options})
        return warnings(feedd), feedd.directory


def test_files_that_are_not_images():
    """By count, and the first one by name; as on_error has it."""
    for on_error, become in (("fail", "end a feed"), ("skip", "are left out"), ("replace", "are replaced")):
        (said,), folder = warnings_of({**IMAGES, **OTHERS}, on_error=on_error)
        assert said == (
            "warning: 3 of 8 files lack the extension of a JPEG, PNG or WebP image, and the first of them is not an image: "
            f"{folder}/pictures/README.txt; such files {become} (on_error); "
            "extensions = jpg|jpeg|jpe|jfif|png|webp takes the images alone"
        )
    (said,), _ = warnings_of({**IMAGES, "cat/empty": b""})
    assert said.startswith("warning: 1 of 6 files lacks ") and "/cat/empty; " in said


def test_what_it_recommends():
    """Takes all images, and nothing is left to warn of."""
    with harness.Instance() as feedd:
        path = write(feedd, {**IMAGES, **OTHERS})
        feedd.add_dataset("pictures", format="folder", path=path, **FIELDS)
        (said,) = warnings(feedd)
        feedd.datasets["pictures"]["extensions"] = said.split("extensions = ")[1].split()[0]
        assert warnings(feedd) == []
        assert f"{len(IMAGES)} samples" in feedd.check().stdout


def test_a_kept_index():
    with harness.Instance(index_folder="kept") as feedd:
        (feedd.directory / "kept").mkdir()
        feedd.add_dataset("pictures", format="folder", path=write(feedd, {**IMAGES, **OTHERS}), **FIELDS)
        harness.eventually(lambda: warnings(feedd) and list((feedd.directory / "kept").iterdir()), 10, "the index is kept")
        assert len(warnings(feedd)) == 1
        assert "made in" not in feedd.check().stdout


def test_images_with_other_names():
    """Of which nothing is said: those that no name tells apart, and those that are found to be images."""
    for files in (
        IMAGES,
        {"cat/1": JPG, "README": b"read me"},
        {f"cat/{path.replace('.', '')}": data for path, data in IMAGES.items()},
        {**IMAGES, "cat/1.img": WEBP, "dog/6": PNG, "dog/7.jpg.1": JPG},
    ):
        assert warnings_of(files)[0] == []


def test_links_to_images():
    """Loaders read what they lead to, whose names say nothing."""
    with harness.Instance() as feedd:
        blobs = write(feedd, {f"{i}": data for i, data in enumerate(IMAGES.values())}, "blobs")
        path = write(feedd, {"cat/0.jpg": JPG})
        for i in range(len(IMAGES)):
            (path / f"cat/{i + 1}.jpg").symlink_to(blobs / f"{i}")
        feedd.add_dataset("pictures", format="folder", path=path, links=blobs, **FIELDS)
        assert warnings(feedd) == []


def test_files_that_nobody_decodes():
    with harness.Instance() as feedd:
        feedd.add_dataset("pictures", format="folder", path=write(feedd, {**IMAGES, **OTHERS}))
        assert warnings(feedd) == []


def test_rows_of_a_csv_file():
    """It lists the files, so extensions are of no use. A row whose file is missing has no name."""
    with harness.Instance() as feedd:
        path = write(feedd, {**IMAGES, **OTHERS})
        rows = "\n".join(["file", "cat/1.jpg", "cat/none.txt", "cat/Thumbs.db"])
        (feedd.directory / "rows.csv").write_text(rows + "\n")
        feedd.add_dataset("pictures", format="folder", path=path, csv="rows.csv", on_error="skip", **FIELDS)
        (said,) = warnings(feedd)
        assert said.startswith("warning: 1 of 2 files lacks "), said
        assert said.endswith("cat/Thumbs.db; such files are left out (on_error)"), said


def test_views():
    """Those that decode what their dataset does not, and only the samples in them."""
    with harness.Instance() as feedd:
        feedd.add_dataset("pictures", format="folder", path=write(feedd, {**OTHERS, **IMAGES}), field_image="bytes @ file")
        decoded = {"transform_image": FIELDS["transform_image"]}
        feedd.add_view("all", "pictures", **decoded)
        feedd.add_view("later", "pictures", samples="1..", **decoded)
        feedd.add_view("cats", "pictures", samples="1..3", **decoded)
        feedd.add_view("raw", "pictures", samples="1..")
        names = [(said.split(" files ")[0], said.split("not an image: ")[1].split("; ")[0]) for said in warnings(feedd)]
        root = feedd.directory / "pictures"
        assert names == [
            ("warning: 3 of 8", f"{root}/README.txt"), ("warning: 2 of 7", f"{root}/cat/Thumbs.db"),
        ]  # fmt: skip
        feedd.datasets["pictures"].update({"transform.image": decoded["transform_image"]})
        assert len(warnings(feedd)) == 1, "views that decode as their dataset does are not warned of again"
