"""Transforms in the configuration: what makes datasets other ones, and one sentence for each way to write one wrongly."""

import os

import data
import harness


def fingerprint(**transforms):
    with harness.Instance() as feedd:
        data.add_records(feedd, **transforms)
        done = feedd.check()
        assert done.returncode == 0, done.stderr
        return done.stdout.split("fingerprint ")[1].split()[0]


def test_other_transforms_are_other_datasets():
    texts = ("cast f32", "cast f16", "cast bf16", "scale 2", "scale 3", "shift 2", "mean 2", "std 2", "standardise",
             "scale 2, shift 2", "shift 2, scale 2", "scale 2, scale 2", "scale 2, cast f16")  # fmt: skip
    found = {text: fingerprint(transform_x=text) for text in texts}
    found[None] = fingerprint()
    assert len(set(found.values())) == len(texts) + 1, found
    assert fingerprint(transform_x="scale 1/2, cast f32") == fingerprint(transform_x=" scale   0.5 ")


WRONG = (
    ("scal 2", 'found "scal 2", which is not a step; perhaps you mean "scale"'),
    (
        "color_jitter 2",
        'found "color_jitter 2", wanted cast, layout, scale, shift, mean, std or standardise, or a step on images',
    ),
    ("centre_crop 224, flip 0.5", 'found "centre_crop 224", which is not a step; perhaps you mean "center_crop"'),
    ("random_resizd_crop 8, flip", 'found "random_resizd_crop 8", which is not a step; perhaps you mean "random_resized_crop"'),
    ("auto_augment, flip", 'found "auto_augment", wanted cast, layout, scale'),
    ("scale 2, fllip, flip", 'found "fllip", which is not a step; perhaps you mean "flip"'),
    ("scale 1/255, shift 1, flip", 'found "flip", wanted it before "scale 1/255", because steps on images come first'),
    ("cast u8, decode gray", 'found "decode gray", wanted it before "cast u8", because'),
    ("scale 2,, shift 1", 'found "" between commas or after the last one, wanted cast'),
    ("scale 2,", 'found "" between commas or after the last one, wanted cast'),
    (",", 'found "" between commas'),
    ("cast f64", 'found "cast f64", wanted cast f32, cast f16, cast bf16, or cast to one of u8 i8 u16'),
    ("cast u8, scale 2", 'found "scale 2" after cast u8, wanted the cast last'),
    ("layout nchw", 'found "layout nchw", wanted layout chw or layout hwc'),
    ("layout chw, layout chw", 'found "layout chw" as a second layout, wanted one'),
    ("layout chw", "found layout for a field of 1 dimensions, wanted an image: [H,W], or [H,W,C]"),
    ("cast", 'found "cast", wanted cast f32'),
    ("cast f32 f16", 'found "cast f32 f16", wanted cast f32'),
    ("cast f32, cast f16", 'found "cast f16" as a second cast, wanted one'),
    ("cast f16, scale 2", 'found "scale 2" after cast f16, wanted the cast last'),
    ("scale", 'found "scale", wanted scale with one number after it'),
    ("scale 1 2", 'found "scale 1 2", wanted scale with one number after it'),
    ("shift x", 'found "x" in "shift x", wanted a number like 0.5, -2e-3 or 1/255 that f32 can hold'),
    ("scale 1/0", 'found "1/0" in "scale 1/0", wanted a number'),
    ("scale 1e39", 'found "1e39" in "scale 1e39", wanted a number'),
    ("scale 0x10", 'found "0x10" in'),
    ("scale nan", 'found "nan" in'),
    ("scale 1/2/3", 'found "1/2/3" in'),
    ("std 0", 'found "0" in "std 0", wanted a number other than 0'),
    ("std 1e-60", 'found "1e-60" in "std 1e-60", wanted a number other than 0'),
    ("standardise 1", 'found "standardise 1", wanted standardise with no number after it'),
    ("mean 1 2 3", "found 3 numbers after mean, wanted 1, or 64, the size of a sample's first axis"),
    (", ".join(["scale 2"] * 9), 'found "scale 2" as one step too many, wanted at most 8'),
    (
        "mean" + " 1" * 33,
        f'found "mean{" 1" * 33}", wanted mean with one number after it, or one for each of at most 32 channels',
    ),
)


def refuse(text, key, sentence, **options):
    with harness.Instance() as feedd:
        data.add_records(feedd, **{key.replace(".", "_"): text}, **options)
        done = feedd.check()
        line = next(i for i, line in enumerate(feedd.config.read_text().splitlines(), 1) if line.startswith(key))
        said = done.stderr.strip()
        assert done.returncode == os.EX_CONFIG and not done.stdout, (text, done)
        assert f"{feedd.config}:{line}: [dataset numbers] {key}: {sentence}" in said, f"{sentence!r} is not in {said!r}"
        assert len(said.splitlines()) == 1, said


def test_wrong_transforms_are_refused_in_one_sentence():
    for text, sentence in WRONG:
        refuse(text, "transform.x", sentence)


def test_transforms_of_fields_that_are_not_there():
    refuse("scale 2", "transform.y", "found no field of that name, wanted one of x")
    refuse("scale 2", "transform.a/b", 'found "a/b" as a field\'s name, wanted 1 to 31 letters')
    refuse("", "transform.x", 'found "", wanted a list of steps')


def test_transforms_of_complex_numbers():
    with harness.Instance() as feedd:
        path = feedd.directory / "c.npy"
        data.write_npy(path, "<c8", (4,), bytes(32))
        feedd.add_dataset("complex", format="npy", field_c=path, transform_c="scale 2")
        done = feedd.check()
        assert done.returncode == 1 and "transform.c: found a field of c64, wanted one of real numbers" in done.stderr, done


def test_transforms_are_among_the_options():
    with harness.Instance() as feedd:
        said = feedd.program(harness.BUILD / "feedd", "--help-config").stdout
        said = said.replace("\n        ", " ")
        assert "transform.NAME = (none)" in said and "cast TYPE, layout chw|hwc, scale X" in said, said
