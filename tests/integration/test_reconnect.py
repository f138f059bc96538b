"""The daemon is killed, restarted or upgraded under running consumers: they come back and go on, nothing lost, nothing
twice."""

import contextlib
import json
import os
import signal
import threading
import time

import consumer
import data
import expected
import harness

SAMPLES = 1000
SHAPE = {"epochs": 3, "shuffle": True, "seed": 17, "reconnect_timeout": 15000}


def serve(**settings):
    instance = harness.Instance(**{"ring": "64K", **settings})
    instance.path = data.add_records(instance, samples=SAMPLES, size=64)
    instance.content = expected.read_records([instance.path], 64, {"x": (0, 64)})
    return instance.start()


def kill(instance):
    instance.process.kill()
    instance.process.wait()


def check_whole(instance, batches):
    """Each sample once an epoch, in the order of one uninterrupted run, with the right bytes."""
    right = expected.run_batches(SAMPLES, 10, epochs=3, shuffle=True, seed=17)
    assert [batch["samples"] for batch in batches] == [batch["samples"] for batch in right]
    expected.check_bytes(instance.content, batches)


def test_daemon_is_killed_and_comes_back():
    with serve() as feedd:
        reader = consumer.Consumer(feedd, "numbers", 10, sleep_us=3000, **SHAPE)
        reader.attached()
        for pause in (0.2, 0.1, 0.3):
            time.sleep(pause)
            kill(feedd)
            feedd.start()
        check_whole(feedd, reader.finish())


def test_daemon_is_restarted_in_good_order():
    with serve() as feedd:
        reader = consumer.Consumer(feedd, "numbers", 10, sleep_us=3000, **SHAPE)
        reader.attached()
        time.sleep(0.3)
        feedd.stop()
        time.sleep(0.5)
        feedd.start()
        check_whole(feedd, reader.finish())


def test_batches_in_hand_stay_readable():
    """Those of the daemon before, and of the one before that; they can be given back late and in any order."""
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, prefetch=4, **SHAPE) as reader:
            reader.attached()
            batches, held = [], []
            for _ in range(3):
                for _ in range(2):
                    held.append(reader.next())
                    batches.append(held[-1])
                kill(feedd)
                feedd.start()
            batches += [reader.next()]
            for batch in held:
                assert reader.hashes(batch) == batch["crc"]
            for batch in (held[3], held[0], held[5], held[4], held[1], batches[-1], held[2]):
                reader.release(batch)
            batches += reader.take(300 - len(batches))
            reader.next_ends()
            check_whole(feedd, batches)


def test_sharing_consumers_stay_together():
    """They come back one after the other, and the first does not run away from the second."""
    with serve() as feedd:
        options = {"share": "job", "wait_for": 3, **SHAPE}
        readers = [consumer.Consumer(feedd, "numbers", 10, sleep_us=1000 + 2000 * number, **options) for number in range(3)]
        for reader in readers:
            reader.attached()
        for _ in range(2):
            time.sleep(0.3)
            kill(feedd)
            feedd.start()
        for reader in readers:
            check_whole(feedd, reader.finish())


def step_apart(instance, ahead, behind, **options):
    """Two step by step, the first further on; the daemon is killed, and the first comes back first. Returns what each of
    them has got in the end."""
    options = {"share": "job", "wait_for": 2, "step": True, "prefetch": 1, **SHAPE, **options}
    with consumer.Consumer(instance, "numbers", 10, **ahead, **options) as one:
        with consumer.Consumer(instance, "numbers", 10, **behind, **options) as two:
            one.attached(), two.attached()
            runs = [one.take(60), two.take(3)]
            kill(instance)
            instance.start()
            runs[0] += one.take(2)  # other batches than those of the other one, for which it does not wait
            runs[1] += run_on(two, "end")
            runs[0] += run_on(one, "end")
            return runs


def run_on(reader, stop, timeout_ms=20000):
    """Its batches up to the end or the error that is wanted."""
    batches = []
    while True:
        reader.command("next", timeout_ms)
        if (event := reader.event())["event"] != "batch":
            assert stop in (event["event"], event.get("code")), event
            return batches
        reader.release(event)
        batches.append(event)


def clients(instance):
    """{pid: entry in feedctl clients} of the consumers."""
    listed = json.loads(instance.ctl("clients", "--json").stdout)
    return {client["pid"]: client for client in listed if client["state"] in ("attaching", "attached")}


def come_back(instance, reader):
    """Takes the batches that it has in hand. It then finds the daemon again, for which it looks only while it waits for a
    batch, but cannot continue yet."""
    batches = []

    def is_back():
        batches.extend(run_on(reader, "EAGAIN", 300))
        return reader.pid in clients(instance)

    harness.eventually(is_back, 10, "it is back")
    return batches


def test_rank_that_is_ahead_comes_back_first():
    """By more than an epoch; the slower one still finds its place."""
    with serve() as feedd:
        runs = step_apart(feedd, {"rank": 0}, {"rank": 1}, world_size=2)
        assert expected.check_exactly_once(SAMPLES, runs[0] + runs[1]) == 3
        for rank, run in enumerate(runs):
            options = {"epochs": 3, "shuffle": True, "seed": 17, "world_size": 2, "rank": rank}
            expected.check_run(feedd.content, run, 10, **options)


def test_ranks_in_step_wait_for_nobody():
    """One has batches in hand, and does not look for the daemon before the other has its next one."""
    with serve() as feedd:
        options = {"share": "job", "wait_for": 2, "world_size": 2, "step": True, **SHAPE}
        with consumer.Consumer(feedd, "numbers", 10, rank=0, prefetch=4, **options) as one:
            with consumer.Consumer(feedd, "numbers", 10, rank=1, prefetch=1, **options) as two:
                one.attached(), two.attached()
                runs = [one.take(5), two.take(5)]
                kill(feedd)
                feedd.start()
                began = time.monotonic()
                for _ in range(20):
                    for reader, run in zip((one, two), runs, strict=True):
                        run += reader.take(1)
                assert time.monotonic() - began < 5 * harness.SLOWNESS
                for reader, run in zip((one, two), runs, strict=True):
                    run += run_on(reader, "end")
        assert expected.check_exactly_once(SAMPLES, runs[0] + runs[1]) == 3


def test_ranks_in_which_two_share_wait_for_all():
    """Two of rank 0 and one of rank 1: the two have to be together again, so all are waited for."""
    with serve() as feedd:
        options = {"share": "job", "wait_for": 3, "world_size": 2, "step": True, "prefetch": 1, **SHAPE}
        with contextlib.ExitStack() as stack:
            readers = [
                stack.enter_context(consumer.Consumer(feedd, "numbers", 10, rank=rank, **options)) for rank in (0, 0, 1)
            ]
            for reader in readers:
                reader.attached()
            runs = [reader.take(3) for reader in readers]
            kill(feedd)
            feedd.start()
            runs[2] += come_back(feedd, readers[2])
            runs[0] += come_back(feedd, readers[0])
            runs[1] += readers[1].take(2)  # one that it had, and one for which it has to be back
            runs[2] += run_on(readers[2], "end")
            while len(runs[0]) < len(runs[2]) or len(runs[1]) < len(runs[2]):
                behind = min((0, 1), key=lambda number: len(runs[number]))
                runs[behind] += readers[behind].take(1)
        assert [batch["samples"] for batch in runs[0]] == [batch["samples"] for batch in runs[1]]
        assert expected.check_exactly_once(SAMPLES, runs[0] + runs[2]) == 3


def test_rank_that_is_ahead_in_a_resumed_epoch_comes_back_first():
    """The run began at sample 35, so its first epoch is cut at 35, 55, ..."""
    with serve() as feedd:
        options = {key: SHAPE[key] for key in ("shuffle", "seed")}
        with consumer.Consumer(feedd, "numbers", 5, step=True, **options) as first:
            first.attached()
            before = first.take(7)
            token = first.token()
        options = {"share": "job", "wait_for": 2, "world_size": 2, "step": True, "prefetch": 1, **SHAPE, "resume": token}
        with consumer.Consumer(feedd, "numbers", 10, rank=0, **options) as one:
            with consumer.Consumer(feedd, "numbers", 10, rank=1, **options) as two:
                one.attached(), two.attached()
                batches = before + one.take(20) + two.take(2)
                kill(feedd)
                feedd.start()
                batches += one.take(2)
                batches += run_on(two, "end")
                batches += run_on(one, "end")
        assert expected.check_exactly_once(SAMPLES, batches) == 3


def test_sharer_in_the_next_epoch_comes_back_before_one_in_the_resumed_epoch():
    """The run did not begin at an epoch's start; only consumers that were in it know where."""
    with serve() as feedd:
        options = {key: SHAPE[key] for key in ("shuffle", "seed")}
        with consumer.Consumer(feedd, "numbers", 7, step=True, **options) as first:
            first.attached()
            before = first.take(3)
            token = first.token()
        options = {"share": "job", "wait_for": 2, "step": True, "prefetch": 2, **SHAPE, "resume": token}
        with consumer.Consumer(feedd, "numbers", 10, **options) as ahead:
            with consumer.Consumer(feedd, "numbers", 10, **options) as behind:
                ahead.attached(), behind.attached()
                slow, fast = list(before), list(before)
                for _ in range(11):  # together, as the ring has room for 16 batches
                    slow += behind.take(8)
                    fast += ahead.take(8)
                fast += ahead.take(12)
                assert fast[-1]["epoch"] > slow[-1]["epoch"], "the one ahead is not in the next epoch"
                kill(feedd)
                feedd.start()
                fast += come_back(feedd, ahead)  # what it had; then it waits for the other
                left = 3 * SAMPLES - sum(len(batch["samples"]) for batch in slow)
                lead = len(fast) - len(slow)
                while left > 0:  # in turn, as the ring is small
                    slow += behind.take(1)
                    left -= len(slow[-1]["samples"])
                    if lead > 0:
                        lead -= 1
                    elif len(fast) < len(slow):
                        fast += ahead.take(1)
                slow += run_on(behind, "end")
                fast += run_on(ahead, "end")
        assert expected.check_exactly_once(SAMPLES, fast) == 3
        assert expected.check_exactly_once(SAMPLES, slow) == 3


def test_ranks_come_back_at_the_end_of_an_epoch():
    """One is after the last batch of an epoch, the other before it."""
    with serve() as feedd:
        options = {"share": "job", "wait_for": 2, "world_size": 2, **SHAPE}
        readers = [
            consumer.Consumer(feedd, "numbers", 10, rank=rank, sleep_us=2000 + 3000 * rank, **options) for rank in range(2)
        ]  # fmt: skip
        for reader in readers:
            reader.attached()
        time.sleep(0.25)
        kill(feedd)
        feedd.start()
        runs = [reader.finish() for reader in readers]
        assert expected.check_exactly_once(SAMPLES, [batch for run in runs for batch in run]) == 3
        for run in runs:
            expected.check_bytes(feedd.content, run)


@harness.limit(120)
def test_one_that_never_comes_back_is_not_waited_for_without_end():
    with serve() as feedd:
        options = {"share": "job", "wait_for": 2, "step": True, "max_lag": 1, "prefetch": 1, **SHAPE}
        with consumer.Consumer(feedd, "numbers", 10, **options) as one:
            with consumer.Consumer(feedd, "numbers", 10, **options) as two:
                one.attached(), two.attached()
                batches = one.take(3)
                two.take(3)
                kill(feedd)
                two.kill()
            feedd.start()
            # The clock starts when the first is back: before that a GPU may take its time to start.
            rest, begun = [], time.monotonic()
            reading = threading.Thread(target=lambda: rest.extend(run_on(one, "end", 120_000)))
            reading.start()
            harness.eventually(
                lambda: any(client["state"] == "attached" for client in clients(feedd).values()), 60, "the first is back",
            )  # fmt: skip
            seen = time.monotonic()
            reading.join()
            now = time.monotonic()
            assert now - begun > 0.5 and now - seen < 5 * harness.SLOWNESS, "it was not waited for, or for too long"
            check_whole(feedd, batches + rest)


def test_token_after_coming_back():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, **SHAPE) as reader:
            reader.attached()
            before = reader.take(50)
            kill(feedd)
            feedd.start()
            before += reader.take(73)
            token = reader.token()
        options = {key: SHAPE[key] for key in ("epochs", "shuffle", "seed")}
        check_whole(feedd, before + consumer.read(feedd, "numbers", 10, resume=token, **options))


def test_loss_is_told_when_reconnecting_is_off():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, **{**SHAPE, "reconnect_timeout": -1}) as reader:
            reader.attached()
            kill(feedd)
            assert drain(reader)["code"] == "ECONNRESET"
            # A transfer process takes a moment to leave its GPU.
            harness.eventually(lambda: not feedd.processes(), 10, "what the daemon had started has ended")
            feedd.start()


def drain(reader):
    """Takes what it still has in hand; returns the error after that."""
    while True:
        reader.command("next", 5000)
        if (event := reader.event())["event"] != "batch":
            return event
        reader.release(event)


def test_daemon_that_does_not_come_back():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, **{**SHAPE, "reconnect_timeout": 700}) as reader:
            reader.attached()
            kill(feedd)
            begun = time.monotonic()
            error = drain(reader)
            assert error["code"] == "ECONNRESET" and str(feedd.socket) in error["text"], error
            assert 0.5 < time.monotonic() - begun < 3 * harness.SLOWNESS
            feedd.start()


def test_waiting_for_the_daemon_has_a_time_limit_too():
    """feed_next with a timeout says EAGAIN in time, also when it is the daemon that is not there."""
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, prefetch=1, **SHAPE) as reader:
            reader.attached()
            reader.take(3)
            kill(feedd)
            for timeout_ms in (0, 300):
                for _ in range(3):
                    begun = time.monotonic()
                    reader.command("next", timeout_ms)
                    event = reader.event()
                    if event["event"] == "batch":  # the one it had in hand
                        reader.release(event)
                        continue
                    assert event["code"] == "EAGAIN", event
                    assert time.monotonic() - begun < timeout_ms / 1000 + harness.SLOWNESS
            feedd.start()
            reader.take(10)


def test_data_that_has_changed_meanwhile():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, **SHAPE) as reader:
            reader.attached()
            reader.take(5)
            kill(feedd)
            data.write_records(feedd.path, samples=SAMPLES + 7, size=64)
            feedd.start()
            assert drain(reader)["code"] == "ESTALE"


def test_daemon_that_lacks_descriptors_for_a_while():
    with serve() as feedd, consumer.Consumer(feedd, "numbers", 10, step=True, prefetch=1, **SHAPE) as reader:
        reader.attached()
        batches = [*reader.take(5), reader.next()]  # and nothing else has been granted
        kill(feedd)
        feedd.start()
        harness.prlimit(feedd.process.pid, "nofile", feedd.descriptors() + 2)  # for a session, but not for a feed
        reader.release(batches[-1])
        reader.command("next", 20000)
        harness.eventually(lambda: feedd.read_log().count("Too many open files") > 2, 10, "several attempts fail")
        harness.prlimit(feedd.process.pid, "nofile", 1024)
        batches.append(reader.expect("batch"))
        right = expected.run_batches(SAMPLES, 10, epochs=3, shuffle=True, seed=17)
        assert [batch["samples"] for batch in batches] == [batch["samples"] for batch in right[:7]]


def test_daemon_that_hangs_for_a_while():
    with serve() as feedd:
        reader = consumer.Consumer(feedd, "numbers", 10, sleep_us=1000, **SHAPE)
        reader.attached()
        os.kill(feedd.process.pid, signal.SIGSTOP)
        time.sleep(1)
        os.kill(feedd.process.pid, signal.SIGCONT)
        check_whole(feedd, reader.finish())
