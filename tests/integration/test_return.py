"""The daemon is lost under consumers that share a feed, and not all of them return at once, or at all."""

import contextlib
import time

import consumer
import data
import harness
from test_reconnect import SAMPLES, SHAPE, check_whole, clients, come_back, kill, run_on, serve

SHARED = {"share": "job", "step": True, "prefetch": 2, **SHAPE}
GRACE_S = 5  # how long those that have returned wait for the others: RETURN_MOST_NS


@contextlib.contextmanager
def sharing(instance, *each, **options):
    """Consumers step by step; `each` has what is different for each of them."""
    with contextlib.ExitStack() as stack:
        readers = []
        for own in each:
            given = {"wait_for": len(each), **SHARED, **options, **own}
            readers.append(stack.enter_context(consumer.Consumer(instance, "numbers", 10, **given)))
            readers[-1].attached()
        yield readers


def in_turn(*readers):
    """The batches that each of them gets up to its end; none of them may be ahead of another by more than the ring has."""
    runs = [[] for _ in readers]
    left = list(zip(readers, runs, strict=True))
    while left:
        for pair in list(left):
            reader, run = pair
            reader.command("next", 20000)
            event = reader.event()
            if event["event"] == "end":
                left.remove(pair)
                continue
            assert event["event"] == "batch", event
            reader.release(event)
            run.append(event)
    return runs


def restart(instance):
    kill(instance)
    instance.start()


def await_company(instance, count):
    """Until only so many are attached; a moment later the others have been told."""
    harness.eventually(lambda: len(clients(instance)) == count, 10, f"{count} consumers are left")
    time.sleep(0.5)


def test_one_that_leaves_again_is_not_waited_for():
    """Nothing had been granted when the daemon was lost; the one that wanted more company leaves after it has returned."""
    with serve() as feedd, sharing(feedd, {"wait_for": 3}, {"wait_for": 1}) as (asks, other):
        restart(feedd)
        for reader in (asks, other):
            assert not come_back(feedd, reader)
        await_company(feedd, 2)
        asks.kill()
        assert other.next()["sequence"] == 0


# ---- Who is not waited for ---------------------------------------------------------------------------------


@harness.limit(90)
def test_one_that_died_with_the_daemon_does_not_hold_up_the_others_for_long():
    with serve() as feedd, sharing(feedd, {}, {}, {}) as (one, two, dead):
        runs = [one.take(10), two.take(10)]
        dead.take(10)
        kill(feedd)
        dead.kill()
        feedd.start()
        begun = time.monotonic()
        for run, more in zip(runs, in_turn(one, two), strict=True):
            check_whole(feedd, run + more)
        lasted = time.monotonic() - begun
        assert GRACE_S / 2 < lasted < (GRACE_S + 5) * harness.SLOWNESS, f"it took {lasted:g} s"


def check_not_waited_for(instance, readers, runs, held=()):
    """They continue at once after a restart."""
    restart(instance)
    for reader, batch in zip(readers, held, strict=False):
        reader.release(batch)
    begun = time.monotonic()
    for _ in range(3):  # no more than two were in hand
        for reader in readers:
            reader.command("next", 20000)
        for reader, run in zip(readers, runs, strict=True):
            run.append(reader.expect("batch"))
            reader.release(run[-1])
    lasted = time.monotonic() - begun
    assert lasted < GRACE_S / 2 * harness.SLOWNESS, f"they waited {lasted:g} s"
    for run, more in zip(runs, in_turn(*readers), strict=True):
        check_whole(instance, run + more)


def test_one_that_has_reached_its_end_is_not_waited_for():
    with serve() as feedd, sharing(feedd, {"epochs": 1}, {}, {}) as (short, *others):
        runs = [[] for _ in others]
        for _ in range(SAMPLES // 10):
            short.take(1)
            for reader, run in zip(others, runs, strict=True):
                run += reader.take(1)
        short.next_ends()
        time.sleep(0.5)
        check_not_waited_for(feedd, others, runs)


def test_one_that_has_left_is_not_waited_for():
    """The others learn of it although they are granted nothing in between."""
    with serve() as feedd, sharing(feedd, {}, {}, {}, prefetch=1) as (gone, *others):
        gone.take(5)
        runs = [reader.take(5) for reader in others]
        held = [reader.next() for reader in others]
        gone.close()
        await_company(feedd, 2)
        check_not_waited_for(feedd, others, [[*run, batch] for run, batch in zip(runs, held, strict=True)], held)


# ---- Who is waited for -------------------------------------------------------------------------------------


def test_one_that_has_joined_since_the_last_batch_is_waited_for():
    with serve() as feedd, sharing(feedd, {"prefetch": 1}) as (one,):
        held = one.next()
        with consumer.Consumer(feedd, "numbers", 10, **SHARED) as late:
            begins_at = late.attached()["consumed"] // 10
            time.sleep(0.5)
            restart(feedd)
            one.release(held)
            one.next_fails("EAGAIN", timeout_ms=int(GRACE_S * 300))
            run, late_run = in_turn(one, late)
        check_whole(feedd, [held, *run])
        assert [batch["samples"] for batch in late_run] == [batch["samples"] for batch in [held, *run][begins_at:]]


def check_no_batch(session):
    """For a moment it is granted nothing; it may be told of others."""
    with contextlib.suppress(TimeoutError):
        while grant := session.expect("grant", 0.3):
            assert not grant["slots"], f"{grant} came before all were back"


@harness.quick_attach
def test_whoever_knows_of_most_consumers_is_believed():
    """The first that returns may not have heard of the last that joined."""
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, **SHAPE) as reader:
            reader.attached()
            reader.take(3)
            token = reader.token()
        restart(feedd)
        with contextlib.ExitStack() as stack:
            sessions = [stack.enter_context(feedd.client()) for _ in range(3)]
            options = {"batch_size": 10, "shuffle": True, "seed": 17, "share": "job", "resume": token, "reconnect": True}
            for session, wait_for in zip(sessions, (2, 3, 1), strict=True):
                for waiting in sessions[: sessions.index(session)]:
                    check_no_batch(waiting)
                attached = session.attach("numbers", wait_for=wait_for, **options)
                assert attached["sequence"] == 3 and attached["wait_for"] == (2 if session == sessions[0] else 3), attached
            for session in sessions:
                while not (grant := session.expect("grant"))["slots"]:
                    continue
                assert grant["sequence"] == 3 and grant["wait_for"] == 3, grant


def test_a_feed_that_has_not_begun_still_waits_for_all():
    with serve() as feedd:
        options = {**SHARED, "wait_for": 2, "max_lag": 1}
        with consumer.Consumer(feedd, "numbers", 10, **options) as one:
            one.attached()
            restart(feedd)
            one.next_fails("EAGAIN", timeout_ms=1500)
            with consumer.Consumer(feedd, "numbers", 10, **options) as two:
                two.attached()
                for run in in_turn(one, two):
                    check_whole(feedd, run)


# ---- Who returns late --------------------------------------------------------------------------------------


@harness.limit(90)
def test_one_that_returns_late_continues_at_its_place():
    """The others have moved on by more than the ring has. They wait until it has caught up, and nobody gets a batch twice or
    misses one."""
    with serve() as feedd, sharing(feedd, {}, {}, {"prefetch": 1}) as (one, two, late):
        runs = [reader.take(10) for reader in (one, two, late)]
        restart(feedd)
        for _ in range(50):
            runs[0] += one.take(1)
            runs[1] += two.take(1)
        held = one.next()
        runs[0] += [held]
        runs[2] += late.take(20)
        assert one.hashes(held) == held["crc"], "what is held has changed"
        one.release(held)
        while len(runs[2]) < 55:
            runs[2] += late.take(1)
        for run, more in zip(runs, in_turn(one, two, late), strict=True):
            check_whole(feedd, run + more)


def test_one_that_returns_after_max_lag_is_told_why_it_cannot():
    with serve() as feedd, sharing(feedd, {}, {}, max_lag=1) as (one, late):
        run = one.take(10)
        late.take(10)
        restart(feedd)
        run += one.take(10)
        time.sleep(1.5)
        run += one.take(60)
        run_on(late, "ESTALE")
        late.next_fails("ESTALE", "moved on")
        check_whole(feedd, run + in_turn(one)[0])


@harness.limit(60)
def test_one_that_returns_late_to_a_feed_that_nobody_uses_any_more():
    with serve(linger=60) as feedd, sharing(feedd, {}, {}, max_lag=1) as (one, late):
        run, late_run = one.take(10), late.take(10)
        restart(feedd)
        check_whole(feedd, run + in_turn(one)[0])
        one.close()
        await_company(feedd, 0)
        check_whole(feedd, late_run + in_turn(late)[0])


# ---- Newcomers that are first ------------------------------------------------------------------------------


def token_of(instance, batch_size, batches):
    """Of a job of its own that has had that many batches."""
    with consumer.Consumer(instance, "numbers", batch_size, step=True, **SHAPE) as job:
        job.attached()
        job.take(batches)
        return job.token()


def test_one_that_returns_after_a_newcomer_has_begun_the_feed_continues_at_its_place():
    with serve() as feedd, sharing(feedd, {}) as (late,):
        late_run = late.take(10)
        token = token_of(feedd, 10, 30)
        restart(feedd)
        with consumer.Consumer(feedd, "numbers", 10, resume=token, **SHARED) as newcomer:
            assert newcomer.attached()["consumed"] == 300
            run = newcomer.take(30)
            late_run += run_on(late, "EAGAIN", 0)  # what it has in hand
            while len(late_run) < 60:
                late_run += late.take(1)
            for known, more in zip((run, late_run), in_turn(newcomer, late), strict=True):
                known += more
        check_whole(feedd, late_run)
        assert [batch["samples"] for batch in run] == [batch["samples"] for batch in late_run[30:]]


def test_one_that_returns_between_the_batches_of_a_newcomer_is_told_why_it_cannot():
    with serve() as feedd, sharing(feedd, {}) as (late,):
        late.take(10)
        token = token_of(feedd, 7, 1)
        restart(feedd)
        with consumer.Consumer(feedd, "numbers", 10, resume=token, **SHARED) as newcomer:
            newcomer.attached()
            run_on(late, "ESTALE")
            late.next_fails("ESTALE", "perhaps after a restart", "another name")
            newcomer.take(10)


# ---- Leases ------------------------------------------------------------------------------------------------


def leases(instance, *readers):
    listed = clients(instance)
    return [listed[reader.pid]["prefetch"] for reader in readers]


def test_leases_are_kept_whoever_returns_first():
    each = {"prefetch": 20, "ring_bytes": 160 << 10}, {"prefetch": None}, {"prefetch": 2}
    with serve() as feedd, sharing(feedd, *each) as readers:
        promised = leases(feedd, *readers)
        assert promised[0] == 20, promised
        runs = [reader.take(5) for reader in readers]
        for order in ((2, 1, 0), (1, 0, 2)):
            restart(feedd)
            for number in order[:2]:
                runs[number] += come_back(feedd, readers[number])
            while readers[order[2]].pid not in clients(feedd):  # it has batches in hand
                runs[order[2]] += readers[order[2]].take(1)
            assert leases(feedd, *readers) == promised
        for reader, run in zip(readers, runs, strict=True):
            run += reader.take(max(len(run) for run in runs) - len(run))
        for run, more in zip(runs, in_turn(*readers), strict=True):
            check_whole(feedd, run + more)


def test_newcomers_do_not_get_the_leases_of_those_that_return():
    with serve() as feedd, sharing(feedd, {"prefetch": 8}, {"prefetch": 5}) as (one, two):
        runs = [one.take(5), two.take(5)]
        restart(feedd)
        runs[0] += come_back(feedd, one)
        with consumer.Consumer(feedd, "numbers", 10, **{**SHARED, "prefetch": 60}) as newcomer:
            harness.eventually(lambda: newcomer.pid in clients(feedd), 10, "the newcomer has asked")
            while two.pid not in clients(feedd):
                runs[1] += two.take(1)
            newcomer.attached()
            assert leases(feedd, one, two) == [8, 5]
        for run, more in zip(runs, in_turn(one, two), strict=True):
            check_whole(feedd, run + more)


@harness.quick_attach
def test_newcomers_do_not_get_them_either_if_the_feed_had_not_begun():
    """All but the last have come when the daemon is killed; the last comes before all of those are back."""
    with serve() as feedd, contextlib.ExitStack() as stack:
        options = {"share": "job", "wait_for": 3, "max_lag_s": 4}

        def attach(**more):
            session = stack.enter_context(feedd.client())
            return session, session.attach("numbers", 10, **options, **more)

        before = [attach(prefetch=count)[1] for count in (8, 5)]
        assert [attached["prefetch"] for attached in before] == [8, 5] and not any(at["wait_for"] for at in before)
        restart(feedd)
        back = [{"reconnect": True, "unbegun": True, "leases": at["prefetch"], "ring_slots": at["ring_slots"]} for at in before]
        one, _ = attach(prefetch=8, **back[0])
        last = stack.enter_context(feedd.client())
        last.hello()
        last.send("attach", dataset="numbers", batch_size=10, prefetch=60, **options)
        time.sleep(0.3)  # it has been read by now
        _, returned = attach(prefetch=5, **back[1])
        assert returned["prefetch"] == 5, returned
        last.expect("attached")
        while not one.expect("grant")["slots"]:
            continue


@harness.host_memory
def test_a_smaller_configuration_takes_leases_back():
    """Rather that than no ring at all."""
    with serve() as feedd, sharing(feedd, {"ring_bytes": 2 << 20}, {}, prefetch=None) as (one, two):
        promised = leases(feedd, one, two)
        runs = [one.take(5), two.take(5)]
        kill(feedd)
        feedd.settings["ring_memory"] = "1M"
        feedd.write_config()
        feedd.start()
        runs[1] += come_back(feedd, two)
        while one.pid not in clients(feedd):
            runs[0] += one.take(1)
        assert sum(leases(feedd, one, two)) < sum(promised)
        for run, more in zip(runs, in_turn(one, two), strict=True):
            check_whole(feedd, run + more)


# ---- A feed that has just begun ----------------------------------------------------------------------------


@harness.host_memory
def test_all_are_told_at_once_that_the_feed_has_begun():
    with harness.Instance(ring="64K", io="uring") as feedd:
        data.add_records(feedd, samples=SAMPLES, size=64, io_delay_us=5_000_000)  # no batch tells them
        feedd.start()
        with feedd.client() as one, feedd.client() as other:
            for client in (one, other):
                client.hello()
            for client in (one, other):  # both have asked before the ring is ready, so they join in the same turn
                client.send("attach", dataset="numbers", batch_size=10, share="job", wait_for=2, ring_bytes=64 << 20)
            told = [client.expect("attached")["wait_for"] for client in (one, other)]
            kill(feedd)
            for client, count in zip((one, other), told, strict=True):
                assert count == 2 or client.expect("grant")["wait_for"] == 2
        feedd.start()
