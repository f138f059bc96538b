"""What other libraries make of the same photographs, as feedd's transform in images.py does: RandomResizedCrop 224, flip,
normalise, float16, channels first. image_peers.py WAY FOLDER SECONDS [FIRST]: one thread, from file FIRST on; prints a line of
JSON. image_peers.py WAY: says whether this Python has what that needs.
"""

import importlib
import itertools
import json
import math
import pathlib
import random
import sys
import tarfile
import tempfile
import time

SIDE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def crop_of(width, height, dice):
    """Left, top, width and height of RandomResizedCrop's rectangle."""
    for _ in range(10):
        area = width * height * dice.uniform(0.08, 1)
        ratio = math.exp(dice.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < high <= height:
            return dice.randint(0, width - wide), dice.randint(0, height - high), wide, high
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


# ---- torchvision -------------------------------------------------------------------------------------------


def import_torchvision():
    """torch, torchvision's v2 transforms, and the last of them. They work beside a PyTorch for CPUs even if torchvision is
    built for CUDA: then the operators on boxes that it compiles are missing, which these transforms do not use."""
    import torch
    torch.set_num_threads(1)
    try:
        from torchvision.transforms import v2
    except RuntimeError:
        boxes = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            boxes.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        from torchvision.transforms import v2
        import_torchvision.kept = boxes  # as long as the program runs
    finish = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), v2.ToDtype(torch.float16)]
    return torch, v2, finish


def torchvision_pil(paths):
    from PIL import Image
    _, v2, finish = import_torchvision()
    steps = v2.Compose([v2.RandomResizedCrop(SIDE), v2.RandomHorizontalFlip(), v2.PILToTensor(), *finish])
    for path in paths:
        with Image.open(path) as image:
            steps(image.convert("RGB"))
        yield 1


def torchvision_native(paths):
    """torchvision.io decodes to a tensor, on which the transforms work."""
    torch, v2, finish = import_torchvision()
    from torchvision import io
    steps = v2.Compose([v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip(), *finish])
    for path in paths:
        steps(io.decode_jpeg(io.read_file(str(path)), mode=io.ImageReadMode.RGB))
        yield 1


def webdataset(paths, samples=512):
    """The same files in a tar archive, decoded to Pillow's images, with torchvision's transforms."""
    import webdataset as wds
    _, v2, finish = import_torchvision()
    steps = v2.Compose([v2.RandomResizedCrop(SIDE), v2.RandomHorizontalFlip(), v2.PILToTensor(), *finish])
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(f"{folder}/0.tar", "w") as tar:
            for path in itertools.islice(paths, samples):
                tar.add(path, path.name)
        images = wds.WebDataset(f"{folder}/0.tar", shardshuffle=False).decode("pilrgb").to_tuple("jpg").map_tuple(steps)
        for _ in images.repeat():
            yield 1


# ---- FFCV's way, and SPDL's --------------------------------------------------------------------------------


def finisher():
    """Turns pixels into normalised halves, channels first, by a table: faster than arithmetic in NumPy or torch."""
    import cv2
    import numpy
    cv2.setNumThreads(1)
    values = (numpy.arange(256)[:, None] / 255 - MEAN) / STD
    tables = [table.astype(numpy.float16).view(numpy.uint16).reshape(1, 256) for table in values.T.copy()]

    def finish(pixels, flip):
        out = numpy.empty((3, SIDE, SIDE), numpy.uint16)
        for plane, table, to in zip(cv2.split(cv2.flip(pixels, 1) if flip else pixels), tables, out):
            cv2.LUT(plane, table, dst=to)
        return out.view(numpy.float16)
    return cv2, finish


def ffcv(paths, interpolation):
    """What FFCV does with JPEG images, without FFCV: libjpeg-turbo with its faster, inexact DCT decodes all of the image, and
    OpenCV resizes the crop."""
    import simplejpeg
    cv2, finish = finisher()
    dice = random.Random(1)
    for path in paths:
        pixels = simplejpeg.decode_jpeg(path.read_bytes(), "RGB", fastdct=True)
        left, top, width, height = crop_of(pixels.shape[1], pixels.shape[0], dice)
        cropped = pixels[top : top + height, left : left + width]
        finish(cv2.resize(cropped, (SIDE, SIDE), interpolation=getattr(cv2, interpolation)), dice.random() < 0.5)
        yield 1


def ffcv_area(paths):
    """Antialiased, as FFCV itself does it."""
    return ffcv(paths, "INTER_AREA")


def ffcv_linear(paths):
    """Not antialiased."""
    return ffcv(paths, "INTER_LINEAR")


def spdl(paths):
    """FFmpeg's decoder and filters, as SPDL calls them."""
    from spdl import io
    _, finish = finisher()
    dice = random.Random(1)
    for path in paths:
        packets = io.demux_image(str(path))
        left, top, width, height = crop_of(packets.width, packets.height, dice)
        filters = f"crop={width}:{height}:{left}:{top},scale={SIDE}:{SIDE}:flags=bilinear,format=pix_fmts=rgb24"
        frames = io.decode_packets(packets, filter_desc=filters)
        finish(io.to_numpy(io.convert_frames(frames)), dice.random() < 0.5)
        yield 1


# ---- DALI --------------------------------------------------------------------------------------------------


def dali(paths, batch=64):
    """NVIDIA's pipeline on the CPU, decoding no more than the crop."""
    from nvidia.dali import fn, pipeline_def, types
    names = [str(path) for path in itertools.islice(paths, 4096)]

    @pipeline_def(batch_size=batch, num_threads=1, device_id=None, seed=1)
    def steps():
        stored, _ = fn.readers.file(files=names)
        pixels = fn.decoders.image_random_crop(stored, device="cpu", random_area=(0.08, 1), random_aspect_ratio=(3 / 4, 4 / 3))
        pixels = fn.resize(pixels, size=(SIDE, SIDE), interp_type=types.INTERP_LINEAR, antialias=True)
        return fn.crop_mirror_normalize(pixels, dtype=types.FLOAT16, output_layout="CHW", mirror=fn.random.coin_flip(),
                                        mean=[255 * value for value in MEAN], std=[255 * value for value in STD])  # fmt: skip
    pipeline = steps()
    pipeline.build()
    while True:
        pipeline.run()
        yield batch


# Each way by the modules that it needs.
WAYS = {
    torchvision_pil: ("torch", "PIL"),
    torchvision_native: ("torch",),
    webdataset: ("torch", "PIL", "webdataset"),
    ffcv_area: ("simplejpeg", "cv2"),
    ffcv_linear: ("simplejpeg", "cv2"),
    spdl: ("spdl.io", "cv2"),
    dali: ("nvidia.dali",),
}


def check(way):
    """Ends the program with a sentence if the way cannot be taken here."""
    try:
        for module in WAYS[way]:
            importlib.import_module(module)
        if "torch" in WAYS[way]:
            import_torchvision()
        if way is torchvision_native:
            import torch
            from torchvision import io
            tiny = io.encode_jpeg(torch.zeros(3, 8, 8, dtype=torch.uint8))
            io.decode_jpeg(tiny)
        if way is spdl:  # which loads FFmpeg's libraries when it is first used
            stored = importlib.import_module("cv2").imencode(".jpg", importlib.import_module("numpy").zeros((8, 8, 3), "u1"))[1]
            importlib.import_module("spdl.io").demux_image(stored.tobytes())
    except (ImportError, RuntimeError, AttributeError) as error:
        sys.exit(f"{way.__name__}: {str(error).splitlines()[0][:200]}")


def main():
    way = {way.__name__: way for way in WAYS}[sys.argv[1]]
    check(way)
    if len(sys.argv) == 2:
        return
    paths = sorted(pathlib.Path(sys.argv[2]).iterdir())
    first = int(sys.argv[4]) % len(paths) if len(sys.argv) > 4 else 0
    done = way(itertools.cycle(paths[first:] + paths[:first]))
    for _ in range(4):
        next(done)  # what is prepared once
    images, began, cpu = 0, time.monotonic(), time.process_time()
    while time.monotonic() < began + float(sys.argv[3]):
        images += next(done)
    seconds = time.monotonic() - began
    print(json.dumps({"images": images, "images_per_second": images / seconds, "cpu_seconds": time.process_time() - cpu}))


if __name__ == "__main__":
    main()
