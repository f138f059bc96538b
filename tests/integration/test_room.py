"""Room for feeds: those that nobody uses make way for those that are wanted, the one idle for longest first. What there is
only so much of: feeds, loaders, memory in /dev/shm."""

import contextlib
import errno
import os
import signal

import consumer
import data
import harness
import users

FEEDS = 64  # STATS_MAX_FEEDS
LOADERS = 512  # STATS_MAX_LOADERS
MIB = 1 << 20
STOP_S = int(2 * harness.SLOWNESS)  # long enough to see what waits for a loader to end
LARGE = {"batch_size": 5000, "ring_bytes": 5 * MIB}
SMALL = {"batch_size": 1000, "ring_bytes": MIB}


def serve(start=True, **settings):
    instance = harness.Instance(**{"ring": "64K", "linger": 600, "loaders": 1, **settings})
    data.add_records(instance)
    return instance.start() if start else instance


def small_shared_memory(mib, prepare=None, **settings):
    """A feedd that has a /dev/shm of that size. `prepare` is called before it is started."""
    if os.geteuid() != 0:
        harness.skip("only root can mount a small /dev/shm")
    mount = f'mount -t tmpfs -o size={mib}m,mode=1777 none /dev/shm && exec "$@"'
    feedd = serve(start=False, **settings)
    if prepare:
        prepare(feedd)
    return feedd.start(wrap=("unshare", "--mount", "--propagation=private", "--", "sh", "-c", mount, "sh"))


def use(feedd, name, batch_size=10, **options):
    """Attaches to the feed of that name, takes a batch and leaves it idle."""
    with feedd.client() as session:
        session.attach("numbers", batch_size, share=name, **options)
        session.expect("grant")


def feeds(feedd):
    """{name: state} of the feeds that are not closing."""
    with feedd.client() as session:
        session.hello()
        rows, start = [], 0
        while True:
            answer = session.query("FEEDS", start=start)
            rows += answer.get("feeds", [])
            start = answer.get("next", 0)
            if not start:
                return {row["name"]: row["state"] for row in rows if row["state"] != "closing"}


def idle(feedd, *names):
    harness.eventually(lambda: all(feeds(feedd).get(name) == "idle" for name in names), 10, f"{names} are idle")


@contextlib.contextmanager
def ending_slowly(feedd, name, **options):
    """An idle feed whose loader does not end when it is asked to, but only when it is killed after stop_timeout."""
    use(feedd, name, **options)
    idle(feedd, name)
    loader = feedd.only_loader()
    os.kill(loader, signal.SIGSTOP)
    yield
    with contextlib.suppress(ProcessLookupError):
        os.kill(loader, signal.SIGCONT)


# ---- Feeds and loaders -------------------------------------------------------------------------------------


@harness.host_memory
@harness.limit(60)
def test_two_ranks_that_break_out_of_more_epochs_than_there_are_feeds():
    """As a DataLoader whose loop is left early does: each time, both ranks open another feed."""
    rounds = FEEDS + 6
    with serve() as feedd:
        for number in range(rounds):
            with feedd.client() as first, feedd.client() as second:
                for rank, session in enumerate((first, second)):
                    session.attach("numbers", 10, share=f"epoch{number}", rank=rank, world_size=2, wait_for=2)
                for session in (first, second):
                    session.expect("grant")
        left = feeds(feedd)
        assert f"epoch{rounds - 1}" in left, left
        # Those idle for longest have made way, and no more than had to.
        assert set(left) == {f"epoch{number}" for number in range(rounds - FEEDS, rounds)}, left
        assert "ending session" not in feedd.read_log()


@harness.host_memory
def test_the_feed_that_was_idle_for_longest_makes_way():
    with serve() as feedd:
        for number in range(FEEDS - 1):
            use(feedd, f"old{number}")
        with consumer.Consumer(feedd, "numbers", 10, step=True, share="used") as reader:
            reader.attached()
            reader.take(1)
            use(feedd, "new0")
            use(feedd, "new1")
            reader.take(1)
            left = feeds(feedd)
            assert "old0" not in left and "old1" not in left and {"old2", "new0", "new1", "used"} <= set(left), left


@harness.host_memory
@harness.limit(60)
def test_loaders_of_idle_feeds_make_way():
    per_feed = 64
    if harness.sanitized():
        harness.skip("512 loaders with the address sanitizer take more memory than a test should")
    with serve(loaders=per_feed, stop_timeout=20) as feedd:
        for number in range(LOADERS // per_feed):
            use(feedd, f"old{number}")
        idle(feedd, "old0", f"old{LOADERS // per_feed - 1}")
        use(feedd, "new")
        left = feeds(feedd)
        assert "old0" not in left and "old1" in left and "new" in left, left
        assert "maximum" not in feedd.read_log()


@harness.host_memory
def test_all_feeds_in_use():
    """Then a newcomer is refused at once, and idle feeds that would not be enough are left alone."""
    with serve() as feedd, contextlib.ExitStack() as sessions:
        for number in range(FEEDS):
            session = sessions.enter_context(feedd.client())
            session.attach("numbers", 10, share=f"job{number}")
        with feedd.client() as late:
            late.hello()
            late.send("attach", dataset="numbers", batch_size=10, share="late")
            error = late.expect_closed()
            assert error["code"] == errno.EBUSY and str(FEEDS) in error["text"], error
        assert len(feeds(feedd)) == FEEDS


# ---- Waiting -----------------------------------------------------------------------------------------------


@harness.host_memory
def test_attach_waits_until_the_idle_feed_is_gone():
    """Its loader ends only when it is killed."""
    with small_shared_memory(8, stop_timeout=STOP_S) as feedd, ending_slowly(feedd, "old", **LARGE):
        with feedd.client() as session:
            session.hello()
            session.send("attach", dataset="numbers", **LARGE, share="new")
            harness.eventually(lambda: feeds(feedd) == {"new": "queued"}, 10, "the feed is queued")
            session.expect("attached")
            session.expect("grant")
        assert "does not fit" not in feedd.read_log()


@harness.host_memory
def test_consumers_of_one_name_wait_together():
    with small_shared_memory(8, stop_timeout=STOP_S) as feedd, ending_slowly(feedd, "old", **LARGE):
        with feedd.client() as first, feedd.client() as second, feedd.client() as other:
            for session in (first, second):
                session.hello()
                session.send("attach", dataset="numbers", **LARGE, share="new", wait_for=2)
            other.hello()  # needs little, and comes after them
            other.send("attach", dataset="numbers", batch_size=10, share="other")
            assert len({first.expect("attached")["feed"], second.expect("attached")["feed"]}) == 1
            first.expect("grant")
            second.expect("grant")
            other.expect("attached")
            other.expect("grant")


@harness.host_memory
def test_client_leaves_while_its_feed_is_queued():
    with small_shared_memory(8, stop_timeout=STOP_S) as feedd, ending_slowly(feedd, "old", **LARGE):
        with feedd.client() as session:
            session.hello()
            session.send("attach", dataset="numbers", **LARGE, share="new")
            harness.eventually(lambda: feeds(feedd) == {"new": "queued"}, 10, "the feed is queued")
        harness.eventually(lambda: not feeds(feedd), 2, "nothing is left of the queued feed")
        harness.eventually(
            lambda: 0 < feedd.statistics()["ring_bytes"] < 6 * MIB, 5, "only that of the feed that ends counts"
        )


@harness.host_memory
def test_stop_while_a_feed_is_queued():
    """stop() itself looks for what is left."""
    with small_shared_memory(8, stop_timeout=STOP_S) as feedd, ending_slowly(feedd, "old", **LARGE):
        with feedd.client() as session:
            session.hello()
            session.send("attach", dataset="numbers", **LARGE, share="new")
            harness.eventually(lambda: feeds(feedd) == {"new": "queued"}, 10, "the feed is queued")
            feedd.process.send_signal(signal.SIGTERM)
            assert session.expect_closed()["code"] == errno.ESHUTDOWN


@harness.host_memory
@harness.limit(60)
def test_consumers_wait_for_new_feeds_in_the_order_in_which_they_came():
    """A user gets 32 at once, and then 4 per second. One that leaves while it waits takes none."""
    with serve(linger=0) as feedd, contextlib.ExitStack() as stack:
        probe = stack.enter_context(feedd.client())
        probe.hello()
        for number in range(32):
            with feedd.client() as session:  # which leaves, so that there is room for others
                session.attach("numbers", 1000 + number)
        sessions = [stack.enter_context(feedd.client()) for _ in range(24)]
        for session in sessions:
            session.hello()
        for number, session in enumerate(sessions):
            session.send("attach", dataset="numbers", batch_size=10 + number)
            probe.query("STATUS")  # is answered once that has been looked at
        gone = sessions.pop(-2)
        gone.socket.close()
        numbers = [session.expect("attached")["feed"] for session in sessions]
        assert numbers == sorted(numbers), f"feeds were made out of order: {numbers}"
        assert "batches of 32," not in feedd.read_log(), "a feed was made for a consumer that had left"


# ---- Memory ------------------------------------------------------------------------------------------------


@harness.host_memory
def test_idle_rings_make_way_in_shared_memory():
    with small_shared_memory(8) as feedd:
        use(feedd, "oldest", **SMALL)
        use(feedd, "old", **LARGE)
        use(feedd, "young", **SMALL)
        idle(feedd, "oldest", "old", "young")
        use(feedd, "new", **LARGE)
        # The oldest alone would not have been enough, the youngest did not have to go.
        left = feeds(feedd)
        assert set(left) == {"young", "new"}, left


@harness.host_memory
def test_a_ring_that_does_not_fit_beside_those_in_use():
    with small_shared_memory(8) as feedd:
        use(feedd, "idle", **SMALL)
        with consumer.Consumer(feedd, "numbers", 5000, step=True, share="used", ring_bytes=4 * MIB) as reader:
            reader.attached()
            reader.take(1)
            reasons = ("does not fit", "/dev/shm", "MiB free", "feedctl doctor says how")
            consumer.refused(feedd, "ENOSPC", *reasons, share="new", **LARGE)
            assert set(feeds(feedd)) == {"idle", "used"}  # nothing was closed in vain
            reader.take(1)


@harness.host_memory
def test_rings_that_nobody_gave_a_size_share_a_small_memory():
    """As in a container: the default is larger than all of it. The same goes for what a user may have."""
    for start in lambda: small_shared_memory(8, ring=0), lambda: serve(ring=0, user_ring_memory="8M"):
        with start() as feedd, contextlib.ExitStack() as stack:
            rings = []
            for name in "abcdefgh":
                reader = stack.enter_context(consumer.Consumer(feedd, "numbers", 10, step=True, share=name))
                reader.attached()
                reader.take(1)
                rings.append(next(row["ring_bytes"] for row in users.listed(feedd, "feeds") if row["name"] == name))
        assert rings[0] < 3 * MIB and rings == sorted(rings, reverse=True) and len(set(rings)) > 4, rings


@harness.host_memory
def test_memory_that_a_former_consumer_keeps():
    """The feed makes way, and its memory comes back all the same: the next idle one need not go."""
    half = {"batch_size": 2000, "ring_bytes": 3 * MIB}
    with small_shared_memory(8) as feedd:
        with feedd.client() as session:
            session.attach("numbers", share="kept", **half)
            kept = session.fds.pop()  # of the ring
        use(feedd, "idle", **half)
        idle(feedd, "kept", "idle")
        use(feedd, "new", **half)
        assert set(feeds(feedd)) == {"idle", "new"}
        assert os.fstat(kept).st_blocks == 0
        os.close(kept)
