"""gpu.image_cached: images that are decoded already, cut and flipped by loaders on their way to the GPU."""

import os
import random
import struct
import zlib

from setting import BenchError, MIB
from measure import median, run_json

SIDES = (341, 256)
CROP = 224
GOAL = 250000 # images per second
BATCHES = (128, 512)


def png(dice, width, height):
    """Noise, stored without compression: it is decoded only once."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    row = 1 + 3 * width
    pixels = bytearray(dice.randbytes(row * height))
    pixels[::row] = bytes(height) # no filter
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(bytes(pixels), 0)) + chunk(b"IEND", b""))


def images(folder, count):
    os.makedirs(folder, exist_ok=True)
    for number in range(count):
        path = os.path.join(folder, f"{number:05}.png")
        if not os.path.exists(path):
            with open(f"{path}.part", "wb") as file:
                file.write(png(random.Random(number), *SIDES))
            os.rename(f"{path}.part", path)


def fill(bench, instance, command, count):
    """Runs consumers until every image is in the cache."""
    for _ in range(60):
        run_json([*command, "--seconds", "1"], last_line=True)
        if sum(feed["loader_counters"]["cache_stored"] for feed in bench.stats(instance)["feeds"]) >= count:
            return
    raise BenchError(f"{count} images are not in the cache after a minute")


def image_cached(bench):
    count = 256 if bench.simulated else 4096
    folder = os.path.join(bench.folder, f"images-{count}")
    images(folder, count)
    dataset = {"format": "folder", "path": folder, "extensions": "png", "field.image": "bytes @ file", "cache": "2G",
               "transform.image": f"random_crop {CROP}, flip"}
    image_bytes = CROP * CROP * 3
    for batch in BATCHES:
        ring = max(64 * MIB, 4 * batch * image_bytes)
        with bench.instance(bench.loaders, {"data": dataset}) as instance:
            command = [bench.program("gpu_consumer"), "--socket", instance.socket, "--dataset", "data", "--device",
                       bench.device, "--shuffle", "--batch-size", str(batch), "--ring-bytes", str(ring), "--check", "none",
                       "--warm-up", str(bench.warm_up)]
            fill(bench, instance, command, count)

            def job():
                return [run_json([*command, "--seconds", str(bench.seconds)], last_line=True) for _ in range(bench.rounds)]
            reports, limit, limits = bench.beside_limit(batch * image_bytes, ring, job)
        value, allowed = median(reports, "samples_per_second"), limit / image_bytes
        bench.records.add("gpu.image_cached", value, "images/s", {"crop": CROP, "batch": batch, "loaders": bench.loaders},
                          allowed, "250,000/s or 0.9 of copy limit", value >= min(GOAL, 0.9 * allowed),
                          ring_bytes=ring, reports=reports, **limits)
