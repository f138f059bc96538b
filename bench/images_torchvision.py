"""The same as feedd's transform with torchvision.transforms.v2 on Pillow's images, in one thread: images_torchvision.py FOLDER
SECONDS. Prints one line of JSON."""

import json
import pathlib
import sys
import time

import torch
from PIL import Image

torch.set_num_threads(1)
# torchvision may be built for CUDA beside a PyTorch for CPUs. Then the operators on boxes that it compiles are missing, which
# these transforms do not use.
boxes = torch.library.Library("torchvision", "FRAGMENT")
for name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, name):
        boxes.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from torchvision.transforms import v2  # noqa: E402

STEPS = v2.Compose([
    v2.RandomResizedCrop(224),
    v2.RandomHorizontalFlip(),
    v2.PILToTensor(),
    v2.ToDtype(torch.float32, scale=True),
    v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    v2.ToDtype(torch.float16),
])  # fmt: skip


def main():
    paths = sorted(pathlib.Path(sys.argv[1]).iterdir())
    images, began, cpu = 0, time.monotonic(), time.process_time()
    while time.monotonic() < began + float(sys.argv[2]):
        with Image.open(paths[images % len(paths)]) as image:
            STEPS(image.convert("RGB"))
        images += 1
    seconds = time.monotonic() - began
    print(json.dumps({"images": images, "images_per_second": images / seconds, "cpu_seconds": time.process_time() - cpu}))


if __name__ == "__main__":
    main()
