"""Seeds of fuzz_image_steps.c: the steps, those of another field, and numbers for the kind of field, a place and a size."""

TEXTS = {
    "training": (b"random_resized_crop 224 area 0.08 1 ratio 3/4 4/3 bicubic, flip 0.5, scale 1/255, cast f16", b""),
    "validation": (b"decode fast gray exif, resize 256, center_crop 224", b""),
    "small": (b"random_crop 32 padding 4 fill 1 2 3, flip, vertical_flip 0.1, erase 0.5 area 0.1 0.2 ratio 1 2 fill 9", b""),
    "colours": (b"resize 9 8 nearest, brightness 0.4, contrast 0.5 1, saturation 1, hue 0.1, grayscale 0.2", b""),
    "augment": (b"pad 1 2 3 4 fill 7, center_crop 30, rand_augment 2 9 fill 1, trivial_augment_wide, rand_augment", b""),
    "mask": (b"decode, with image fill 255, cast i64", b"resize 300, random_crop 256, flip"),
    "passes": (b"pad 1, resize 40, flip 1, resize 30 nearest, pad 2 fill 1, pad 2 fill 2, resize 20 21", b""),
}  # fmt: skip


def seeds():
    for name, (text, of) in TEXTS.items():
        for kind, numbers in (("encoded", b"\x01\x07\x01\x02\x40\x01\x02\x03\x40\x00\x01\x77"), ("stored", b"\x02\x20\x31")):
            yield f"{name}-{kind}", text + b"\n" + of + b"\n" + numbers
