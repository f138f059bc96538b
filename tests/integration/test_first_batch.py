"""The first batch of a shared feed waits until all that it waits for know that they have attached."""

import contextlib
import time

import consumer
import harness
from test_reconnect import SHAPE, check_whole, kill, serve
from test_return import check_no_batch, in_turn

SHARED = {"share": "job", "wait_for": 3, "step": True, "prefetch": 2, "max_lag": 4, **SHAPE}
BY_HAND = {
    "batch_size": 10, "shuffle": True, "seed": 17, "epochs": 3, "share": "job", "wait_for": 3, "max_lag_s": 4, "confirms": True,
}  # fmt: skip


@contextlib.contextmanager
def two_and_one_by_hand(feedd):
    """Two consumers, and a session that has attached as the third and has not said so."""
    with contextlib.ExitStack() as stack:
        two = [stack.enter_context(consumer.Consumer(feedd, "numbers", 10, **SHARED)) for _ in range(2)]
        for reader in two:
            reader.attached()
        third = stack.enter_context(feedd.client())
        assert third.attach("numbers", **BY_HAND)["sequence"] == 0
        yield (*two, third)


@harness.quick_attach
def test_one_that_the_daemon_was_lost_before_it_knew_of_its_place_misses_nothing():
    """It comes back as a newcomer, since it does not know better."""
    with serve() as feedd, two_and_one_by_hand(feedd) as (one, two, third):
        check_no_batch(third)
        one.next_fails("EAGAIN", timeout_ms=200)
        kill(feedd)
        third.close()
        feedd.start()
        for reader in (one, two):
            reader.next_fails("EAGAIN", timeout_ms=500)
        with consumer.Consumer(feedd, "numbers", 10, **SHARED) as again:
            again.attached()
            for run in in_turn(one, two, again):
                check_whole(feedd, run)


@harness.quick_attach
def test_an_empty_release_says_that_it_knows():
    with serve() as feedd, two_and_one_by_hand(feedd) as (one, two, third):
        check_no_batch(third)
        third.send("release", slots=[])
        while not (grant := third.expect("grant"))["slots"]:
            continue
        assert grant["sequence"] == 0
        for reader in (one, two):
            assert reader.next()["sequence"] == 0


@harness.quick_attach
def test_one_that_never_says_so_is_detached():
    with serve() as feedd, two_and_one_by_hand(feedd) as (one, two, third):
        begun = time.monotonic()
        for reader in (one, two):
            assert reader.next()["sequence"] == 0
        lasted = time.monotonic() - begun
        assert 3 < lasted < 4 + 3 * harness.SLOWNESS, f"it took {lasted:g} s"
        error = third.expect_closed()
        assert error["code"] == 62 and "did not confirm that it has attached for 4 s" in error["text"], error
        assert feedd.statistics()["feeds"][0]["feed_counters"]["consumers_detached"] == 1


@harness.quick_attach
def test_nobody_is_detached_while_others_are_missing():
    with serve() as feedd, feedd.client() as early:
        early.attach("numbers", **{**BY_HAND, "max_lag_s": 1})
        time.sleep(1.5)
        with consumer.Consumer(feedd, "numbers", 10, **{**SHARED, "max_lag": 1}) as reader:
            reader.attached()
            early.send("release", slots=[])
            check_no_batch(early)


@harness.quick_attach
def test_draining_waits_for_one_that_has_still_to_say_so():
    with serve() as feedd, two_and_one_by_hand(feedd) as (one, two, third):
        feedd.ctl("drain")
        check_no_batch(third)
        third.send("release", slots=[])
        for reader in (one, two):
            assert reader.next()["sequence"] == 0
            reader.kill()
        third.close()
        assert feedd.wait(5) == 0
        feedd.check_nothing_left()
        feedd.process = None
