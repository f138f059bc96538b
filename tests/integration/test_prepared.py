"""Loaders that wait for the next feed: they become its loaders, are replaced, and are nobody's until then."""

import os
import pathlib
import re
import signal
import time

import consumer
import data
import expected
import harness

WAITING = "feedd-prepared --role=loader-prepared for the next feed"


def serve(**settings):
    instance = harness.Instance(**{"prepare_loaders": "yes", "loaders": 2, **settings})
    instance.path = data.add_records(instance)
    instance.content = expected.read_records([instance.path], 64, {"x": (0, 64)})
    return instance.start()


def waiting(feedd):
    return {pid for pid, command in feedd.children().items() if command == WAITING}


def ready(feedd, count=2, other_than=()):
    """Waits until so many are there, all of them others, and returns their process numbers."""
    harness.eventually(
        lambda: feedd.status()["prepared_loaders"] == len(waiting(feedd)) == count and not waiting(feedd) & set(other_than),
        10, f"{count} prepared loaders, others than {other_than}; there are {waiting(feedd)}",
    )  # fmt: skip
    return waiting(feedd)


def loaders(feedd):
    return {row["pid"] for row in feedd.status()["processes"] if row["role"] == "loader"}


def check_epoch(feedd, **options):
    expected.check_run(feedd.content, consumer.read(feedd, "numbers", 10, shuffle=True, **options), 10, shuffle=True)


def check_killed(feedd, waits, delay_us):
    """Those that wait are killed so long after a consumer has begun to attach; it misses nothing."""
    with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1, shuffle=True) as reader:
        time.sleep(delay_us / 1e6)
        for pid in waits:
            os.kill(pid, signal.SIGKILL)
        reader.attached()
        batches = reader.take(100)
        reader.next_ends()
        expected.check_run(feedd.content, batches, 10, shuffle=True)
    harness.eventually(lambda: not feedd.status()["feeds"], 5, "the feed is closed")


def test_a_new_feed_gets_those_that_wait():
    with serve() as feedd:
        first = ready(feedd)
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1, shuffle=True) as reader:
            reader.attached()
            batches = reader.take(1)
            assert loaders(feedd) == first
            harness.eventually(
                lambda: {feedd.children()[pid] for pid in first} == {"feedd-loader --role=loader feed 1"}, 5,
                lambda: f"all of {first} have heard of feed 1: {feedd.children()}",
            )  # fmt: skip
            ready(feedd, other_than=first)  # for the next one
            batches += reader.take(99)
            reader.next_ends()
            assert loaders(feedd) == first
            expected.check_run(feedd.content, batches, 10, shuffle=True)
        assert "prepared       2 loaders and " in feedd.ctl("status").stdout


def test_one_that_has_had_a_feed_gets_no_other():
    with serve(linger=0) as feedd:
        seen = set()
        for _ in range(4):
            mine = ready(feedd, other_than=seen)
            seen |= mine
            check_epoch(feedd)
            harness.eventually(lambda mine=mine: not mine & feedd.children().keys(), 5, "the feed's loaders are gone")


def test_more_loaders_than_wait():
    with serve(loaders=4) as feedd:
        processors = len(os.sched_getaffinity(0))
        first = ready(feedd, min(4, 2 * processors))
        for pid in list(first)[1:]:
            os.kill(pid, signal.SIGKILL)
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1) as reader:
            reader.attached()
            reader.take(100)
            harness.eventually(lambda: len(loaders(feedd)) == 4, 5, "four loaders")
            reader.next_ends()


def test_killed_while_they_wait():
    with serve() as feedd:
        first = ready(feedd)
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        second = ready(feedd, other_than=first)
        assert "which waited for a feed, was killed by signal 9" in feedd.read_log()
        check_epoch(feedd)
        harness.eventually(lambda: not second & waiting(feedd), 5, "both have heard of their feed")
        assert not feedd.status()["last_errors"]


def test_killed_while_they_are_given_a_feed():
    """One that stands still has been sent its descriptors, and has not taken them."""
    with serve() as feedd:
        first = ready(feedd)
        for pid in first:
            os.kill(pid, signal.SIGSTOP)
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1, shuffle=True) as reader:
            reader.attached()
            assert loaders(feedd) == first
            for pid in first:
                os.kill(pid, signal.SIGKILL)
            batches = reader.take(100)
            reader.next_ends()
            assert not first & loaders(feedd)
            expected.check_run(feedd.content, batches, 10, shuffle=True)


def test_killed_at_any_time():
    with serve(linger=0) as feedd:
        for delay_us in (0, 50, 100, 200, 400, 800, 1600):
            check_killed(feedd, ready(feedd), delay_us)


def test_one_that_continues_late_is_a_loader_like_any_other():
    with serve(loaders=1) as feedd:
        (first,) = ready(feedd, 1)
        os.kill(first, signal.SIGSTOP)
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1, shuffle=True) as reader:
            reader.attached()
            time.sleep(0.3)
            os.kill(first, signal.SIGCONT)
            batches = reader.take(100)
            assert loaders(feedd) == {first}
            expected.check_run(feedd.content, batches, 10, shuffle=True)


def test_the_daemon_is_killed():
    with serve() as feedd:
        ready(feedd)
        leader = feedd.process.pid
        feedd.process.kill()
        feedd.process.wait()
        harness.eventually(lambda: not harness.session_processes(leader), 5, "nothing is left")
        feedd.process = None
        feedd.start()
        ready(feedd)


def test_one_that_hangs_does_not_hold_the_stop_up():
    with serve(stop_timeout=1) as feedd:
        for pid in ready(feedd):
            os.kill(pid, signal.SIGSTOP)
        begun = time.monotonic()
        feedd.process.send_signal(signal.SIGTERM)
        assert feedd.wait(5) == 0
        assert time.monotonic() - begun < 3 * harness.SLOWNESS
        feedd.check_nothing_left()
        feedd.process = None


def test_drained_daemon_prepares_none():
    with serve() as feedd:
        ready(feedd)
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1) as reader:
            reader.attached()
            reader.take(1)
            feedd.ctl("drain")
            ready(feedd, 0)
            reader.take(99)
            reader.next_ends()
        assert feedd.wait() == 0
        feedd.check_nothing_left()
        feedd.process = None


def reload(feedd, **settings):
    feedd.settings.update(settings)
    feedd.write_config()
    return feedd.ctl("reload").stdout


def test_reload():
    with serve() as feedd:
        first = ready(feedd)
        reload(feedd, max_lag=77)  # which is nothing to them
        time.sleep(0.6)
        assert ready(feedd) == first
        reload(feedd, queue_depth=16)
        second = ready(feedd, other_than=first)
        reload(feedd, loaders=1)
        assert ready(feedd, 1) < second
        assert "prepare_loaders" in reload(feedd, prepare_loaders="no")
        ready(feedd, 0)
        check_epoch(feedd)
        reload(feedd, prepare_loaders="yes")
        ready(feedd, 1)


def test_feed_of_another_queue_depth_does_not_get_those_for_the_old_one():
    with serve() as feedd:
        first = ready(feedd)
        reload(feedd, queue_depth=16)
        check_epoch(feedd)
        assert not first & loaders(feedd)


def serve_files(count, **settings):
    instance = harness.Instance(prepare_loaders="yes", loaders=2, **settings)
    paths = []
    for number in range(count):
        paths.append(instance.directory / f"part-{number:03}.bin")
        data.write_records(paths[-1], 4, 64, first=4 * number)
    path = instance.directory / "part-*.bin"
    instance.add_dataset("numbers", format="records", path=path, record_bytes=64, field_x="u8[64] @ 0")
    instance.content = expected.read_records(paths, 64, {"x": (0, 64)})
    return instance.start()


def test_dataset_of_many_files():
    """More descriptors than can be handed over at once: its loaders are started with them."""
    with serve_files(300) as feedd:
        first = ready(feedd)
        check_epoch(feedd)
        assert not first & loaders(feedd)
        assert ready(feedd) == first  # none was taken in vain


def test_dataset_of_some_files():
    with serve_files(200, io="uring") as feedd:
        first = ready(feedd)
        check_epoch(feedd)
        assert loaders(feedd) == first


def test_few_descriptors():
    with serve() as feedd:
        first = ready(feedd)
        harness.prlimit(feedd.process.pid, "nofile", 256)
        ready(feedd, 0)
        check_epoch(feedd)
        harness.prlimit(feedd.process.pid, "nofile", 4096)
        ready(feedd, other_than=first)


def confinement(feedd):
    (row,) = [row for row in feedd.status()["confinement"] if row["role"] == "loader"]
    return {key: row[key] for key in ("processes", "active", "missing")}


def kinds_of_descriptors(pid):
    targets = [target for _, target, _ in harness.open_files(pid)]
    return sorted(re.sub(r"\d+|:.*", "", pathlib.Path(target).name) for target in targets)


def test_they_give_up_as_much_as_others():
    for io in ("uring", "mapped", "pread", "auto"):
        found = []
        for prepares in ("no", "yes"):
            with serve(prepare_loaders=prepares, loaders=1, io=io) as feedd:
                first = ready(feedd, 1 if prepares == "yes" else 0)
                with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1, shuffle=True) as reader:
                    reader.attached()
                    reader.take(20)
                    (pid,) = loaders(feedd)
                    assert prepares == "no" or {pid} == first
                    found.append((confinement(feedd), kinds_of_descriptors(pid)))
        assert found[0] == found[1], (io, found)
