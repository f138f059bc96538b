"""The examples of README.md and docs/images.md: what they declare is what is delivered."""

import consumer
import harness
import pictures
import test_images
from test_folder import write


def document(name, title=""):
    """The dataset and view that a document declares, and its transform's size."""
    text = (harness.ROOT / name).read_text()
    section = text[text.index(title) :]
    return section[section.index("```ini\n") + 7 :].split("```")[0]


def serve_document(feedd, text, encoded):
    write(feedd.directory / "train", pictures.files(encoded))
    write(feedd.directory / "val", pictures.files(encoded[18:]))
    text = text.replace("/data/photos", str(feedd.directory))
    feedd.write_config(f"[feedd]\nsocket = {feedd.socket}\nring_memory = 512M\n{text}")
    feedd.start()


def test_the_example_of_the_readme():
    if not (harness.ROOT / "Makefile").exists():
        harness.skip("a bundle is not a source tree")
    encoded = pictures.some(12, seed=14)
    with harness.Instance() as feedd:
        serve_document(feedd, document("README.md", "## Images"), encoded)
        assert "image: f16[3,224,224], made of encoded images of " in feedd.check().stdout, feedd.check()
        test_images.check_training(feedd, encoded, name="photos", size=224, shuffle=True, seed=2)
        text = (harness.ROOT / "README.md").read_text()
        (command,) = [line for line in text.splitlines() if line.startswith("build/feedctl show photos")]
        words = command.split("#")[0].replace("sample.png", f"{feedd.directory}/sample.png").split()[1:]
        feedd.ctl(*words)
        with pictures.Image.open(feedd.directory / "sample.png") as image:
            assert image.size == (224, 224) and image.mode == "RGB"


def test_the_example_of_the_document():
    """Training and evaluation, with feedd.DataLoader, too."""
    if not (harness.ROOT / "Makefile").exists():
        harness.skip("a bundle is not a source tree")
    encoded = pictures.some(20, seed=15)
    with harness.Instance() as feedd:
        serve_document(feedd, document("docs/images.md"), encoded)
        test_images.check_training(feedd, encoded, name="photos", size=224, shuffle=True, seed=1, epochs=2)
        made = [
            pictures.normalised(pictures.center_crop(pictures.resize(pictures.opened(data), 256), 224)) for data in encoded[18:]
        ]
        (batch,) = consumer.read(feedd, "photos-eval", 8)
        assert batch["crc"]["image"] == pictures.crc(made), batch


def test_the_example_of_the_cache():
    if not (harness.ROOT / "Makefile").exists():
        harness.skip("a bundle is not a source tree")
    encoded = pictures.some(20, seed=16)
    with harness.Instance() as feedd:
        text = document("docs/images.md", "## Decoded once").replace("40G", "16M").replace("/var/cache/feedd", "kept")
        (feedd.directory / "kept").mkdir()
        serve_document(feedd, text, encoded)
        assert f"decoded once: up to 16 MiB for each user, kept in {feedd.directory}/kept" in feedd.check().stdout

        def cropped(image, place):
            image = pictures.resize(image, 256)
            dice = pictures.Random(place, 0)
            y, x = dice.below(image.height - 223), dice.below(image.width - 223)
            return pictures.normalised(pictures.flip(image.crop((x, y, x + 224, y + 224)), place))

        pictures.check(consumer.read(feedd, "photos", 8, epochs=2, shuffle=True, seed=1), encoded, cropped, 1)
