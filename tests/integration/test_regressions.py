"""Defects that were found by reading and by attack, each with the steps that showed it."""

import contextlib
import errno
import os
import shutil
import time

import consumer
import data
import harness
import wire


def serve(wrap=(), **settings):
    instance = harness.Instance(**settings)
    try:
        instance.path = data.add_records(instance)
        return instance.start(wrap=wrap)
    except BaseException:
        instance.__exit__(AssertionError, None, None)
        raise


def attach(instance, expect="attached", **options):
    """A session that asks to attach; the answer's fields are in .answer."""
    session = instance.client()
    session.hello()
    session.send("attach", dataset="numbers", **{"batch_size": 10, **options})
    session.answer = session.expect(expect)
    return session


def feeds(instance):
    with instance.client() as session:
        session.hello()
        return session.query("FEEDS")["feeds"]


# ---- Hostile clients ---------------------------------------------------------------------------------------


def test_descriptor_that_nobody_asked_for_costs_no_processor_time():
    with serve() as feedd:
        before = feedd.cpu_seconds()
        for _ in range(3):
            with feedd.client() as session, open("/dev/null") as null:
                try:
                    session.send("hello", fds=[null.fileno()], version=wire.VERSION)
                except wire.Closed:
                    pass
                except PermissionError:  # the kernel has refused them; test_stalls.py has the other case on every kernel
                    continue
                assert session.expect_closed()["code"] == errno.EPROTO
                time.sleep(0.5)  # the session is kept open from this side
        used = feedd.cpu_seconds() - before
        assert used < 0.3 * harness.SLOWNESS, f"feedd was busy for {used:.2f} s over three sessions that it had ended"


def test_flood_of_questions_is_cut_off_once():
    with serve() as feedd:
        with feedd.client() as session:
            session.hello()
            question = wire.frame(wire.client_message("query", kind=wire.ENUMS["Query"]["STATUS"]))
            try:
                session.send_raw(question * 20000)
            except (wire.Closed, TimeoutError):
                pass
            harness.eventually(lambda: "does not read" in feedd.read_log(), 10, "the flood is noticed")
            time.sleep(0.5)
        lines = feedd.read_log().count("does not read")
        assert lines == 1, f"{lines} lines in the log for one session"


def test_feed_that_fails_while_many_join():
    """The sessions that waited for its ring join one after another: those after the failure are refused."""
    if harness.sanitized() or not shutil.which("strace"):
        harness.skip("needs strace, beside which the leak checker does not work")
    slowly = ("strace", "-D", "-o", "/dev/null", "-e", "trace=sendmsg", "-e", "inject=sendmsg:delay_enter=20000")
    with serve(slowly, user_sessions=400) as feedd, contextlib.ExitStack() as stack:
        os.truncate(feedd.path, 0)
        sessions = [stack.enter_context(feedd.client()) for _ in range(30)]
        for session in sessions:
            session.hello()
        for session in sessions:
            session.send("attach", dataset="numbers", batch_size=1000, prefetch=2000, share="job", wait_for=100)
        for session in sessions:
            assert session.expect_closed()["code"] == errno.EIO
        assert feedd.ctl("status").returncode == 0


# ---- Feeds that nobody uses --------------------------------------------------------------------------------


def test_request_that_can_never_be_met_leaves_warm_feeds_alone():
    with serve(ring_memory="8M", ring="64K") as feedd:
        attach(feedd, share="warm").close()
        harness.eventually(lambda: [row["state"] for row in feeds(feedd)] == ["idle"], 5, "the feed is idle")
        attach(feedd, "error", batch_size=1000, share="huge", ring_bytes=64 << 20).close()
        assert [row["name"] for row in feeds(feedd)] == ["warm"], feeds(feedd)


def test_attaching_again_finds_the_feed_that_is_being_made():
    with serve(ring_memory="1G", user_feeds=1) as feedd:
        first = feedd.client()
        first.hello()
        options = {"batch_size": 1000, "prefetch": 2000}  # a ring that takes a while
        first.send("attach", dataset="numbers", **options)
        first.close()
        attach(feedd, **options).close()


def test_new_user_of_a_warm_feed_sets_its_lag():
    with serve(ring="64K") as feedd:
        attach(feedd, share="job", max_lag_s=600).close()
        harness.eventually(lambda: [row["state"] for row in feeds(feedd)] == ["idle"], 5, "the feed is idle")
        slow = attach(feedd, share="job", wait_for=2, max_lag_s=1, prefetch=1)
        fast = attach(feedd, share="job", wait_for=2, max_lag_s=1, prefetch=1)
        drain(fast, 3 * harness.SLOWNESS)
        assert slow.expect_closed(5 * harness.SLOWNESS)["code"] == errno.ETIME
        fast.close()
        slow.close()


def test_warm_feed_for_fewer_ranks_stands_in_nobodys_way():
    with serve(ring="64K") as feedd:
        attach(feedd, share="job", world_size=4, local_world_size=2).close()
        harness.eventually(lambda: [row["state"] for row in feeds(feedd)] == ["idle"], 5, "the feed is idle")
        ranks = [attach(feedd, share="job", world_size=4, local_world_size=4, rank=rank) for rank in range(4)]
        for session in ranks:
            session.close()


def test_warm_feed_from_before_a_reload_is_not_adopted():
    with serve() as feedd:
        for share in ("job", ""):
            attach(feedd, share=share).close()
        harness.eventually(lambda: [row["state"] for row in feeds(feedd)] == ["idle"] * 2, 5, "the feeds are idle")
        feedd.datasets["numbers"]["io"] = "pread"
        feedd.write_config()
        feedd.ctl("reload")
        for share in ("job", ""):
            session = attach(feedd, share=share)
            session.expect("grant")
            row = next(row for row in feeds(feedd) if row["id"] == session.answer["feed"])
            assert row["reader"] == "pread", row
            session.close()


# ---- Who lags ----------------------------------------------------------------------------------------------


def drain(session, seconds):
    """Takes and gives back what comes for so long; returns how many batches that were."""
    deadline = time.monotonic() + seconds
    taken = 0
    while (left := deadline - time.monotonic()) > 0:
        try:
            body, grant = session.receive(left)
        except TimeoutError:
            break
        if body != "grant":
            raise AssertionError(f"{body}: {grant}")
        taken += len(grant["slots"])
        session.send("release", slots=grant["slots"], waiting=True)
    return taken


def test_consumer_that_is_done_does_not_lag():
    with serve(ring="64K") as feedd:
        share = {"share": "job", "wait_for": 3, "max_lag_s": 1, "prefetch": 1}
        slow = attach(feedd, **share)
        fast = attach(feedd, **share)
        done = attach(feedd, epochs=1, **share)
        granted = {}
        deadline = time.monotonic() + 10 * harness.SLOWNESS
        while not granted.get("done_ended") and time.monotonic() < deadline:
            for name, session in (("done", done), ("slow", slow), ("fast", fast)):
                try:
                    body, fields = session.receive(0.05)
                except TimeoutError:
                    continue
                if body == "end":
                    granted["done_ended"] = True
                elif body == "grant":
                    session.send("release", slots=fields["slots"], waiting=True)
        assert granted.get("done_ended")
        slow.expect("grant")
        drain(fast, 3 * harness.SLOWNESS)
        assert slow.expect_closed(5 * harness.SLOWNESS)["code"] == errno.ETIME
        try:
            body, fields = done.receive(0.5)
            raise AssertionError(f"the consumer that was done was told {body}: {fields}")
        except TimeoutError:
            pass
        for session in (done, slow, fast):
            session.close()


def test_only_the_one_furthest_behind_is_detached():
    with serve(ring="64K") as feedd:
        share = {"share": "job", "wait_for": 3, "max_lag_s": int(harness.SLOWNESS), "prefetch": 1}
        slow, fast, busy = (attach(feedd, **share) for _ in range(3))
        last = feeds(feedd)[0]["slots"] - 1  # that there is room for while `slow` keeps the first one
        slow.expect("grant")
        while True:
            grants = [session.expect("grant") for session in (fast, busy)]
            fast.send("release", slots=grants[0]["slots"], waiting=True)
            if grants[0]["sequence"] == last:
                break
            busy.send("release", slots=grants[1]["slots"], waiting=True)
        assert slow.expect_closed(5 * harness.SLOWNESS)["code"] == errno.ETIME
        busy.send("release", slots=grants[1]["slots"], waiting=True)
        assert busy.expect("grant")["sequence"] == last + 1
        for session in (slow, fast, busy):
            session.close()


# ---- A run that another one has followed -------------------------------------------------------------------

BATCH = 512


class Overtaken:
    """A feed of two consumers. One is busy with a batch for longer than max_lag, and the other leaves once it has had all that
    there is. A third begins a run of its own in the same ring, at another position."""

    def __init__(self, instance, number):
        self.instance = instance
        self.shape = {"share": f"job{number}", "max_lag": int(harness.SLOWNESS), "wait_for": 2, "prefetch": 2}
        self.by_hand = {**self.shape, "max_lag_s": self.shape["max_lag"]}
        del self.by_hand["max_lag"]
        self.other = instance.client()
        self.other.hello()
        self.other.send("attach", dataset="numbers", batch_size=BATCH, **self.by_hand)
        self.slow = consumer.Consumer(instance, "numbers", BATCH, step=True, **self.shape)
        self.slow.attached()
        self.other.expect("attached")
        self.batches = []
        while len(self.batches) < number:
            self.let_other_take()
            self.batches += self.slow.take(1)
        self.batches.append(self.slow.next())
        self.token = self.slow.token()

    def let_other_take(self):
        with contextlib.suppress(TimeoutError):
            for _ in range(20):
                slots = self.other.expect("grant", 0.02)["slots"]
                self.other.send("release", slots=slots, waiting=True)

    def begin_another_run(self, token):
        self.other.close()
        self.third = self.instance.client()
        self.third.hello()
        self.third.send("attach", dataset="numbers", batch_size=BATCH, share=self.shape["share"], resume=token)
        self.third.expect("attached")
        self.third.expect("grant")

    def check(self):
        self.slow.next_fails("ETIME", "max_lag")
        assert self.slow.token() == self.token
        expected = iter(range(BATCH * len(self.batches)))
        assert all(sample == next(expected) for batch in self.batches for sample in batch["samples"])
        self.slow.kill()
        self.third.close()


@harness.host_memory
def test_detached_consumer_takes_nothing_of_another_run():
    """The new run numbers its batches from 0 again, in the same slots: by number and rank they look like those of the old."""
    with harness.Instance(ring="64K", linger=60) as feedd:
        data.add_records(feedd, samples=20_000)
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 100, step=True) as reader:
            reader.attached()
            reader.take(1)
            token = reader.token()
        feeds_overtaken = [Overtaken(feedd, number) for number in range(4)]

        def all_are_detached():
            for feed in feeds_overtaken:
                feed.let_other_take()
            counters = [feed["feed_counters"]["consumers_detached"] for feed in feedd.statistics()["feeds"]]
            return sum(counters) == len(feeds_overtaken)

        harness.eventually(all_are_detached, 10, "all that are busy are detached")
        for feed in feeds_overtaken:
            feed.begin_another_run(token)
        for feed in feeds_overtaken:
            feed.check()
