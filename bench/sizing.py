"""A figure of loaders that size themselves: auto against every fixed number, of feeds that are bound by different things."""

import dataclasses
import json
import os
import signal
import statistics
import struct
import subprocess
import tempfile
import time
import zlib

from figures import records_dataset, rounded
from instance import BenchError
from measure import finish, median, run_json, start

NUMBERS = (1, 2, 4, 8, 16, 32, 64)
SETTLE_S = 12
STORAGE_US = 2000
PICTURES, SIDE = 256, 256
PAUSE_US = 1000
WORK_US = 1000
LOOK_S = 0.25
WINDOW = 4  # looks, over which a rate is taken
NEAR = 0.05


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


@dataclasses.dataclass
class Feed:
    dataset: dict
    batch: int
    numbers: list  # that are compared
    settings: dict = dataclasses.field(default_factory=dict)
    options: tuple = ()  # of the consumers
    consumers: int = 1  # each gets every batch


def feeds(bench):
    """By what bounds them."""
    path = bench.cached(4096)
    numbers = range(1, bench.cores + 3) if bench.cores < 8 else [number for number in NUMBERS if number <= 2 * bench.cores]
    records = records_dataset(path, 4096, io="uring")
    slow = records_dataset(path, 4096, io="uring", io_delay_us=STORAGE_US)
    return {
        "storage": Feed(slow, 64, NUMBERS, {"queue_depth": 8}),
        "processors": Feed(records, 256, numbers),
        "decoding": Feed(pictures(bench), 16, numbers),
        "consumer": Feed(records, 64, numbers, options=("--pause-us", PAUSE_US)),
        "computing consumers": Feed(records, 64, numbers, options=("--work-us", WORK_US), consumers=bench.cores),
    }


def set_loaders(bench, instance, count):
    command = [os.path.join(bench.build, "feedctl"), "--socket", instance.socket, "loaders", "feed", str(count)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def loaders_of(bench, instance):
    command = [os.path.join(bench.build, "feedctl"), "--socket", instance.socket, "stats", "--once", "--json", "feed"]
    (feed,) = run_json(command)["feeds"]
    return feed["loaders"]


def consume(bench, instance, feed, seconds=None):
    """What the consumers get on average."""
    command = bench.consumer_command(instance, "data", "--share", "feed", *feed.options, "--seconds", seconds or bench.seconds,
                                     "--warm-up", 0.3, batch=feed.batch)  # fmt: skip
    reports = [finish(process) for process in [start(command) for _ in range(feed.consumers)]]
    return {"samples_per_second": statistics.mean(report["samples_per_second"] for report in reports)}


def settled(looks):
    """From the first batches on: seconds until the number of loaders last changed, and until the rate, over a second, was near
    its median in the last four seconds. Looks are (seconds, loaders, batches)."""
    first = next(i for i, look in enumerate(looks) if look[2])
    looks = looks[max(first - 1, 0) :]
    began = looks[0][0]
    changes = [now for (_, before, _), (now, after, _) in zip(looks, looks[1:]) if after != before]

    rates = [(b[0], (b[2] - a[2]) / (b[0] - a[0])) for a, b in zip(looks, looks[WINDOW:])]
    final = statistics.median(rate for _, rate in rates[-3 * WINDOW - 1 :])
    near = next(now for now, rate in rates if abs(rate - final) <= NEAR * final)
    return {"loaders_settled_s": round(changes[-1] - began, 2) if changes else 0, "rate_settled_s": round(near - began, 2)}


def settle(bench, instance, feed):
    """Lets a feed with loaders = auto run for a while; how long it took to find its number."""
    command = [os.path.join(bench.build, "feedctl"), "--socket", instance.socket, "stats", "--json", str(LOOK_S)]
    with tempfile.TemporaryFile() as output:  # more than a pipe holds
        watch = subprocess.Popen(command, stdout=output)
        consume(bench, instance, feed, SETTLE_S)
        watch.send_signal(signal.SIGINT)
        watch.wait()
        output.seek(0)
        lines = [json.loads(line) for line in output]
    looks = [(line["uptime_s"], rows[0]["loaders"], rows[0]["feed_counters"]["batches"])
             for line in lines if (rows := line["feeds"]) and rows[0]["consumers"] == feed.consumers]  # fmt: skip
    if not looks or looks[-1][0] - looks[0][0] < SETTLE_S - 1:
        raise BenchError(f"feedctl stats showed the feed {len(looks)} times instead of about {SETTLE_S / LOOK_S:.0f}")
    return settled(looks)


def compare(bench, bound, feed):
    settings = {**feed.settings, "linger": 60}

    def fixed_round(instance, number):
        set_loaders(bench, instance, number)
        time.sleep(0.3 + number / 32)  # until they have started
        return consume(bench, instance, feed)

    with bench.instance({"data": feed.dataset}, **{**settings, "loaders": "auto"}) as sized:
        with bench.instance({"data": feed.dataset}, **{**settings, "loaders": 1}) as fixed:
            consume(bench, fixed, feed, 0.5)  # makes the feed
            times = settle(bench, sized, feed)
            chosen, auto, by_number = [], [], {number: [] for number in feed.numbers}
            for _ in range(bench.rounds):
                for number in feed.numbers:
                    by_number[number].append(fixed_round(fixed, number))
                auto.append(consume(bench, sized, feed))
                chosen.append(loaders_of(bench, sized))
    rates = {number: median(results, "samples_per_second") for number, results in by_number.items()}
    best = max(rates, key=rates.get)
    value = median(auto, "samples_per_second")
    bench.records.add("host.auto", value, "samples/s", {"bound": bound, "best": best}, rates[best],
                      "0.95 of best", value / rates[best] >= 0.95, loaders=chosen, settled_within_s=SETTLE_S, **times,
                      by_number={str(number): round(rate) for number, rate in rates.items()},
                      rounds=rounded(auto, "samples_per_second"),
                      limit_rounds=rounded(by_number[best], "samples_per_second"))


def auto(bench):
    for bound, feed in feeds(bench).items():
        compare(bench, bound, feed)


FIGURES = {"host.auto": auto}
