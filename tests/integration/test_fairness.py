"""One user's questions, however many, take no more from another user's consumer than an ordinary busy consumer does.

Beside other tests, only much less than that can be told. make fairness runs this file alone, with the goal itself as the
threshold: FAIRNESS_ROUNDS is then how many rounds are measured."""

import contextlib
import os
import select
import signal
import socket
import statistics
import sys
import time

import data
import harness
import wire

NOBODY = 65534
SESSIONS = 200  # of the user who asks
ROUNDS = int(os.environ.get("FAIRNESS_ROUNDS", "0"))  # 0: beside other tests
SHARE_LEAST = 0.7 if ROUNDS else 0.4  # of the rate next to an ordinary consumer
LATENCY_MOST_S = 0.01 if ROUNDS else 0.05  # of 99 in 100 batches
WINDOW_S = 0.8
ATTEMPTS = 1 if ROUNDS else 4  # other work may begin or end within a round
LIMIT_S = 60 + 8 * ROUNDS


@contextlib.contextmanager
def in_background(act):
    """Runs act(ready) in a process, of another user if that is possible, from when it calls ready() to the end of the block."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            harness.die_with_parent()
            os.close(reader)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            act(lambda: os.write(writer, b"x"))
        except BaseException as error:
            print(f"in the background: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as pipe:
            assert pipe.read(1), "the process in the background has failed"
        yield
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), "the process in the background has ended"
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def take_batches(session, seconds):
    """How long each batch took that a consumer got in that time, from the release of the one before."""
    waits = []
    end = time.monotonic() + seconds
    while (begun := time.monotonic()) < end:
        slots = session.expect("grant")["slots"]
        session.send("release", slots=slots, waiting=True)
        waits.append(time.monotonic() - begun)
    return waits


def ninety_nine_in_100(waits):
    return waits[len(waits) * 99 // 100]


def greeted(instance):
    """A session, as soon as the daemon has taken those that came before."""
    while True:
        with contextlib.suppress(BlockingIOError):
            session = instance.client()
            session.hello()
            return session
        time.sleep(0.01)


def ordinary_consumer(instance):
    def act(ready):
        session = instance.client()
        session.attach("numbers", 10, prefetch=1)
        ready()
        take_batches(session, 3600)

    return act


def flood(instance, kind, flooding, name=""):
    """So many of the sessions ask as fast as they can, and do not wait for answers; the others make these long."""

    def act(ready):
        sessions = [greeted(instance) for _ in range(SESSIONS)]
        question = wire.frame(wire.client_message("query", kind=wire.ENUMS["Query"][kind], name=name, start=4_000_000_000))
        questions = question * (100_000 // len(question))
        left = dict.fromkeys((session.socket for session in sessions[:flooding]), b"")
        for asking in left:
            asking.setblocking(False)
        ready()
        while True:
            readable, writable, _ = select.select(left, left, [])
            for asking in readable:
                assert asking.recv(1 << 20), "the daemon has ended a session that only asks"
            for asking in writable:
                left[asking] = left[asking] or questions
                with contextlib.suppress(BlockingIOError):
                    left[asking] = left[asking][asking.send(left[asking]) :]

    return act


def before_other_work():
    """Gives this process, and all that it starts from now on, priority over other work on the machine, if that is allowed."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)


def check_share(hostile, *arguments, loaders=1, window_s=WINDOW_S, **options):
    before_other_work()
    with harness.Instance(loaders=loaders, linger=0, socket_mode="0666") as feedd:
        feedd.directory.chmod(0o711)
        data.add_records(feedd, samples=10_000, size=64)
        feedd.start()
        with feedd.client() as session:
            session.attach("numbers", 10, prefetch=1)
            take_batches(session, 0.2)
            for _ in range(ATTEMPTS):
                shares, waits, usual = [], [], []
                for _ in range(ROUNDS or 2):
                    with in_background(ordinary_consumer(feedd)):
                        beside = take_batches(session, window_s)
                    with in_background(hostile(feedd, *arguments, **options)):
                        under = take_batches(session, window_s)
                    shares.append(len(under) / len(beside))
                    waits += under
                    usual += beside
                share = statistics.median(shares)
                latency = ninety_nine_in_100(sorted(waits))
                most = LATENCY_MOST_S * harness.SLOWNESS
                if not ROUNDS:  # on a machine that is busier than that, everybody waits
                    most = max(most, 3 * ninety_nine_in_100(sorted(usual)))
                figures = (
                    f"share of the rate next to a consumer: median {share:.2f} of {[round(one, 2) for one in shares]}, at least"
                    f" {SHARE_LEAST}; 99 in 100 batches within {1000 * latency:.2f} ms, at most {1000 * most:.2f}"
                )
                print(figures)
                if share >= SHARE_LEAST and latency < most:
                    return
        raise AssertionError(figures)


@harness.limit(LIMIT_S)
def test_questions_of_one_session():
    check_share(flood, "CLIENTS", 1)


@harness.limit(LIMIT_S)
def test_questions_about_files():
    check_share(flood, "FILES", 1, name="numbers")


@harness.limit(LIMIT_S)
def test_questions_of_many_sessions():
    check_share(flood, "CLIENTS", 40)


def come_and_go(instance):
    """One session after the other, none of which asks more than a few hundred questions."""

    def act(ready):
        question = wire.frame(wire.client_message("query", kind=wire.ENUMS["Query"]["STATUS"]))
        ready()
        while True:
            with greeted(instance) as session:
                session.send_raw(question * 400)
                session.socket.shutdown(socket.SHUT_WR)
                while session.socket.recv(1 << 20):
                    pass

    return act


@harness.limit(LIMIT_S)
def test_questions_of_sessions_that_come_and_go():
    check_share(come_and_go)


def attach_and_leave(instance):
    """Feeds of ever other shapes, each of which needs a ring and loaders. Job arrays begin with as many at once."""

    def act(ready):
        for number in range(1_000_000):
            if number == 32:
                ready()
            with greeted(instance) as session:
                session.send("attach", dataset="numbers", batch_size=20 + number % 1000)
                time.sleep(0.002)

    return act


@harness.limit(LIMIT_S)
def test_feeds_of_sessions_that_come_and_go():
    check_share(attach_and_leave, loaders=8, window_s=2.5)
