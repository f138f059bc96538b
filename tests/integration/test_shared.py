"""Consumers that share a feed: the same batches for all, read once; one that holds up the others for too long is detached."""

import contextlib
import errno
import os
import signal
import time

import consumer
import data
import expected
import harness

SAMPLES = 500


def serve(**settings):
    instance = harness.Instance(**{"ring": "64K", **settings})
    instance.path = data.add_records(instance, samples=SAMPLES, size=64)
    return instance.start()


@contextlib.contextmanager
def sharing(instance, *each, batch_size=10, **options):
    """Consumers step by step on one feed; `each` has what is different for each of them."""
    options = {"share": "job", "wait_for": len(each), "step": True, **options}
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(consumer.Consumer(instance, "numbers", batch_size, **{**options, **own})) for own in each
        ]
        for reader in readers:
            reader.attached()
        yield readers


def feed(instance):
    feeds = instance.statistics()["feeds"]
    assert len(feeds) == 1, feeds
    return feeds[0]


# ---- The same for all --------------------------------------------------------------------------------------


def test_same_batches_read_once():
    with serve() as feedd:
        shape = {"epochs": 4, "shuffle": True, "seed": 6}
        readers = [consumer.Consumer(feedd, "numbers", 16, share="job", wait_for=3, **shape) for _ in range(3)]
        runs = [reader.finish() for reader in readers]
        content = expected.read_records([feedd.path], 64, {"x": (0, 64)})
        for run in runs:
            expected.check_run(content, run, 16, **shape)
        assert len({reader.last["digest"] for reader in readers}) == 1
        counters = feed(feedd)
        assert counters["loader_counters"]["samples"] == 4 * SAMPLES, counters
        assert counters["loader_counters"]["bytes"] == 4 * SAMPLES * 64, counters
        assert counters["feed_counters"]["samples"] == 3 * 4 * SAMPLES, counters
        assert counters["feed_counters"]["bytes"] == 3 * 4 * SAMPLES * 64, counters
        assert counters["feed_counters"]["batches"] == 3 * 4 * 32, counters


def test_first_batch_waits_for_all():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, share="job", wait_for=2, step=True) as first:
            first.attached()
            first.next_fails("EAGAIN", timeout_ms=300)
            with consumer.Consumer(feedd, "numbers", 10, share="job", wait_for=2, step=True) as second:
                second.attached()
                assert first.next()["samples"] == second.next()["samples"]


def test_wait_for_of_a_consumer_that_has_left_does_not_count():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, share="job", wait_for=3, step=True) as first:
            first.attached()
            second = consumer.Consumer(feedd, "numbers", 10, share="job", step=True)
            second.attached()
            second.next_fails("EAGAIN", timeout_ms=300)
        with second:
            assert second.next()["sequence"] == 0


def test_one_who_leaves_while_others_wait_does_not_count():
    with serve() as feedd:
        options = {"share": "job", "wait_for": 3, "step": True}
        with consumer.Consumer(feedd, "numbers", 10, **options) as first:
            first.attached()
            with consumer.Consumer(feedd, "numbers", 10, **options) as second:
                second.attached()
            harness.eventually(lambda: feed(feedd)["consumers"] == 1, 5, "the second has left")
            with consumer.Consumer(feedd, "numbers", 10, **options) as third:
                third.attached()
                first.next_fails("EAGAIN", timeout_ms=300)
                with consumer.Consumer(feedd, "numbers", 10, **options) as fourth:
                    fourth.attached()
                    batches = [reader.next()["samples"] for reader in (first, third, fourth)]
                    assert batches == [list(range(10))] * 3


def run_to_end(*readers):
    """Takes the rest of the run in turns; returns what each has seen."""
    seen = {reader: [] for reader in readers}
    left = list(readers)
    while left:
        for reader in list(left):
            reader.command("next", 20000)
            event = reader.event()
            if event["event"] == "end":
                left.remove(reader)
            else:
                reader.release(event)
                seen[reader].append(event)
    return list(seen.values())


def test_late_joiner():
    """It begins where the feed stands, and from there on sees what the other one sees."""
    with serve() as feedd:
        with sharing(feedd, {"prefetch": 3}, epochs=2, shuffle=True) as (first,):
            early = first.take(60)
            with consumer.Consumer(feedd, "numbers", 10, epochs=2, shuffle=True, share="job", step=True) as late:
                place = late.attached()
                one, two = run_to_end(first, late)
                whole = [(batch["epoch"], batch["index"], batch["crc"]) for batch in early + one]
                seen = [(batch["epoch"], batch["index"], batch["crc"]) for batch in two]
                assert len(whole) == 100
                assert seen == whole[len(whole) - len(seen) :], "the late one saw something else"
                assert (place["epoch"], place["consumed"] // 10) == seen[0][:2], (place, seen[0])
                assert 40 - 3 <= len(seen) <= 40, f"it began {len(seen)} batches before the end"


def test_different_prefetch():
    with serve(ring="1M") as feedd:
        each = ({"prefetch": 1}, {"prefetch": 2}, {"prefetch": 30}, {})
        with contextlib.ExitStack() as stack:
            readers = [
                stack.enter_context(consumer.Consumer(feedd, "numbers", 7, share="job", wait_for=4, epochs=3, **own))
                for own in each
            ]  # fmt: skip
            runs = [reader.finish() for reader in readers]
            assert len({reader.last["digest"] for reader in readers}) == 1
            assert len(runs[0]) == 3 * 72


def test_different_numbers_of_epochs():
    with serve() as feedd:
        readers = [consumer.Consumer(feedd, "numbers", 10, share="job", wait_for=2, epochs=epochs) for epochs in (1, 3)]
        short, long = (reader.finish() for reader in readers)
        assert (len(short), len(long)) == (50, 150)
        assert [batch["crc"] for batch in short] == [batch["crc"] for batch in long[:50]]


def test_named_feed_goes_on_where_its_consumers_left_it():
    """One comes back by name and token; the feed stays warm in the meantime."""
    with serve() as feedd:
        with sharing(feedd, {}, token=True) as (first,):
            before = first.take(5)
        with sharing(feedd, {"resume": before[-1]["token"]}) as (second,):
            assert second.take(1)[0]["samples"][0] == 50


# ---- Who does not agree is refused -------------------------------------------------------------------------


def test_disagreement_on_each_option():
    with harness.Instance() as feedd:
        data.add_records(feedd, "numbers", samples=100)
        data.add_records(feedd, "others", samples=100)
        feedd.start()
        agreed = {"share": "job", "shuffle": True, "seed": 3, "world_size": 2, "local_world_size": 2}
        with consumer.Consumer(feedd, "numbers", 10, step=True, **agreed) as first:
            first.attached()
            for option, value, old in (
                ("dataset", "others", "numbers"), ("batch_size", 11, 10), ("shuffle", False, None),
                ("drop_last", True, None), ("seed", 4, 3), ("world_size", 3, 2),
            ):  # fmt: skip
                options = {"dataset": "numbers", "batch_size": 10, **agreed, option: value}
                if not options["shuffle"]:
                    options["seed"] = 0
                words = ["job", option, *([str(value), str(old)] if old else [])]
                consumer.refused(feedd, "EEXIST", *words, **options)
            with consumer.Consumer(feedd, "numbers", 10, step=True, rank=1, **agreed) as second:
                second.attached()
                second.take(5), first.take(5)


def test_unused_name_is_free():
    """A named feed that is only kept warm makes way for another one of that name."""
    with serve() as feedd:
        first = consumer.read(feedd, "numbers", 10, share="job")
        second = consumer.read(feedd, "numbers", 25, share="job", shuffle=True)
        assert (len(first), len(second)) == (50, 20)


def test_names_that_are_none():
    with serve() as feedd:
        for name in ("a/b", "job 1", "ä", "x" * 63 + "y", "a\nb"):
            consumer.refused(feedd, "EINVAL", "share" if len(name) < 64 else "name", share=name)
        assert consumer.read(feedd, "numbers", 10, share="x" * 63)


# ---- Slow ones ---------------------------------------------------------------------------------------------


def test_slow_one_holds_the_others_up_and_nobody_loses_anything():
    with serve(ring="32K") as feedd:
        readers = [
            consumer.Consumer(feedd, "numbers", 10, share="job", wait_for=2, epochs=2, shuffle=True, sleep_us=sleep)
            for sleep in (0, 8000)
        ]  # fmt: skip
        fast, slow = (reader.finish() for reader in readers)
        assert [batch["crc"] for batch in fast] == [batch["crc"] for batch in slow]
        assert expected.check_exactly_once(SAMPLES, slow) == 2
        assert feed(feedd)["loader_counters"]["samples"] == 2 * SAMPLES


def check_detached(instance, good, wait_s=1.0):
    """The good one waits for the lag that is allowed, then continues to its end without missing a batch."""
    batches = good.finish()
    assert time.monotonic() - good.begun > 0.8 * wait_s, "nobody was waited for"
    assert expected.check_exactly_once(SAMPLES, batches) == 2
    assert feed(instance)["feed_counters"]["consumers_detached"] == 1


def test_waiting_for_others_takes_a_share():
    """Without one nobody could ever come, whether libfeed or the daemon is asked."""
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=100)
        feedd.start()
        consumer.refused(feedd, "EINVAL", "wait_for 2 needs a share", wait_for=2)
        consumer.refused(feedd, "EINVAL", "wait_for 2 needs a share", wait_for=2, world_size=2, rank=1)
        with feedd.client() as session:
            session.hello()
            session.send("attach", dataset="numbers", batch_size=10, wait_for=3)
            error = session.expect_closed()
            assert error["code"] == errno.EINVAL and "wait_for 3 needs a share" in error["text"], error
        consumer.read(feedd, "numbers", 10, wait_for=1)


SHARED = {"share": "job", "wait_for": 2, "max_lag": 1, "epochs": 2, "shuffle": True}


BY_HAND = {
    "dataset": "numbers", "batch_size": 10, "share": "job", "wait_for": 2, "max_lag_s": 1, "epochs": 2, "shuffle": True,
}  # fmt: skip


def good_one(instance, **options):
    begun = time.monotonic()
    good = consumer.Consumer(instance, "numbers", 10, **{**SHARED, **options})
    good.begun = begun
    return good


def test_one_that_never_releases_is_detached():
    with serve() as feedd:
        good = good_one(feedd)
        with consumer.Consumer(feedd, "numbers", 10, step=True, prefetch=2, **SHARED) as bad:
            bad.attached()
            held = [bad.next(), bad.next()]
            bad.next_fails("ENOBUFS", timeout_ms=100)
            check_detached(feedd, good)
            bad.next_fails("ETIME", "max_lag", "1 s")
            # What it held has been reused by now, and it is told so on release.
            bad.command("release", held[0]["number"])
            bad.expect_error("ETIME")


def test_one_that_is_stopped_is_detached():
    with serve() as feedd:
        good = good_one(feedd)
        with consumer.Consumer(feedd, "numbers", 10, step=True, **SHARED) as bad:
            bad.attached()
            bad.next()
            os.kill(bad.pid, signal.SIGSTOP)
            check_detached(feedd, good)
            os.kill(bad.pid, signal.SIGCONT)
            codes = []
            for _ in range(1100):  # it may have batches in hand that it can still see
                bad.command("next", 5000)
                if (event := bad.event())["event"] == "error":
                    codes.append(event["code"])
                    break
            assert codes == ["ETIME"], codes


def test_one_that_never_reads_its_socket_is_detached():
    with serve() as feedd, feedd.client() as bad:
        bad.hello()
        bad.send("attach", **BY_HAND)
        check_detached(feedd, good_one(feedd))
        assert bad.expect_closed()["code"] == 62


def test_one_that_only_says_it_waits_is_detached():
    """It holds everything it may and claims to wait for more: that must not hold up the others indefinitely."""
    with serve() as feedd, feedd.client() as bad:
        bad.hello()
        bad.send("attach", prefetch=2, **BY_HAND)
        bad.expect("attached")
        good = good_one(feedd)
        bad.expect("grant")
        bad.send("release", slots=[], waiting=True)
        check_detached(feedd, good)


def test_one_batch_that_is_never_released_holds_nobody_up():
    """It works on, but for one batch that it never gives back: the others have room enough, whatever the prefetch."""
    with serve() as feedd:
        patient = {"max_lag": int(5 * harness.SLOWNESS)}
        good = good_one(feedd, **patient)
        with consumer.Consumer(feedd, "numbers", 10, step=True, prefetch=4, **{**SHARED, **patient}) as bad:
            bad.attached()
            held = bad.next()
            bad.take(99)
            bad.next_ends()
            assert expected.check_exactly_once(SAMPLES, good.finish()) == 2
            assert bad.hashes(held) == held["crc"]
        assert feed(feedd)["feed_counters"]["consumers_detached"] == 0


def test_slow_one_within_its_time_is_not_detached():
    with serve(ring="32K") as feedd:
        with sharing(feedd, {"prefetch": 1}, {"prefetch": 1}, max_lag=int(3 * harness.SLOWNESS)) as (fast, slow):
            batch = slow.next()
            fast.take(2)
            fast.command("next", 10000)
            time.sleep(1.5)
            slow.release(batch)
            slow.take(5)
            fast.expect("batch")
        assert feed(feedd)["feed_counters"]["consumers_detached"] == 0


def test_lone_consumer_may_be_as_slow_as_it_likes():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, max_lag=1, prefetch=3) as reader:
            reader.attached()
            batches = [reader.next() for _ in range(3)]
            time.sleep(2)
            for batch in batches:
                assert reader.hashes(batch) == batch["crc"], "a batch has changed under its holder"
                reader.release(batch)
            reader.take(10)


def test_held_batch_stays_as_it_is():
    """While one holds a batch, others come and go and the ring turns over many times; not a byte of it changes."""
    with serve(ring="64K") as feedd:
        with sharing(feedd, {"prefetch": 4}, {"prefetch": 4}, max_lag=30) as (first, second):
            held = first.next()
            for _ in range(3):
                first.take(1), second.take(1)
            assert first.hashes(held) == held["crc"]
            first.release(held)
            first.next(), second.take(1)


def test_releases_out_of_order():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=2, prefetch=6, shuffle=True) as reader:
            reader.attached()
            batches, held = [], []
            for number in range(100):
                held.append(reader.next())
                batches.append(held[-1])
                if len(held) == 6:
                    for place in (4, 0, 2, 1):
                        reader.release(held.pop(place if number % 2 else 0))
            for batch in reversed(held):
                reader.release(batch)
            reader.next_ends()
            assert expected.check_exactly_once(SAMPLES, batches) == 2


def test_release_of_what_is_not_held():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True) as reader:
            reader.attached()
            batch = reader.next()
            reader.release(batch)
            reader.command("release", batch["number"])
            reader.expect_error("EINVAL", "not held")
            reader.take(3)
