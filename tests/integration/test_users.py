"""Several users of one daemon: how much each of them gets, and what they share."""

import concurrent.futures
import contextlib
import errno
import os
import signal

import consumer
import devices
import harness
import users
import wire
from users import DAEMON, NOBODY


def attach_as(feedd, uid, gids=(), gid=None, dataset="numbers"):
    """"attached" or the daemon's error, for a client of that user and these groups."""

    def attach():
        with wire.Client(feedd.socket) as client:
            client.hello()
            client.send("attach", dataset=dataset, batch_size=10)
            body, fields = client.receive()
            return body if body == "attached" else f"{fields['code']} {fields['text']}"

    return users.run_as(uid, list(gids), attach, gid)


# ---- How much a user gets ------------------------------------------------------------------------------------


@harness.limit(60)
def test_one_user_leaves_room_for_feeds():
    """By default: 48 of 64."""
    with users.serve(loaders=1, ring="64K", linger=0) as feedd:
        has_all, leave = os.pipe(), os.pipe()

        def take_all():
            with contextlib.ExitStack() as stack:
                for count in range(65):
                    client = stack.enter_context(wire.Client(feedd.socket))
                    client.hello()
                    client.send("attach", dataset="numbers", batch_size=10, share=f"job{count}")
                    body, fields = client.receive()
                    if body == "error":
                        break
                os.write(has_all[1], b"x")
                os.read(leave[0], 1)
                return f"{count} {fields.get('code')} {fields.get('text')}"

        with concurrent.futures.ThreadPoolExecutor() as threads:
            taking = threads.submit(users.run_as, NOBODY, [], take_all)
            os.read(has_all[0], 1)
            try:
                assert attach_as(feedd, DAEMON) == "attached"
            finally:
                os.write(leave[1], b"x")
            text = "you already have 48 feeds, the maximum per user (user_feeds), of 64 that the daemon can serve"
            assert taking.result() == f"48 {errno.EBUSY} {text}"
        for fd in (*has_all, *leave):
            os.close(fd)


@harness.host_memory
def test_feeds_that_do_not_close_leave_room():
    """Their loaders do not end, so that they keep their places: half of what the other users have left, and no more."""
    with users.serve(loaders=1, ring="64K", user_feeds=4, stop_timeout=600) as feedd:
        stopped = set()
        for count in range(65):
            with wire.Client(feedd.socket) as client:
                client.hello()
                client.send("attach", dataset="numbers", batch_size=10, share=f"job{count}")
                body, fields = client.receive()
                if body == "error":
                    break
                (pid,) = harness.eventually(lambda: set(feedd.children_called("loader")) - stopped, 5, "its loader")
                stopped.add(pid)
                os.kill(pid, signal.SIGSTOP)
        assert count == 34 and fields["code"] == errno.EBUSY and "still being closed" in fields["text"], (count, fields)
        assert attach_as(feedd, NOBODY) == "attached"
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        harness.eventually(lambda: attach_as(feedd, 0) == "attached", 10, "room again")


@harness.host_memory
def test_one_user_leaves_room_for_rings():
    """By default: three quarters of ring_memory, and all of it for root and the daemon's user."""
    large = {"batch_size": 500, "ring_bytes": 9 << 20}
    with users.serve(ring_memory="16M", linger=0) as feedd:
        with consumer.Consumer(feedd, "numbers", step=True, share="one", user=NOBODY, **large) as reader:
            reader.attached()
            words = ("user_ring_memory", "9 MiB of 12 MiB per user", "16 MiB of all (ring_memory)")
            small = {"batch_size": 100, "ring_bytes": 5 << 20}
            consumer.refused(feedd, "ENOSPC", *words, share="two", user=NOBODY, **small)
            with consumer.Consumer(feedd, "numbers", step=True, user=DAEMON, **small) as other:
                other.attached()
                other.take(2), reader.take(2)
        harness.eventually(lambda: not feedd.statistics()["feeds"], 5, "no feeds")
        with consumer.Consumer(feedd, "numbers", 500, step=True, ring_bytes=14 << 20) as mine:
            mine.attached()
            mine.take(2)


def test_one_user_leaves_room_on_a_gpu():
    """By default three quarters of device_memory. The other user gets the rest."""
    pools = {"device": devices.OTHER, "step": True, "batch_size": 20}
    with users.serve(device_memory="64K", device_pool="16K", ring="64K", linger=0) as feedd:
        with contextlib.ExitStack() as stack:
            for number in range(3):
                reader = consumer.Consumer(feedd, "numbers", share=f"job{number}", user=NOBODY, **pools)
                stack.enter_context(reader).attached()
            words = ("user_device_memory", "device_memory", "per user", "HOST-1")
            consumer.refused(feedd, "ENOSPC", *words, share="job3", user=NOBODY, **pools)
            other = stack.enter_context(consumer.Consumer(feedd, "numbers", user=DAEMON, **pools))
            other.attached()
            other.take(3)
    with users.serve(device_memory="64K", device_pool="16K", ring="64K", user_device_memory="16K") as feedd:
        with consumer.Consumer(feedd, "numbers", **pools) as reader:
            reader.attached()
            consumer.refused(feedd, "ENOSPC", "user_device_memory", share="more", **pools)
            reader.take(2)


# ---- What users share ----------------------------------------------------------------------------------------


def inodes(feedd, uid, **options):
    """What identifies the objects that a client of that user gets: the ring, and on a GPU the pool and its ring."""

    def attach():
        with wire.Client(feedd.socket) as client:
            client.attach("numbers", 10, **options)
            return " ".join(str(os.fstat(fd).st_ino) for fd in client.fds[:2])

    text = users.run_as(uid, [], attach)
    return {int(word) for word in text.split()}


def test_users_share_no_ring_and_no_pool():
    """Even with the same name and the same shape, and when the feed is warm because its user has just left it."""
    with users.serve(ring="64K", device_pool="32K") as feedd:
        for device in "cpu", "HOST-1":
            for share in "", "job":
                options = {"device": device, "share": share, "seed": 7, "shuffle": True}
                with wire.Client(feedd.socket) as client:
                    client.attach("numbers", 10, **options)
                    mine = {os.fstat(fd).st_ino for fd in client.fds[:2]}
                    assert not mine & inodes(feedd, NOBODY, **options), (device, share)
                his, third = inodes(feedd, NOBODY, **options), inodes(feedd, DAEMON, **options)
                assert len(his) == len(mine) == (1 if device == "cpu" else 2)
                assert not mine & his and not mine & third and not his & third, (device, share)
                # Their own they get again.
                assert inodes(feedd, NOBODY, **options) == his, (device, share)
