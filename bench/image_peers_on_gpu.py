"""Other libraries decode the same photographs with the GPU's JPEG engine. image_peers_on_gpu.py WAY FOLDER SECONDS BATCH
[DEVICE] prints a line of JSON with two measurements of SECONDS each, in one process: `decode`, from files in memory to pixels
on the GPU, and `train`, from files in the page cache to RandomResizedCrop 224, flip, normalise, float16. With the device `cpu`,
libraries that can decode on the CPU do so, to try the program.
"""

import concurrent.futures
import importlib
import itertools
import json
import os
import pathlib
import random
import sys
import time

import numpy

from image_peers import MEAN, SIDE, STD, crop_of, import_torchvision

WARM_UP = 4  # batches
READERS = 4
LONGEST = 600  # pixels per side for which DALI allocates memory in advance


# ---- What they share ---------------------------------------------------------------------------------------


def as_numbers(path):
    return numpy.fromfile(path, numpy.uint8)


def in_memory(paths, batch):
    """Yields lists of files indefinitely; each file is read once."""
    files = itertools.cycle([as_numbers(path) for path in paths])
    while True:
        yield list(itertools.islice(files, batch))


def read_ahead(paths, batch):
    """Yields lists of files indefinitely; while the caller works on one, threads read the next."""
    names = itertools.cycle(paths)
    with concurrent.futures.ThreadPoolExecutor(READERS) as pool:
        ahead = pool.map(as_numbers, list(itertools.islice(names, batch)))
        while True:
            files, ahead = ahead, pool.map(as_numbers, list(itertools.islice(names, batch)))
            yield list(files)


class Finish:
    """RandomResizedCrop, flip, normalise and float16, by torchvision and PyTorch on the device that has the images."""

    def __init__(self, device):
        self.torch, v2, _ = import_torchvision()
        self.resized_crop = v2.functional.resized_crop
        self.dice = random.Random(1)
        factor = 1 / (255 * self.torch.tensor(STD))
        self.factor = factor.view(3, 1, 1).to(device)
        self.addend = (-self.torch.tensor(MEAN) * 255 * factor).view(3, 1, 1).to(device)

    def crop(self, image):
        left, top, width, height = crop_of(image.shape[-1], image.shape[-2], self.dice)
        return self.resized_crop(image, top, left, height, width, [SIDE, SIDE], antialias=True)

    def __call__(self, images):
        """Turns [C,H,W] of various sizes into [N,C,224,224]."""
        batch = self.torch.stack([self.crop(image) for image in images])
        flipped = self.torch.rand(len(batch), 1, 1, 1, device=batch.device) < 0.5
        batch = self.torch.where(flipped, batch.flip(3), batch)
        return self.torch.addcmul(self.addend, batch.float(), self.factor).half()


def by(decode, as_tensor, paths, batch, device, train):
    """Yields batches indefinitely. `decode` turns a list of files into a list of images, and `as_tensor` makes a tensor [C,H,W]
    of an image."""
    finish = Finish(device) if train else None
    for files in (read_ahead if train else in_memory)(paths, batch):
        images = decode(files)
        if not images:
            raise RuntimeError("it decodes none of these files")
        yield finish(map(as_tensor, images)) if train else images


def as_it_is(image):
    return image


# ---- Each library ------------------------------------------------------------------------------------------


def torchvision(paths, batch, device, train):
    """torchvision.io decodes a list of files, with nvJPEG on the GPU."""
    torch, _, _ = import_torchvision()
    from torchvision import io

    def decode(files):
        return io.decode_jpeg(list(map(torch.from_numpy, files)), mode=io.ImageReadMode.RGB, device=device)
    return by(decode, as_it_is, paths, batch, device, train)


def nvimagecodec(paths, batch, device, train):
    """nvImageCodec with the engine alone. Images that it cannot decode are None, and left out."""
    import torch
    from nvidia import nvimgcodec
    # A hybrid of CPU and GPU decodes half as many images with the engine, and takes ten times the CPU.
    kind = nvimgcodec.BackendKind
    backends = [nvimgcodec.Backend(kind.CPU_ONLY if device == "cpu" else kind.HW_GPU_ONLY)]
    place = nvimgcodec.NVIMGCODEC_DEVICE_CPU_ONLY if device == "cpu" else torch.device(device).index
    decoder = nvimgcodec.Decoder(device_id=place, backends=backends)

    def decode(files):
        return [image for image in decoder.decode(files) if image is not None]

    def as_tensor(image):
        tensor = torch.from_numpy(numpy.asarray(image)) if device == "cpu" else torch.from_dlpack(image)
        return tensor.permute(2, 0, 1)
    return by(decode, as_tensor, paths, batch, device, train)


def spdl(paths, batch, device, train):
    """SPDL calls nvJPEG for one image at a time, here from several threads."""
    import torch
    from spdl import io
    config = io.cuda_config(device_index=torch.device(device).index)
    pool = concurrent.futures.ThreadPoolExecutor(READERS)

    def decode_one(file):
        return io.decode_image_nvjpeg(memoryview(file), device_config=config)

    def decode(files):
        return list(pool.map(decode_one, files))
    return by(decode, io.to_torch, paths, batch, device, train)


def dali(paths, batch, device, train):
    """NVIDIA's pipeline with its own readers. It crops after decoding because nvImageCodec 0.9.0, which decodes for it, crashes
    on some GPUs when it decodes only part of an image."""
    from nvidia.dali import fn, pipeline_def, types
    on_gpu = device != "cpu"
    decoder = {"device": "mixed", "hw_decoder_load": 1.0, "preallocate_width_hint": LONGEST,
               "preallocate_height_hint": LONGEST} if on_gpu else {"device": "cpu"}  # fmt: skip
    threads = max(1, len(os.sched_getaffinity(0)) - 2)

    @pipeline_def(batch_size=batch, num_threads=threads, device_id=int(device[5:]) if on_gpu else None, seed=1)
    def steps():
        stored, _ = fn.readers.file(files=[str(path) for path in paths])
        pixels = fn.decoders.image(stored, **decoder)
        if not train:
            return pixels
        pixels = fn.random_resized_crop(pixels, size=(SIDE, SIDE), random_area=(0.08, 1), random_aspect_ratio=(3 / 4, 4 / 3),
                                        interp_type=types.INTERP_LINEAR, antialias=True)
        return fn.crop_mirror_normalize(pixels, dtype=types.FLOAT16, output_layout="CHW", mirror=fn.random.coin_flip(),
                                        mean=[255 * value for value in MEAN], std=[255 * value for value in STD])  # fmt: skip
    pipeline = steps()
    pipeline.build()
    while True:
        yield pipeline.run()[0]


# ---- Measuring ---------------------------------------------------------------------------------------------

# The modules that each way needs.
WAYS = {
    nvimagecodec: ("torch", "nvidia.nvimgcodec"),
    torchvision: ("torch",),
    dali: ("nvidia.dali",),
    spdl: ("torch", "spdl.io"),
}


def why_not(way, device):
    """Why the way cannot be used here; None if it can."""
    try:
        for module in WAYS[way]:
            importlib.import_module(module)
        if "torch" in WAYS[way]:
            import_torchvision()
        if way is spdl and not importlib.import_module("spdl.io.utils").built_with_nvjpeg():
            return "this build of SPDL has no nvJPEG, or cannot find the libraries that it needs"
        if way is spdl and device == "cpu":
            return "SPDL's nvJPEG decoder does not run on the CPU"
    except (ImportError, RuntimeError, AttributeError) as error:
        return str(error).splitlines()[0][:200]
    return None


def waiter(device):
    """Returns a function that waits until the GPU has finished all work."""
    if device == "cpu":
        return lambda: None
    import torch
    return lambda: torch.cuda.synchronize(device)


def measured(batches, seconds, wait):
    """Only the last batch is waited for: the library decides how much is in progress."""
    for _ in range(WARM_UP):
        next(batches)
    wait()
    images, began, cpu = 0, time.monotonic(), time.process_time()
    while not images or time.monotonic() < began + seconds:
        images += len(next(batches))
    wait()
    took = time.monotonic() - began
    cpu = time.process_time() - cpu
    return {"images": images, "images_per_second": images / took, "cpu_seconds": cpu, "cores": cpu / took}


def main():
    way = {way.__name__: way for way in WAYS}[sys.argv[1]]
    device = sys.argv[5] if len(sys.argv) > 5 else "cuda:0"
    reason = why_not(way, device)
    if reason:
        sys.exit(reason)
    paths = sorted(pathlib.Path(sys.argv[2]).iterdir())
    result = {}
    for part in ("decode", "train"):
        batches = way(paths, int(sys.argv[4]), device, part == "train")
        result[part] = measured(batches, float(sys.argv[3]), waiter(device))
        batches.close()
    print(json.dumps(result), flush=True)
    os._exit(0)  # without the libraries' destructors, whose order is undefined


if __name__ == "__main__":
    main()
