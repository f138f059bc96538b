"""A figure of loaders that size themselves: auto against every fixed number, of feeds that are bound by different things."""

import os
import struct
import subprocess
import time
import zlib

from figures import records_dataset, rounded
from measure import median, run_json

NUMBERS = (1, 2, 4, 8, 16, 32, 64)
SETTLE_S = 12
STORAGE_US = 2000
PICTURES, SIDE = 256, 256
PAUSE_US = 1000


def png(seed):
    """A picture of some noise: decoders work on it, and it needs no library."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    state, rows = seed + 1, bytearray()
    for _ in range(SIDE):
        state = state * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1
        pattern = state.to_bytes(8, "little") * (3 * SIDE // 8)
        rows += b"\1" + bytes(value >> 4 for value in pattern)
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(rows), 1)) + chunk(b"IEND", b""))


def pictures(bench):
    folder = os.path.join(bench.folder, f"sizing-{PICTURES}-{SIDE}")
    os.makedirs(folder, exist_ok=True)
    for i in range(PICTURES):
        path = os.path.join(folder, f"{i}.png")
        if not os.path.exists(path):
            with open(path, "wb") as file:
                file.write(png(i))
    return {"format": "folder", "path": folder, "field.image": "bytes @ file", "transform.image": "decode, resize 224 224"}


def feeds(bench):
    """What bounds the feed: its dataset, settings, options of the consumer, the batch, and the numbers that are compared."""
    path = bench.cached(4096)
    numbers = range(1, bench.cores + 3) if bench.cores < 8 else [number for number in NUMBERS if number <= 2 * bench.cores]
    return {
        "storage": (records_dataset(path, 4096, io="uring", io_delay_us=STORAGE_US), {"queue_depth": 8}, (), 64, NUMBERS),
        "processors": (records_dataset(path, 4096, io="uring"), {}, (), 256, numbers),
        "decoding": (pictures(bench), {}, (), 16, numbers),
        "consumer": (records_dataset(path, 4096, io="uring"), {}, ("--pause-us", PAUSE_US), 64, numbers),
    }


def set_loaders(bench, instance, count):
    command = [os.path.join(bench.build, "feedctl"), "--socket", instance.socket, "loaders", "feed", str(count)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def loaders_of(bench, instance):
    command = [os.path.join(bench.build, "feedctl"), "--socket", instance.socket, "stats", "--once", "--json", "feed"]
    (feed,) = run_json(command)["feeds"]
    return feed["loaders"]


def compare(bench, bound, dataset, settings, options, batch, numbers):
    settings = {**settings, "linger": 60}

    def consume(instance, seconds=None):
        return bench.consume(instance, "data", "--share", "feed", *options, batch=batch, seconds=seconds)

    def fixed_round(instance, number):
        set_loaders(bench, instance, number)
        time.sleep(0.3)
        return consume(instance)

    with bench.instance({"data": dataset}, **{**settings, "loaders": "auto"}) as sized:
        with bench.instance({"data": dataset}, **{**settings, "loaders": 1}) as fixed:
            consume(fixed, 0.5)  # makes the feed
            consume(sized, SETTLE_S)
            chosen, auto, by_number = [], [], {number: [] for number in numbers}
            for _ in range(bench.rounds):
                for number in numbers:
                    by_number[number].append(fixed_round(fixed, number))
                auto.append(consume(sized))
                chosen.append(loaders_of(bench, sized))
    rates = {number: median(results, "samples_per_second") for number, results in by_number.items()}
    best = max(rates, key=rates.get)
    value = median(auto, "samples_per_second")
    bench.records.add("host.auto", value, "samples/s", {"bound": bound, "best": best}, rates[best],
                      "0.95 of best", value / rates[best] >= 0.95, loaders=chosen, settled_within_s=SETTLE_S,
                      by_number={str(number): round(rate) for number, rate in rates.items()},
                      rounds=rounded(auto, "samples_per_second"),
                      limit_rounds=rounded(by_number[best], "samples_per_second"))


def auto(bench):
    for bound, feed in feeds(bench).items():
        compare(bench, bound, *feed)


FIGURES = {"host.auto": auto}
