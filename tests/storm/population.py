"""Who takes part: consumers of every kind."""

from lanes import Shape


def choose_lanes(datasets, gpu):
    """(name, shape) of the lanes that last. Those on a GPU are slower, since each process has to open the driver."""
    lanes = [
        ("private-records", Shape("records", 64)),
        ("private-tokens", Shape("tokens", 16)),
        ("private-pairs", Shape("pairs", 50, hold=0, shuffle=False)),
        ("private-vectors", Shape("vectors", 33, drop_last=True, prefetch=3)),
        ("private-shrinking", Shape("shrinking", 20)),
        ("private-replacing", Shape("replacing", 20)),
        ("private-pictures", Shape("pictures", 22)),
        ("pictures-0", Shape("pictures", 14, "pictures", 0, 2, wait_for=2, pause_us=6000)),
        ("pictures-1", Shape("pictures", 14, "pictures", 1, 2, wait_for=2, pause_us=6000)),
        ("private-batches", Shape("batches", 25, pause_us=3000)),
        ("private-shards", Shape("shards", 21, pause_us=3000)),
        ("private-windows", Shape("windows", 15, pause_us=4000)),
        ("private-ragged", Shape("ragged", 23, pause_us=3000)),
        ("ragged-0", Shape("ragged", 9, "ragged", pause_us=6000, ring_bytes=1 << 16)),
        ("ragged-1", Shape("ragged", 9, "ragged", pause_us=6000, ring_bytes=1 << 16)),
        ("private-part", Shape("part", 28, pause_us=3000)),
        ("listed-0", Shape("listed", 17, "listed", pause_us=6000)),
        ("listed-1", Shape("listed", 17, "listed", pause_us=6000)),
        ("drawn-0", Shape("drawn", 19, "drawn", pause_us=6000)),
        ("drawn-1", Shape("drawn", 19, "drawn", shuffle=False, pause_us=6000)),
        ("own-list-0", Shape("own-list", 18, "own-list", pause_us=6000)),
        ("own-list-1", Shape("own-list", 18, "own-list", pause_us=6000)),
        ("own-drawn", Shape("own-drawn", 19, pause_us=12000)),
        ("own-part", Shape("own-part", 19, pause_us=12000)),
        ("own-split", Shape("own-split", 23, pause_us=12000)),
        ("private-mixed", Shape("mixed", 23, pause_us=3000)),
        ("private-blend", Shape("blend", 17, pause_us=4000)),
        ("mixed-0", Shape("mixed", 18, "mixture", 0, 2, wait_for=2, pause_us=6000)),
        ("mixed-1", Shape("mixed", 18, "mixture", 1, 2, wait_for=2, pause_us=6000)),
        ("private-frames", Shape("frames", 21, pause_us=5000)),
        ("private-stretch", Shape("stretch", 18, drop_last=True, pause_us=9000)),
        ("private-unwindowed", Shape("unwindowed", 20, pause_us=20000)),
        ("private-fading", Shape("fading", 20, prefetch=3, pause_us=2000, ring_bytes=1 << 16)),
        ("private-alike", Shape("alike", 20, prefetch=3, pause_us=2000, ring_bytes=1 << 16)),
        ("frames-0", Shape("frames", 16, "frames", 0, 2, wait_for=2, pause_us=9000)),
        ("frames-1", Shape("frames", 16, "frames", 1, 2, wait_for=2, pause_us=9000)),
        ("private-rows", Shape("rows", 19, pause_us=5000)),
        ("rows-0", Shape("rows", 15, "rows", pause_us=9000)),
        ("private-packed", Shape("packed", 13, pause_us=6000)),
        ("own-stretch", Shape("own-stretch", 15, pause_us=12000)),
        ("ranks-0", Shape("records", 24, "ranks", 0, 2, wait_for=2)),
        ("ranks-1", Shape("records", 24, "ranks", 1, 2, wait_for=2)),
        ("twins-0", Shape("tokens", 12, "twins", pause_us=10000)),
        ("twins-1", Shape("tokens", 12, "twins", hold=1)),
        ("late-0", Shape("vectors", 40, "late", max_lag=2)),
        ("late-1", Shape("vectors", 40, "late", max_lag=2, pause_us=12000)),
    ]
    if gpu != "none":
        lanes += [
            ("gpu-private", Shape("records", 32, device=gpu, pause_us=12000)),
            ("gpu-ragged", Shape("ragged", 9, "ragged", device=gpu, pause_us=12000, ring_bytes=1 << 16)),
            ("gpu-rows", Shape("rows", 15, "rows", device=gpu, pause_us=12000)),
            ("gpu-packed", Shape("packed", 11, device=gpu, pause_us=12000)),
            ("gpu-mixed", Shape("pairs", 20, "mixed", device=gpu, pause_us=12000)),
            ("cpu-mixed", Shape("pairs", 20, "mixed", pause_us=12000)),
            ("gpu-ranks-0", Shape("tokens", 8, "gpu-ranks", 0, 2, device=gpu, pause_us=12000)),
            ("gpu-ranks-1", Shape("tokens", 8, "gpu-ranks", 1, 2, device=gpu, pause_us=12000)),
        ]
    lanes += choose_images(datasets, gpu)
    if "skipping" in datasets:
        lanes += [
            ("skipping", Shape("skipping", 10, pause_us=40000)),
            ("failing", Shape("failing", 10, pause_us=40000)),
        ]
    return lanes


def choose_images(datasets, gpu):
    if "photos" not in datasets:
        return []
    lanes = [
        ("private-photos", Shape("photos", 10, pause_us=20000)),
        ("photos-0", Shape("photos", 7, "photos", 0, 2, wait_for=2, pause_us=25000)),
        ("photos-1", Shape("photos", 7, "photos", 1, 2, wait_for=2, pause_us=25000)),
        ("private-spoilt", Shape("spoilt", 9, pause_us=25000)),
        ("private-mended", Shape("mended", 9, pause_us=25000)),
        ("private-engined", Shape("engined", 11, pause_us=25000)),
    ]
    if gpu != "none":
        lanes += [
            ("gpu-photos", Shape("photos", 8, device=gpu, pause_us=25000)),
            ("gpu-engined", Shape("engined", 8, device=gpu, pause_us=20000)),
            ("engined-0", Shape("engined", 6, "engined", 0, 2, wait_for=2, device=gpu, pause_us=25000)),
            ("engined-1", Shape("engined", 6, "engined", 1, 2, wait_for=2, device=gpu, pause_us=25000)),
        ]
    return lanes


def choose_visitors(gpu):
    visitors = [
        ("visitor-own", Shape("vectors", 20)),
        ("visitor-other", Shape("tokens", 5, shuffle=False)),
        ("visitor-records", Shape("records", 10, drop_last=True)),
        ("visitor-twins", Shape("tokens", 12, "twins")),
        ("visitor-own-list", Shape("own-list", 20)),
        ("visitor-pictures", Shape("pictures", 10, shuffle=False)),
        ("visitor-rows", Shape("rows", 12, shuffle=False)),
        ("visitor-rank", Shape("records", 24, "ranks", 1, 2)),
        ("visitor-guest", Shape("pairs", 30, "guests")),
        ("visitor-guest-2", Shape("pairs", 30, "guests")),
    ]
    if gpu.startswith("host"):
        visitors.append(("visitor-gpu", Shape("vectors", 16, device=gpu)))
    return visitors
