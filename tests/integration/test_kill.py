"""Processes are killed and stopped while they work; the others continue, and no sample is lost or delivered twice."""

import errno
import os
import random
import re
import signal
import sys
import time

import consumer
import data
import expected
import harness

SAMPLES = 2000
SHAPE = {"epochs": 3, "shuffle": True, "seed": 13}


def serve(dataset=None, **settings):
    instance = harness.Instance(**{"ring": "64K", **settings})
    instance.path = data.add_records(instance, samples=SAMPLES, size=64, **(dataset or {}))
    return instance.start()


def loaders(instance):
    return instance.children_called("loader")


def counters(instance):
    (feed,) = instance.statistics()["feeds"]
    return feed["feed_counters"], feed["loader_counters"]


def kill_while(instance, reader, pause_s, number=signal.SIGKILL):
    """Kills one loader after another until the consumer is done; returns how many."""
    killed = 0
    while reader.process.poll() is None:
        if alive := loaders(instance):
            killed += harness.kill(random.choice(alive), number)
        time.sleep(pause_s)
    return killed


def check_after_kills(instance, reader, killed):
    batches = reader.finish()
    expected.check_run(expected.read_records([instance.path], 64, {"x": (0, 64)}), batches, 20, **SHAPE)
    feed, loader = counters(instance)
    assert killed >= 5, f"only {killed} were killed: that shows nothing"
    assert 0 < feed["children_replaced"] <= killed, (feed, killed)
    assert feed["samples"] == 3 * SAMPLES, feed
    # What a loader had counted before it could say that it was done is read once more.
    assert 3 * SAMPLES <= loader["samples"] <= 3 * SAMPLES + 20 * killed, (loader, killed)
    assert loader["read_errors"] == loader["skipped"] == 0, loader


@harness.host_memory
@harness.limit(60)
def test_loaders_that_die_as_soon_as_they_start_fail_the_feed():
    """Each attempt to start them counts once, and the pauses in between grow, so that takes about 13 s."""
    slow_storage = {"io_delay_us": 10_000_000}  # no loader lives to see a sample
    with serve(io="uring", loaders=3, dataset=slow_storage) as feedd, feedd.client() as session:
        session.attach("numbers", 20)
        while "has failed" not in feedd.read_log():
            for pid in loaders(feedd):
                harness.kill(pid)
            time.sleep(0.05)
        error = session.expect_closed()
        assert error["code"] == errno.EIO and "end as soon as they start" in error["text"], error
        assert feedd.read_log().count("was killed by signal 9") >= 16, feedd.read_log()


@harness.host_memory
def test_loaders_that_die_while_there_is_nothing_to_read_do_not_fail_the_feed():
    """Each of them has found the ring full. There are more of them than may fail to start."""
    with serve(loaders=1, log_level="debug") as feedd, feedd.client() as session:
        session.attach("numbers", 20)

        def is_full():
            (feed,) = feedd.statistics()["feeds"]
            return feed["slots_ready"] == feed["slots"]

        harness.eventually(is_full, 10, "a full ring")
        for number in range(1, 13):
            ready = rf"loader 1\.{number}\[\d+\] debug: reads with"
            harness.eventually(lambda: re.search(ready, feedd.read_log()), 10, "a loader that is ready")
            time.sleep(0.05)
            os.kill(loaders(feedd)[0], signal.SIGKILL)
        assert "has failed" not in feedd.read_log(), feedd.read_log()


@harness.host_memory
def test_a_replacement_has_the_stripe_of_the_loader_that_died():
    with serve(loaders=3, log_level="debug") as feedd, feedd.client() as session:
        def stripes():
            found = re.findall(r"started as process (\d+), with stripe (\d+) of 3", feedd.read_log())
            return {int(pid): int(stripe) for pid, stripe in found}

        session.attach("numbers", 20)
        before = harness.eventually(lambda: len(stripes()) == 3 and stripes(), 10, "three loaders")
        assert sorted(before.values()) == [0, 1, 2], before
        (killed,) = [pid for pid, stripe in before.items() if stripe == 1]
        os.kill(killed, signal.SIGKILL)
        after = harness.eventually(lambda: len(stripes()) == 4 and stripes(), 10, "a replacement")
        assert [stripe for pid, stripe in after.items() if pid not in before] == [1], after


def test_sigchld_that_is_ignored_at_start():
    """That is inherited, and the kernel then forgets a child that ends unless its parent handles the signal."""
    with harness.Instance(loaders=1) as feedd:
        data.add_records(feedd)
        feedd.start(wrap=("sh", "-c", "trap '' CHLD; exec \"$@\"", "sh"))
        with feedd.client() as session:
            session.attach("numbers", 10)
            (loader,) = harness.eventually(lambda: feedd.children_called("loader"), 10, "a loader")
            os.kill(loader, signal.SIGKILL)
            harness.eventually(lambda: feedd.children_called("loader") not in ([], [loader]), 10, "another loader")


def test_sigchld_that_is_blocked_at_start():
    with harness.Instance(loaders=1) as feedd:
        data.add_records(feedd)
        block = "pthread_sigmask(SIG_BLOCK, {SIGCHLD}); os.execv(sys.argv[1], sys.argv[1:])"
        feedd.start(wrap=(sys.executable, "-c", f"from signal import *; import os, sys; {block}"))
        with feedd.client() as session:
            session.attach("numbers", 10)
            (loader,) = harness.eventually(lambda: feedd.children_called("loader"), 10, "a loader")
            os.kill(loader, signal.SIGKILL)
            harness.eventually(lambda: feedd.children_called("loader") not in ([], [loader]), 10, "another loader")


def kill_loaders(io, pause_s, **dataset):
    with serve(io=io, loaders=3, dataset=dataset) as feedd:
        reader = consumer.Consumer(feedd, "numbers", 20, sleep_us=harness.slowly(4000), **SHAPE)
        killed = kill_while(feedd, reader, pause_s)
        check_after_kills(feedd, reader, killed)


@harness.quick_attach
def test_loaders_are_killed_again_and_again_with_uring():
    kill_loaders("uring", 0.05)


@harness.quick_attach
def test_loaders_are_killed_again_and_again_mapped():
    kill_loaders("mapped", 0.05)


@harness.quick_attach
def test_loaders_are_killed_again_and_again_with_pread():
    kill_loaders("pread", 0.05)


@harness.quick_attach
def test_loaders_that_keep_dying_are_replaced_less_often():
    with serve(io="mapped", loaders=2) as feedd:
        with consumer.Consumer(feedd, "numbers", 20, quiet=True, **{**SHAPE, "epochs": None}):
            killed, begun = 0, time.monotonic()
            # On a busy machine they may start so slowly that it takes longer until the first 32 are used up.
            while (lasted := time.monotonic() - begun) < 4 or (killed <= 32 and lasted < 4 + 4 * harness.SLOWNESS):
                time.sleep(0.02)  # they have read something by then
                for pid in loaders(feedd):
                    killed += harness.kill(pid)
            harness.eventually(lambda: len(loaders(feedd)) == 2, 5, "both loaders are there again")
            first = counters(feedd)[0]["batches"]
            harness.eventually(lambda: counters(feedd)[0]["batches"] > first, 5, "it continues")
        # 32 at once, two whenever there is a turn, four times a second.
        assert 30 < killed < 32 + 2 * 4 * (lasted + 1), (killed, lasted)


@harness.quick_attach
def test_loaders_are_killed_while_reads_are_under_way():
    """Each read takes 20 ms, so that every loader dies with reads in flight, which land in the ring after its death."""
    kill_loaders("uring", 0.05, io_delay_us=20000)


def test_loaders_crash():
    with serve(loaders=3) as feedd:
        reader = consumer.Consumer(feedd, "numbers", 20, sleep_us=harness.slowly(2000), **SHAPE)
        killed = kill_while(feedd, reader, 0.1, signal.SIGABRT)
        check_after_kills(feedd, reader, killed)
        assert any("signal 6" in line for line in feedd.status()["last_errors"]), feedd.status()


def test_all_loaders_at_once():
    with serve(loaders=4) as feedd:
        with consumer.Consumer(feedd, "numbers", 20, step=True, **SHAPE) as reader:
            reader.attached()
            batches = reader.take(5)
            for round_number in range(4):
                for pid in feedd.loaders(4):
                    os.kill(pid, signal.SIGKILL)
                batches += reader.take(50)
                harness.eventually(lambda: counters(feedd)[0]["children_replaced"] == 4 * (round_number + 1), 5, "4 replaced")
            batches += reader.take(300 - len(batches))
            reader.next_ends()
            expected.check_run(expected.read_records([feedd.path], 64, {"x": (0, 64)}), batches, 20, **SHAPE)


def test_loader_that_hangs_is_replaced():
    with serve(loaders=2, loader_timeout=2) as feedd:
        with consumer.Consumer(feedd, "numbers", 20, step=True, **SHAPE) as reader:
            reader.attached()
            batches = reader.take(10)
            hung = feedd.loaders(2)
            for pid in hung:
                os.kill(pid, signal.SIGSTOP)
            begun = time.monotonic()
            batches += reader.take(290)
            assert time.monotonic() - begun > 1.5, "the ring held everything: this shows nothing"
            reader.next_ends()
            expected.check_run(expected.read_records([feedd.path], 64, {"x": (0, 64)}), batches, 20, **SHAPE)
            assert counters(feedd)[0]["children_replaced"] == 2
            assert any("has made no progress for 2 s" in line for line in feedd.status()["last_errors"])
            assert not set(hung) & set(feedd.children()), "a hung loader is still there"


def test_loaders_that_cannot_start_fail_the_feed():
    """They end at once, each time: the consumer is told within seconds."""
    with serve(loaders=4) as feedd:
        with consumer.Consumer(feedd, "numbers", 20, step=True) as reader:
            reader.attached()
            # Too little address space for a program to be loaded into.
            harness.prlimit(feedd.process.pid, "as", 1 << 20)
            for pid in feedd.loaders(4):
                os.kill(pid, signal.SIGKILL)
            # After what the ring holds.
            for _ in range(60):
                reader.command("next", 20000)
                event = reader.event()
                if event["event"] == "error":
                    break
                reader.release(event)
            assert event["event"] == "error" and event["code"] == "EIO", event
            harness.prlimit(feedd.process.pid, "as", None)


# ---- Consumers ---------------------------------------------------------------------------------------------


def test_consumer_that_is_killed_gives_its_leases_back():
    """Two share; one holds all it may and blocks the other; it is killed, and the other continues at once."""
    with serve(ring="32K") as feedd:
        options = {"share": "job", "wait_for": 2, "max_lag": 60, **SHAPE}
        with consumer.Consumer(feedd, "numbers", 20, step=True, prefetch=3, **options) as bad:
            bad.attached()
            good = consumer.Consumer(feedd, "numbers", 20, **options)
            for _ in range(3):
                bad.next()
            harness.eventually(lambda: counters(feedd)[0]["batches"] >= 6, 5, "the other one has got what it can")
            time.sleep(0.3)
            bad.kill()
            batches = good.finish(10)
        assert expected.check_exactly_once(SAMPLES, batches) == 3
        assert counters(feedd)[1]["samples"] == 3 * SAMPLES


def test_consumers_are_killed_again_and_again():
    """Each continues where the previous one was killed."""
    with serve() as feedd:
        together, token = [], None
        for number in range(20):
            with consumer.Consumer(feedd, "numbers", 20, step=True, resume=token, **SHAPE) as reader:
                reader.attached()
                together += reader.take(number % 7 + 1)
                token = reader.token()
                if number % 3 == 0:
                    reader.next()  # and dies with it
                reader.kill()
        together += consumer.read(feedd, "numbers", 20, resume=token, **SHAPE)
        assert expected.check_exactly_once(SAMPLES, together) == 3


def test_consumer_that_is_killed_while_it_waits():
    with serve(dataset={"io_delay_us": 300_000}, io="uring") as feedd:
        for _ in range(5):
            with consumer.Consumer(feedd, "numbers", 20, step=True, **SHAPE) as reader:
                reader.attached()
                reader.command("next", -1)
                time.sleep(0.05)
                reader.kill()
        batches = consumer.Consumer(feedd, "numbers", 20, batches=3, **SHAPE).finish()
        assert [batch["index"] for batch in batches] == [0, 1, 2]


@harness.host_memory
def test_the_gap_after_a_death_does_not_grow_with_the_ring():
    """On slow storage what the dead loader had goes out again before everything else that is waiting in the ring."""
    with serve(dataset={"io_delay_us": 100_000}, io="uring", loaders=2, ring="2M") as feedd:
        with feedd.client() as session:
            session.attach("numbers", 64, prefetch=2)
            begun = last = time.monotonic()
            gap, killed = 0, 0
            while last < begun + 6:
                session.send("release", slots=session.expect("grant", 20 * harness.SLOWNESS)["slots"], waiting=True)
                now = time.monotonic()
                gap, last = max(gap, now - last) if killed else 0, now
                if not killed and now > begun + 1:
                    killed = loaders(feedd)[0]
                    os.kill(killed, signal.SIGKILL)
        assert gap < 1.5 * harness.SLOWNESS, f"no batch for {gap:.2f} s after a loader's death"


# ---- The supervisor ----------------------------------------------------------------------------------------


def test_supervisor_is_killed():
    """Its loaders end with it, only the socket is left, consumers are told, and the next daemon starts at once."""
    with serve(loaders=4) as feedd:
        with consumer.Consumer(feedd, "numbers", 20, step=True, token=True, **SHAPE) as reader:
            reader.attached()
            before = reader.take(30)
            held = reader.next()
            leader = feedd.process.pid
            feedd.process.kill()
            feedd.process.wait()
            harness.eventually(lambda: not harness.session_processes(leader), 1, "all loaders are gone")
            feedd.check_shared_objects()
            assert feedd.socket.exists()
            assert reader.hashes(held) == held["crc"], "a batch in hand is no longer readable"
            for _ in range(200):  # those that were granted before
                reader.command("next", 5000)
                if (event := reader.event())["event"] == "error":
                    break
            assert event["code"] == "ECONNRESET", event
            assert "feedd" in event["text"] and str(feedd.socket) in event["text"], event

        begun = time.monotonic()
        feedd.start()
        assert time.monotonic() - begun < 2 * harness.SLOWNESS
        assert "stale socket" in feedd.read_log()
        after = consumer.read(feedd, "numbers", 20, resume=before[-1]["token"], **SHAPE)
        assert expected.check_exactly_once(SAMPLES, before + after) == 3


def test_supervisor_is_killed_while_it_makes_a_feed():
    for pause in (0.0, 0.01, 0.03):
        with harness.Instance(ring_memory="2G") as feedd:
            data.add_records(feedd)
            feedd.start()
            reader = consumer.Consumer(feedd, "numbers", 10, ring_bytes=300 << 20, step=True)
            time.sleep(pause)
            leader = feedd.process.pid
            feedd.process.kill()
            feedd.process.wait()
            harness.eventually(lambda: not harness.session_processes(leader), 1, "all loaders are gone")
            feedd.check_shared_objects()
            reader.kill()
            feedd.start()
            consumer.read(feedd, "numbers", 10)
