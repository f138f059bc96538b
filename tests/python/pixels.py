"""Operations on images twice: torchvision's, and those of daemon/image, through the library build/tests/image_operations.so."""

import ctypes
import importlib.util
import math
import os
import pathlib

import numpy
import torch


def declare_missing_operators():
    """torchvision cannot be imported where its compiled operators cannot be loaded: those of the build for GPUs, with a
    PyTorch for CPUs. They are for boxes alone, so it is enough that the two that it looks for have a declaration."""
    folder = pathlib.Path(importlib.util.find_spec("torchvision").origin).parent
    try:
        torch.ops.load_library(str(folder / "_C.so"))
    except OSError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library
    return None


DECLARED = declare_missing_operators()  # declarations last as long as their library
from torchvision.transforms import v2  # noqa: E402
from torchvision.transforms.v2 import functional  # noqa: E402

BUILD = pathlib.Path(os.environ.get("FEEDD_TEST_BUILD", "build")).resolve()
FILL = (7, 9, 250)
# enum image_operation has them in this order too.
AUGMENTATIONS = list(v2.TrivialAugmentWide._AUGMENTATION_SPACE)
KINDS = (v2.RandAugment, v2.TrivialAugmentWide)


def load():
    library = ctypes.CDLL(str(BUILD / "tests/image_operations.so"))
    library.image_operate.restype = library.image_magnitude.restype = ctypes.c_double
    return library


LIBRARY = load()


def operate(name, image, values=(), times=1):
    """The image [C, H, W] after the operation, and the CPU seconds that it took."""
    channels, height, width = image.shape
    pixels = image.transpose(1, 2, 0).copy()
    fill = FILL if channels == 3 else FILL[:1] * 3
    seconds = LIBRARY.image_operate(
        name.encode(), pixels.ctypes.data_as(ctypes.c_void_p), width, height, channels,
        (ctypes.c_double * 4)(*values), (ctypes.c_uint8 * 3)(*fill), times,
    )  # fmt: skip
    assert seconds >= 0, f"{name}: {seconds}"
    return pixels.transpose(2, 0, 1), seconds


def erase(tensor, x, y, width, height):
    fill = torch.tensor(FILL[: len(tensor)], dtype=torch.uint8).reshape(-1, 1, 1)
    return functional.erase(tensor, int(y), int(x), int(height), int(width), fill)


def affine(tensor, shear=(0.0, 0.0), translate=(0, 0), center=None):
    degrees = [math.degrees(math.atan(value)) for value in shear]
    fill = [float(value) for value in FILL[: len(tensor)]]
    return functional.affine(tensor, angle=0.0, translate=list(translate), scale=1.0, shear=degrees, center=center, fill=fill)


TORCHVISION = {
    "brightness": functional.adjust_brightness,
    "contrast": functional.adjust_contrast,
    "saturation": functional.adjust_saturation,
    "sharpness": functional.adjust_sharpness,
    "hue": functional.adjust_hue,
    "grayscale": lambda tensor: functional.rgb_to_grayscale(tensor, len(tensor)),
    "invert": functional.invert,
    "posterize": lambda tensor, bits: functional.posterize(tensor, int(bits)),
    "solarize": functional.solarize,
    "autocontrast": functional.autocontrast,
    "equalize": functional.equalize,
    "erase": erase,
    "shear_x": lambda tensor, shear: affine(tensor, shear=(shear, 0.0), center=[0, 0]),
    "shear_y": lambda tensor, shear: affine(tensor, shear=(0.0, shear), center=[0, 0]),
    "translate_x": lambda tensor, pixels: affine(tensor, translate=(int(pixels), 0)),
    "translate_y": lambda tensor, pixels: affine(tensor, translate=(0, int(pixels))),
    "rotate": lambda tensor, degrees: functional.rotate(
        tensor, degrees, fill=[float(value) for value in FILL[: len(tensor)]]
    ),
}


def by_torchvision(name, image, values=()):
    tensor = torch.from_numpy(numpy.ascontiguousarray(image).copy())
    return TORCHVISION[name](tensor, *values).numpy()


def augmented_by_torchvision(image, operation, magnitude):
    """As torchvision's own transforms do the operation that they have chosen."""
    tensor = torch.from_numpy(image.copy())
    fill = {torch.Tensor: [float(value) for value in FILL[: len(image)]]}
    nearest = v2.InterpolationMode.NEAREST
    return v2.RandAugment()._apply_image_or_video_transform(tensor, operation, magnitude, nearest, fill).numpy()


def magnitudes(kind, operation, width, height):
    """torchvision's 31 magnitudes, or None, and whether they get a sign."""
    choose, signed = KINDS[kind]._AUGMENTATION_SPACE[operation]
    chosen = choose(31, height, width)
    return (None if chosen is None else [float(value) for value in chosen]), signed
