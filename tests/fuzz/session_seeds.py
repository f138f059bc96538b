"""Seeds of fuzz_session.c."""

from parts import number, u16


def step(what, who=0, flag=0):
    return bytes([what << 2 | who | flag])


def attach(who, flags, more=0, batch=8, world=1, rank=0, epochs=0, rest=b""):
    return step(1, who) + bytes([flags, more]) + number(batch) + number(world) + number(rank) + number(epochs) + rest


def hello(who, user=0):
    return step(0, who) + bytes([user]) + b"fuzz\n"


def bring(who, kind, stride=3, dataset=0, begin=0, end=50, count=20, flags=0):
    numbers = number(begin) + number(end) + (b"" if kind == 4 else number(count))
    return step(8, who) + bytes([dataset, kind - 1 << 2 | flags, stride]) + numbers


def views(both, work, read, release):
    for kind in range(1, 5):
        view = bring(0, kind)
        yield f"view-{kind}", hello(0) + view + attach(0, 4) + work + read + release + work + read
    part = bring(0, 4, flags=16)
    yield "view-of-a-part", hello(0) + part + attach(0, 4) + work + read + release + work + read
    large = bring(0, 3, count=20000)
    yield "view-of-many", hello(0) + large + attach(0, 4) + work + read + step(14) + b"\x20"
    yield "view-shared", both + bring(0, 3) + bring(1, 3) + attach(0, 32) + attach(1, 32) + work + read + step(9, 1)
    stalled = step(15, 1) + bring(0, 4) + bring(1, 4) + step(7) + step(15, 1)
    yield "view-stalls", both + stalled + attach(1, 0) + work + step(9, 1)
    yield "view-torn", both + bring(0, 3, flags=2, count=20000) + bytes(8) + bring(1, 3) + step(14) + b"\xff" + read
    lies = b"".join(number(value) for value in (3, 0, 50, 8, 20, 20))
    yield "view-lies", hello(0) + step(8) + bytes([0, 1, 3]) + lies + read


def sessions():
    work = step(10) + bytes([0, 0, 31])
    read, release = bytes([9 << 2]), step(2) + bytes([0xfd])
    yield "one-client", hello(0) + attach(0, 4) + work + read + release + work + read + work + read
    yield "to-the-end", hello(0) + attach(0, 1 | 8, batch=4, epochs=1) + (work + read + release) * 4
    both = hello(0) + hello(1)
    yield from views(both, work, read, release)
    yield "shared", both + attach(0, 32) + attach(1, 32) + work + read + step(9, 1) + release + step(2, 1) + b"\xfd" + work
    yield "ranks", both + attach(0, 36, world=2) + attach(1, 36, world=2, rank=1) + work * 2 + read + step(9, 1) + step(7)
    yield "resumed", hello(0) + attach(0, 64, rest=number(1) + number(16)) + work + read
    yield "not-held", hello(0) + attach(0, 0) + work + read + step(2) + b"\x02" + number(60) + read
    yield "held-twice", hello(0) + attach(0, 0) + work + read + (step(2) + b"\x02" + number(0)) * 2 + read
    again = step(7) + hello(0)
    yield "another-run", hello(0) + attach(0, 0) + work + again + attach(0, 64, rest=number(1) + number(3)) + work + read
    early, late = attach(0, 96, rest=number(0) + number(8)), attach(1, 96, rest=number(0) + number(24))
    yield "earlier-token", both + late + early + work * 2 + read
    one_rank = number(0) + number(1) + number(0) * 2
    ranks = [attach(0, 32, 2, world=2, rank=rank, rest=one_rank) for rank in (0, 1)]
    yield "another-rank", hello(0) + ranks[0] + work + again + ranks[1] + work + read
    yield "asks-too-much", hello(0) + step(3) + b"\xf9\x00" + number(60) + read + step(14) + b"\x00" + read
    progress = step(15, 2)
    two = attach(0, 36, world=2) + attach(1, 36, world=2, rank=1)
    yield "progress", both + two + work + read + step(13) + b"\x00" + progress
    ahead = attach(0, 96, rest=number(41) + number(8))
    yield "far-ahead", both + late + ahead + progress
    yield "progress-to-the-end", hello(0) + attach(0, 1 | 8, batch=4, epochs=1) + progress * 2
    yield "failed-sample", hello(0) + attach(0, 0) + step(10) + bytes([0, 15, 3]) + read
    yield "skipped-sample", hello(0) + attach(0, 1, batch=5) + step(10) + bytes([0, 14, 3]) + work + work + read
    yield "loader-dies", hello(0) + attach(0, 0) + step(10) + bytes([0, 13, 1]) + work + read
    hold_on, hang, silence, patience = step(14) + b"\xe0", step(10) + bytes([0, 13, 1]), step(14) + b"\x7f", step(14) + b"\x0c"
    hung = hold_on + hello(0) + attach(0, 0) + hang + silence + patience
    yield "loader-hangs", hung + (work + read + release) * 3 + hold_on + work + read
    full = hello(0) + attach(0, 0) + hang + work
    yield "loader-hangs-in-a-full-ring", hold_on + full + silence + patience + work + read + hold_on
    yield "two-loaders-hang", hung + hang + silence + read
    yield "hangs-and-leaves", hung + step(7) + patience * 2 + hold_on + progress
    yield "questions", hello(0) + b"".join(step(3) + bytes([kind, 1]) + number(0) for kind in range(8)) + read
    yield "reload-and-drain", hello(0) + step(4) + b"\x00" + read + step(4) + b"\x01" + read
    yield "lags", both + attach(0, 32) + attach(1, 32) + work + read + work + step(14) + b"\x10" + step(9, 1)
    yield "stall", hello(0) + step(15, 1) + attach(0, 0) + step(7) + step(15, 1)
    yield "no-process", hello(0) + step(15) + attach(0, 0) + step(14) + b"\xff" + read
    yield "raw", hello(0) + step(5) + u16(3) + b"\x22\x01\x08" + step(6) + b"\x11" + b"abcd"
    ready, answers = step(12) + b"\x00", step(12) + b"\x40"
    on_gpu = attach(0, 128) + ready + answers + work + answers * 2 + read
    yield "device", hello(0) + on_gpu + release + answers + work + answers + read
    yield "device-dies", hello(0) + on_gpu + step(13) + b"\xff" + step(14) + b"\x04" + ready + answers * 2 + read
    lost = step(12) + b"\xa0" + b"\x08" + number(1) + number(5) + number(0) * 3
    yield "device-lost", hello(0) + on_gpu + lost + read
    lagging = step(12) + b"\xa0" + b"\x07" + number(1) + number(0) * 3 + number(60)
    yield "device-lags", hello(0) + on_gpu + (step(14) + b"\x08" + lagging) * 3 + read
    refused = step(12) + b"\xa0" + b"\x03" + number(1) + number(0) * 4
    yield "device-refused-without-a-code", hello(0) + attach(0, 128) + ready + step(14) + b"\x01" + refused + read
    yield "device-garbage", hello(0) + attach(0, 128) + ready + step(12) + b"\xfc" + read
