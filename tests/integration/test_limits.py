"""Who may attach, and how much a user may have: permissions of the socket, sessions, feeds and ring memory of a user, the
ring of a client of another user."""

import contextlib
import ctypes
import errno
import fcntl
import grp
import mmap
import os
import resource
import stat

import consumer
import data
import expected
import harness
import users
import wire
from users import NOBODY


def serve(**settings):
    return users.serve(**{"socket_mode": "0660", **settings})


# ---- The socket --------------------------------------------------------------------------------------------


def test_socket_has_the_mode_that_was_asked_for():
    for mode in ("0600", "0660", "0666"):
        with serve(socket_mode=mode) as feedd:
            assert stat.S_IMODE(feedd.socket.stat().st_mode) == int(mode, 8)
            feedd.status()  # it has come so far that it answers
            # Whoever may connect may read the statistics; nobody else may write them.
            assert stat.S_IMODE(feedd.stats.stat().st_mode) == int(mode, 8) & 0o444 | 0o600


def test_other_users_are_kept_out():
    with serve(socket_mode="0660") as feedd:
        consumer.refused(feedd, "EACCES", str(feedd.socket), user=NOBODY)
        done = feedd.ctl("status", check=False, user=NOBODY, group=NOBODY, extra_groups=[])
        assert done.returncode == 1 and "you may not connect" in done.stderr, done
        assert "usermod -aG root" not in done.stderr, "nobody should be told to join the group of root"
        done = feedd.ctl("stats", "--once", check=False, user=NOBODY, group=NOBODY, extra_groups=[])
        assert done.returncode == 1 and "socket_group" in done.stderr, done


def test_other_users_are_let_in_when_the_mode_says_so():
    with serve(socket_mode="0666") as feedd:
        with consumer.Consumer(feedd, "numbers", 10, epochs=1, user=NOBODY) as reader:
            reader.attached()
            assert expected.check_exactly_once(1000, reader.finish()) == 1
        feedd.ctl("stats", "--once", user=NOBODY, group=NOBODY, extra_groups=[])


def test_members_of_the_group_are_let_in():
    group = next(entry for entry in grp.getgrall() if entry.gr_gid not in (0, NOBODY))
    with serve(socket_group=group.gr_name) as feedd:
        assert feedd.socket.stat().st_gid == group.gr_gid == feedd.stats.stat().st_gid

        def connect():
            with wire.Client(feedd.socket) as client:
                return client.hello()["daemon_version"]

        assert "PermissionError" in users.run_as(NOBODY, [], connect)
        assert users.run_as(NOBODY, [group.gr_gid], connect) == "0.1.0"


def test_commands_are_for_root_and_the_daemons_user():
    with serve(socket_mode="0666") as feedd:
        for command in ("reload", "drain"):
            done = feedd.ctl(command, check=False, user=NOBODY, group=NOBODY, extra_groups=[])
            assert done.returncode == 1 and "only root" in done.stderr, done
        assert not feedd.status()["draining"]
        feedd.ctl("reload")


# ---- The ring of a client of another user ------------------------------------------------------------------


def attempts_to_write(fd, pids):
    """All ways to a writable ring that come to mind; returns those that worked. `pids`: others that have it."""

    def reopen():
        os.close(os.open(f"/proc/self/fd/{fd}", os.O_RDWR))

    def reopen_others():
        for pid in pids:
            for entry in os.scandir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    os.ftruncate(os.open(entry.path, os.O_RDWR), 0)

    def protect():
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        start = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(0))
        if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(4096), mmap.PROT_READ | mmap.PROT_WRITE):
            raise OSError(ctypes.get_errno(), "mprotect")

    def change_mode():
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_RDWR)
        os.pwrite(fd, b"x", 0)

    ways = {
        "write": lambda: os.pwrite(fd, b"x", 0),
        "truncate": lambda: os.ftruncate(fd, 0),
        "map": lambda: mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE),
        "mode": lambda: os.fchmod(fd, 0o666),
        "flags": change_mode,
        "allocate": lambda: os.posix_fallocate(fd, 0, 1 << 30),
        "reopen": reopen,
        "reopen others": reopen_others,
        "protect": protect,
    }
    worked = []
    for name, way in ways.items():
        try:
            way()
            worked.append(name)
        except OSError as error:
            assert error.errno in (errno.EPERM, errno.EACCES, errno.EBADF, errno.EINVAL), f"{name}: {error}"
    return worked


def test_ring_cannot_be_made_writable_by_another_user():
    with serve(socket_mode="0666") as feedd:

        def attack():
            with wire.Client(feedd.socket) as client:
                client.attach("numbers", 10)
                with open(client.fds[0], "rb", closefd=False) as ring:
                    assert len(ring.read(4096)) == 4096
                return f"worked: {attempts_to_write(client.fds[0], feedd.processes())}"

        assert users.run_as(NOBODY, [], attack) == "worked: []"


def test_statistics_cannot_be_written_by_another_user():
    with serve(socket_mode="0666") as feedd:
        assert users.run_as(NOBODY, [], lambda: str(os.access(feedd.stats, os.R_OK))) == "True"
        assert "PermissionError" in users.run_as(NOBODY, [], lambda: os.open(feedd.stats, os.O_RDWR) and "opened")


# ---- How much ----------------------------------------------------------------------------------------------


def test_sessions_of_a_user():
    with serve(user_sessions=5, socket_mode="0666") as feedd:
        sessions = []
        for _ in range(5):
            sessions.append(feedd.client())
            sessions[-1].hello()
        with feedd.client() as late:
            error = late.expect_closed()
            assert error["code"] == errno.EBUSY and "5 sessions" in error["text"], error
            assert "user_sessions" in error["text"], error

        def other_user():
            with wire.Client(feedd.socket) as client:
                return str(client.hello()["version"])

        assert users.run_as(NOBODY, [], other_user) == "1", "another user pays for it"
        sessions.pop().close()
        harness.eventually(lambda: feedd.ctl("status", check=False).returncode == 0, 5, "room for one again")
        for session in sessions:
            session.close()


def test_feeds_of_a_user():
    with serve(user_feeds=2, socket_mode="0666") as feedd:
        readers = [consumer.Consumer(feedd, "numbers", 10, step=True, share=f"job{number}") for number in range(2)]
        for reader in readers:
            reader.attached()
        consumer.refused(feedd, "EBUSY", "2 feeds", "user_feeds", share="job2")
        with consumer.Consumer(feedd, "numbers", 10, step=True, user=NOBODY) as other:
            other.attached()
            other.take(1)
        # One of the same name is not another feed.
        with consumer.Consumer(feedd, "numbers", 10, step=True, share="job1") as reader:
            reader.attached()
        readers[0].close()
        # What nobody uses any more makes room.
        with consumer.Consumer(feedd, "numbers", 10, step=True, share="job2") as reader:
            reader.attached()
        readers[1].close()


def test_ring_memory_of_a_user():
    with serve(user_ring_memory="8M", socket_mode="0666") as feedd:
        large = {"batch_size": 500, "ring_bytes": 6 << 20}
        with consumer.Consumer(feedd, "numbers", step=True, share="one", **large) as reader:
            reader.attached()
            consumer.refused(feedd, "ENOSPC", "user_ring_memory", "8 MiB", share="two", **large)
            with consumer.Consumer(feedd, "numbers", step=True, user=NOBODY, **large) as other:
                other.attached()
            reader.take(2)


def test_ring_memory_of_all():
    with serve(ring_memory="8M", user_ring_memory="8M", socket_mode="0666") as feedd:
        large = {"batch_size": 500, "ring_bytes": 6 << 20}
        with consumer.Consumer(feedd, "numbers", step=True, share="one", **large) as reader:
            reader.attached()
            consumer.refused(feedd, "ENOSPC", "ring_memory", "8 MiB", user=NOBODY, **large)
            reader.take(2)
        # Nobody uses it any more: a warm ring makes room for one that is wanted, also of another user.
        harness.eventually(lambda: feedd.statistics()["feeds"][0]["consumers"] == 0, 5, "nobody uses it")
        with consumer.Consumer(feedd, "numbers", step=True, user=NOBODY, **large) as other:
            other.attached()
            other.take(2)
        assert feedd.statistics()["ring_bytes"] <= 8 << 20


def test_one_ring_larger_than_all_memory():
    with serve(ring_memory="8M") as feedd:
        consumer.refused(feedd, "ENOSPC", "ring_memory", "8 MiB", batch_size=500, ring_bytes=20 << 20)
        # As many batches as a ring must have, of a size that does not fit.
        consumer.refused(feedd, "ENOSPC", "ring_memory", batch_size=1 << 20)
        consumer.refused(feedd, "EINVAL", "4096", prefetch=4096, world_size=2)
        consumer.read(feedd, "numbers", 10)


def test_feed_names_belong_to_a_user():
    """Two users may use the same name and know nothing of each other."""
    with serve(socket_mode="0666") as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, share="job") as mine:
            mine.attached()
            with consumer.Consumer(feedd, "numbers", 20, step=True, share="job", user=NOBODY) as his:
                his.attached()
                assert mine.next()["samples"] == list(range(10))
                assert his.next()["samples"] == list(range(20))
        assert len(feedd.statistics()["feeds"]) == 2


def test_prefetch_that_no_ring_has_room_for():
    """The limit that is named is the one there is."""
    with serve() as feedd:
        for ranks, most in ((1, 4095), (2, 2047), (3, 1364)):
            options = {"world_size": ranks, "batch_size": 1}
            consumer.refused(feedd, "EINVAL", f"at most {most} with {ranks} rank", prefetch=100_000, **options)
            consumer.refused(feedd, "EINVAL", f"prefetch {most + 1} is too large", prefetch=most + 1, **options)
            with consumer.Consumer(feedd, "numbers", prefetch=most, step=True, **options) as reader:
                slots = reader.attached()["slots"]
                # A pool is sized by the ranks on its GPU, which is one here.
                assert slots == (most + 1) * ranks or (harness.DEVICE and slots >= most + 1), slots
        many = {"world_size": 2000, "local_world_size": 1500, "batch_size": 1}
        consumer.refused(feedd, "EINVAL", "_world_size 1500", prefetch=1, **many)  # local_ or, on a GPU, device_


def test_numbers_that_are_absurd():
    with serve() as feedd:
        for options in (
            {"batch_size": 0}, {"batch_size": (1 << 24) + 1}, {"batch_size": (1 << 32) - 1},
            {"batch_size": 10, "world_size": (1 << 32) - 1}, {"batch_size": 10, "ring_bytes": (1 << 64) - 1},
            {"batch_size": 10, "prefetch": (1 << 32) - 1, "world_size": 1 << 20, "local_world_size": 1 << 20},
            {"batch_size": (1 << 24) - 1, "world_size": 1 << 24, "drop_last": True},
        ):  # fmt: skip
            with feedd.client() as session:
                session.hello()
                session.send("attach", dataset="numbers", **options)
                body, fields = session.receive()
                # A ring of any size may be asked for; it is cut to what is of use.
                ok = body == "attached" and options.get("ring_bytes")
                refused = body == "error" and fields["code"] in (errno.EINVAL, errno.ENOSPC, errno.EOVERFLOW)
                assert ok or refused, (options, body, fields)
        consumer.read(feedd, "numbers", 10)


def test_more_ranks_on_a_gpu_than_a_pool_has_room_for():
    with serve() as feedd:
        for ranks, prefetch in ((2048, 0), (4096, 0), (5000, 100), ((1 << 32) - 1, (1 << 32) - 1)):
            with feedd.client() as session:
                session.hello()
                options = {"world_size": 8192, "local_world_size": 1, "device": "HOST-0", "device_world_size": ranks}
                session.send("attach", dataset="numbers", batch_size=1, prefetch=prefetch, **options)
                body, fields = session.receive()
                assert body == "error" and fields["code"] == errno.EINVAL, (ranks, prefetch, body, fields)
                assert "device_world_size" in fields["text"] or prefetch > 4096, fields
        # The most that there is room for gets its batches.
        with feedd.client() as session:
            options = {"world_size": 8192, "local_world_size": 1, "device": "HOST-0", "device_world_size": 1024}
            session.attach("numbers", 1, **options)
            session.write_words(1 << 62)
            session.expect("grant")


@harness.host_memory
def test_a_log_longer_than_a_file_may_be():
    """A loader that may not write to it reads on."""
    with harness.Instance(loaders=1, io="uring") as feedd:
        path = data.add_records(feedd, on_error="skip")
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 10, epochs=1, sleep_us=20000, prefetch=2, ring_bytes=1 << 16) as reader:
            reader.attached()
            loader = feedd.only_loader()
            resource.prlimit(loader, resource.RLIMIT_FSIZE, (1, 1))
            os.truncate(path, 64 * 500)  # so there is something to write about each of the other samples
            assert sum(batch["skipped"] for batch in reader.finish()) > 0
            assert feedd.children_called("loader") == [loader]
        assert "killed by signal" not in feedd.read_log()


@harness.host_memory
def test_a_ring_larger_than_a_file_may_be():
    """Growing it would be SIGXFSZ, which ends a process that does not expect it."""
    limit = 6 << 20
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.start(wrap=("prlimit", f"--fsize={limit}"))
        large = {"batch_size": 10_000, "ring_bytes": 8 << 20}
        consumer.refused(feedd, "EFBIG", "RLIMIT_FSIZE", limit, "smaller ring", **large)
        assert feedd.process.poll() is None
        assert len(consumer.read(feedd, "numbers", 10, ring_bytes=1 << 20)) == 100
