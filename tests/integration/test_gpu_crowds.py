"""What many consumers, or many in a row, do to a pool and its transfer process; where ranks begin; whose stream is to blame.
On the simulated GPU, in both modes."""

import os
import re
import signal
import threading
import time

import consumer
import devices
import harness
from devices import CPU, OTHER, SIMULATED, SIMULATED_UUID

WORDS = 64  # consumers that a pool can have


def by_hand(feedd, **options):
    session = feedd.client()
    session.attach("numbers", 20, device=SIMULATED_UUID, **options)
    return session


def started(feedd, uuid=SIMULATED_UUID):
    """How many transfer processes that GPU has had."""
    return len(re.findall(f"transfer process of GPU {uuid} started", feedd.read_log()))


def take_without_words(session, seconds):
    """Takes and gives back by message alone, as one whose stream never gets there; returns the error that came, if any."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            body, fields = session.receive(left)
        except TimeoutError:
            return None
        if body == "error":
            return fields
        if body == "grant":
            session.send("release", slots=fields["slots"], waiting=True)
    return None


# ---- Where ranks begin -------------------------------------------------------------------------------------


def check_ranks_begin_together(second):
    """Rank 0 has left a warm pool behind: rank 1, which comes without a position, begins where rank 0 does again."""
    shape = {"share": "job", "world_size": 2, "step": True}
    with devices.serve() as feedd:
        with devices.start(feedd, SIMULATED, rank=0, **shape) as one:
            one.next()
            harness.eventually(lambda: devices.gpu(feedd, SIMULATED_UUID)["gpu_counters"]["copies"] > 2, 5, "a warm pool")
        harness.eventually(lambda: not devices.clients(feedd), 5, "rank 0 is gone")
        with devices.start(feedd, SIMULATED, rank=0, **shape) as one:
            with devices.start(feedd, second, rank=1, **shape) as two:
                assert one.next()["index"] == two.next()["index"] == 0


def test_rank_on_another_gpu_begins_with_the_first():
    check_ranks_begin_together(OTHER)


def test_rank_in_host_memory_begins_with_the_first():
    check_ranks_begin_together(CPU)


# ---- Whose stream is to blame ------------------------------------------------------------------------------


@harness.limit(60)
def test_stream_that_nobody_waits_for_may_be_slow():
    """The other rank sits on what it has and asks for nothing."""
    with devices.serve() as feedd:
        shape = {"share": "job", "world_size": 2, "local_world_size": 2}
        with by_hand(feedd, max_lag_s=1, prefetch=2, **shape) as slow:
            with devices.start(feedd, OTHER, step=True, rank=1, **shape) as idle:
                idle.next()
                assert take_without_words(slow, 4) is None


@harness.limit(60)
def test_time_alone_does_not_count():
    with devices.serve() as feedd:
        with by_hand(feedd, share="job", max_lag_s=4, prefetch=4) as slow:
            assert take_without_words(slow, 5) is None
            with devices.start(feedd, CPU, step=True, share="job"):
                assert take_without_words(slow, 2) is None


# ---- Many --------------------------------------------------------------------------------------------------


@harness.limit(90)
def test_replacement_is_told_of_more_consumers_than_a_socket_holds():
    with devices.serve(user_sessions=2000, device_memory="1G") as feedd:
        sessions = []
        for number in range(320):
            sessions.append(by_hand(feedd, share=f"job{number % 5}", prefetch=1))
            while sessions[-1].fds:
                os.close(sessions[-1].fds.pop())
        before = started(feedd)
        (pid,) = devices.transfers(feedd)
        harness.kill(pid)
        harness.eventually(lambda: devices.gpu(feedd, SIMULATED_UUID)["pinned_bytes"], 10, "all pools are open again")
        with devices.start(feedd, SIMULATED, step=True, share="another") as reader:
            reader.take(3)
        assert started(feedd) == before + 1, "it was killed while it was told of its consumers"
        for session in sessions:
            session.close()


@harness.limit(60)
def test_words_are_not_used_again_before_they_are_let_go_of():
    """Nor do clients that come and go get a transfer process killed that is busy for a while."""
    with devices.serve() as feedd, by_hand(feedd, share="job", prefetch=1):
        (pid,) = devices.transfers(feedd)
        os.kill(pid, signal.SIGSTOP)
        for _ in range(WORDS - 1):
            by_hand(feedd, share="job", prefetch=1).close()
        with feedd.client() as late:
            late.hello()
            late.send("attach", dataset="numbers", batch_size=20, device=SIMULATED_UUID, share="job", prefetch=1)
            body, fields = late.receive(5 * harness.SLOWNESS)
            assert body == "error" and str(WORDS) in fields["text"], (body, fields)
        os.kill(pid, signal.SIGCONT)

        def comes_in():
            with feedd.client() as session:
                session.hello()
                session.send("attach", dataset="numbers", batch_size=20, device=SIMULATED_UUID, share="job", prefetch=1)
                return session.receive(5 * harness.SLOWNESS)[0] == "attached"

        harness.eventually(comes_in, 5, "there is room again")
        assert started(feedd) == 1


def test_invented_names_cost_no_process():
    with devices.serve() as feedd:
        for number in range(40):
            with feedd.client() as session:
                session.hello()
                uuid = f"GPU-{number:08x}-0000-0000-0000-000000000000"
                session.send("attach", dataset="numbers", batch_size=20, device=uuid, share="job")
                body, fields = session.receive(5 * harness.SLOWNESS)
                assert body == "error", fields
        assert not devices.transfers(feedd) and "transfer process" not in feedd.read_log(), feedd.read_log()
        consumer.read(feedd, "numbers", 20, device=SIMULATED)


def test_idle_pools_give_way():
    with devices.serve(device_memory="64K", device_pool="32K", linger=30) as feedd:
        for name in ("one", "two", "three"):
            with devices.start(feedd, SIMULATED, share=name, step=True) as reader:
                reader.take(2)
                reader.close()
        # Which needs all there is: two of those before go.
        with devices.start(feedd, SIMULATED, share="four", step=True, prefetch=14) as reader:
            reader.take(2)


# ---- Transfer processes that do not get on -----------------------------------------------------------------


@harness.limit(60)
def test_pool_whose_opening_ends_each_process_is_given_up():
    """The first copy, by which the bus is measured, never ends: each process is ready, and then hangs."""
    with devices.serve(environment={devices.FAULTS: "stall_copy=1"}, loader_timeout=2) as feedd:
        with devices.start(feedd, CPU, step=True, share="job") as host:
            with consumer.Consumer(feedd, "numbers", 20, device=SIMULATED, share="job") as reader:
                reader.expect_error("EIO", "each time that it opened the pool", seconds=40)
            assert started(feedd) <= 6
            host.take(3)


@harness.limit(60)
def test_report_that_was_lost_for_want_of_descriptors_is_made_good():
    with devices.serve() as feedd, devices.start(feedd, CPU, step=True, share="job") as host:
        host.take(3)
        attached = []

        def attach():
            with consumer.Consumer(feedd, "numbers", 20, device=SIMULATED, share="job", step=True) as reader:
                attached.append(reader.event(20))

        waiting = threading.Thread(target=attach)
        waiting.start()
        (pid,) = harness.eventually(lambda: devices.transfers(feedd), 5, "a transfer process")
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.1)
        used = {int(number) for number in os.listdir(f"/proc/{feedd.process.pid}/fd")}
        harness.prlimit(feedd.process.pid, "nofile", next(number for number in range(10000) if number not in used))
        os.kill(pid, signal.SIGCONT)
        time.sleep(1)
        harness.prlimit(feedd.process.pid, "nofile", 1000)
        waiting.join()
        assert attached[0]["event"] == "attached", attached


def test_ranks_of_feedctl_share_a_pool():
    """--device-world-size says how many: a pool that was made for one has no room for the other."""
    with devices.serve() as feedd:

        def read(rank, told):
            ranks = ("--share=job", "--wait-for=2", "--world-size=2", f"--rank={rank}", "--device-world-size=2")
            told[rank] = feedd.ctl("read", "numbers", "--batch-size=20", *ranks, "--device=host:0", "--verify").stdout

        told = {}
        readers = [threading.Thread(target=read, args=(rank, told)) for rank in range(2)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert all(f"only the share of rank {rank} of 2" in told[rank] for rank in range(2)), told
