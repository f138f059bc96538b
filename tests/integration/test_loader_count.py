"""How many loaders a feed has: by hand, and as many as it needs."""

import contextlib
import os
import re
import signal
import time

import consumer
import data
import devices
import expected
import harness
import users
from test_verdict import reading

SAMPLES, SIZE = 4000, 64
# A loader that was to retire, and what is said of why it was killed.
NO_LONGER_NEEDED = re.compile(
    r"loader \d+ of feed 1, which was no longer needed, was killed by signal 9 \(Killed\) after [\d.]+ s(?:, (because .*))?$",
    re.MULTILINE,
)


@contextlib.contextmanager
def serve(**settings):
    with harness.Instance(**{"ring": "64K", "io": "uring", **settings}) as feedd:
        feedd.path = data.add_records(feedd, samples=SAMPLES, size=SIZE)
        data.add_records(feedd, "slow", samples=1000, size=SIZE, io_delay_us=20_000)
        yield feedd.start()


def loaders(feedd):
    return len(feedd.children_called("loader"))


def await_loaders(feedd, count, seconds=10):
    harness.eventually(lambda: loaders(feedd) == count, seconds, f"{count} loaders")
    harness.eventually(lambda: devices.feed(feedd)["loaders"] == count, 2, f"{count} loaders in the statistics")


def test_as_many_as_are_asked_for():
    """Batches stay as they were, whatever happens to the number of loaders, and none of them is read again."""
    with serve(loaders=2) as feedd:
        content = expected.read_records([feedd.path], SIZE, {"x": (0, SIZE)})
        shape = {"epochs": 2, "shuffle": True, "seed": 5}
        with consumer.Consumer(feedd, "numbers", 10, share="job", step=True, **shape) as reader:
            reader.attached()
            batches = reader.take(20)
            for count in (5, 1, 3, 8, 2):
                said = feedd.ctl("loaders", "job", str(count)).stdout
                assert said == f"feed 1 has {count} loader{'s' * (count > 1)} from now on\n", said
                batches += reader.take(60)
                await_loaders(feedd, count)
            batches += reader.take(800 - len(batches))
            reader.next_ends()
        expected.check_run(content, batches, 10, **shape)
        assert devices.feed(feedd)["feed_counters"]["children_replaced"] == 0
        assert "again" not in feedd.read_log(), feedd.read_log()


def test_a_loader_that_dies_is_replaced_as_before():
    with serve(loaders=2) as feedd, reading(feedd, batch=10):
        harness.eventually(lambda: loaders(feedd) == 2, 5, "two loaders")
        feedd.ctl("loaders", "1", "3")
        await_loaders(feedd, 3)
        os.kill(feedd.children_called("loader")[0], signal.SIGKILL)
        harness.eventually(lambda: devices.feed(feedd)["feed_counters"]["children_replaced"] == 1, 5, "a replacement")
        await_loaders(feedd, 3)


def test_one_that_does_not_retire_is_ended():
    """It stands still, so it does not hear that it is to retire; another one reads what it had claimed."""
    with serve(loaders=2, stop_timeout=1, loader_timeout=2) as feedd, reading(feedd, batch=10):
        harness.eventually(lambda: loaders(feedd) == 2, 5, "two loaders")
        for pid in feedd.children_called("loader"):
            os.kill(pid, signal.SIGSTOP)
        feedd.ctl("loaders", "1", "1")
        await_loaders(feedd, 1, 15)
        gone = harness.eventually(lambda: NO_LONGER_NEEDED.findall(feedd.read_log()), 5, "a line about its end")
        assert gone == ["because it did not end by itself"], feedd.read_log()
        before = devices.feed(feedd)["feed_counters"]["batches"]
        harness.eventually(lambda: devices.feed(feedd)["feed_counters"]["batches"] > before, 10, "more batches")


def test_the_end_of_one_that_was_to_retire_is_in_the_log():
    """It is killed before it has retired. It counts no more, so it is not among those that were replaced."""
    with serve(loaders=3) as feedd, reading(feedd, batch=10):
        harness.eventually(lambda: loaders(feedd) == 3, 5, "three loaders")
        pids = feedd.children_called("loader")
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        feedd.ctl("loaders", "1", "1")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        harness.eventually(lambda: len(NO_LONGER_NEEDED.findall(feedd.read_log())) == 2, 5, "two lines in the log")
        harness.eventually(lambda: devices.feed(feedd)["feed_counters"]["children_replaced"] == 1, 5, "one is replaced")
        await_loaders(feedd, 1)
        assert NO_LONGER_NEEDED.findall(feedd.read_log()) == ["", ""], feedd.read_log()
        assert devices.feed(feedd)["feed_counters"]["children_replaced"] == 1
        assert feedd.read_log().count("was killed by signal 9") == 3, feedd.read_log()


def test_what_cannot_be():
    with serve(loaders=2) as feedd, reading(feedd, "numbers", "--share", "job", batch=10):
        harness.eventually(lambda: loaders(feedd) == 2, 5, "two loaders")
        for arguments, status, word in (
            (("job", "0"), 2, "1"), (("job", "65"), 2, "64"), (("job", "many"), 2, "many"), (("job",), 2, "auto"),
            (("job", "1", "2"), 2, "too many"), (("other", "1"), 1, "there is no feed other"),
        ):  # fmt: skip
            done = feedd.ctl("loaders", *arguments, check=False)
            assert done.returncode == status and word in done.stderr, (arguments, done)
        with feedd.client() as client:
            client.hello()
            client.send("command", kind=3, name="1", count=65)
            assert client.expect("error")["code"] == 22
            client.send("command", kind=3, name="", count=1)
            assert client.expect("error")["code"] == 22
        assert loaders(feedd) == 2


def test_other_users_may_not():
    with users.serve(loaders=2) as feedd:
        with reading(feedd, "numbers", "--share", "job", batch=10):
            done = feedd.ctl("loaders", "1", "3", check=False, **users.AS_NOBODY)
            assert done.returncode == 1 and "only root and the daemon's own user" in done.stderr, done


@harness.limit(60)
def test_auto_gives_slow_storage_more():
    with serve(loaders="auto", queue_depth=1, ring="1M") as feedd, reading(feedd, "slow", batch=10):
        harness.eventually(lambda: loaders(feedd) >= 8, 20, "eight loaders or more")
        feedd.ctl("loaders", "1", "1")
        await_loaders(feedd, 1)
        time.sleep(2)
        assert loaders(feedd) == 1
        feedd.ctl("loaders", "1", "auto")
        harness.eventually(lambda: loaders(feedd) >= 4, 20, "four loaders or more")
        assert "loaders = auto" in feedd.ctl("status").stdout


@harness.limit(60)
def test_auto_takes_away_what_a_slow_consumer_does_not_need():
    with serve(loaders=6) as feedd, reading(feedd, "numbers", "--work", "20", batch=10):
        harness.eventually(lambda: loaders(feedd) == 6, 5, "six loaders")
        feedd.ctl("loaders", "1", "auto")
        await_loaders(feedd, 2, 20)
