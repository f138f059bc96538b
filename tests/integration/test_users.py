"""Several users of one daemon: who may use which dataset, how much each of them gets, and what they share."""

import concurrent.futures
import contextlib
import errno
import os
import signal

import consumer
import data
import devices
import harness
import users
import wire
from users import AS_NOBODY, DAEMON, NOBODY, listed, reload


def names(feedd, **identity):
    return [row["name"] for row in listed(feedd, "datasets", **identity)]


def attach_as(feedd, uid, gids=(), gid=None, dataset="numbers"):
    """"attached" or the daemon's error, for a client of that user and these groups."""

    def attach():
        with wire.Client(feedd.socket) as client:
            client.hello()
            client.send("attach", dataset=dataset, batch_size=10)
            body, fields = client.receive()
            return body if body == "attached" else f"{fields['code']} {fields['text']}"

    return users.run_as(uid, list(gids), attach, gid)


REFUSED = (
    f"{errno.EACCES} you may not use dataset numbers: ask the administrator to add you to allow_users or allow_groups of"
    " [dataset numbers]"
)


# ---- Who may use a dataset -----------------------------------------------------------------------------------


def test_users_that_are_allowed():
    with users.serve({"allow_users": f"root, {NOBODY}"}) as feedd:
        assert attach_as(feedd, NOBODY) == "attached"
        assert attach_as(feedd, DAEMON) == REFUSED
        assert attach_as(feedd, DAEMON, gids=[NOBODY]) == REFUSED, "a group is not a user"


def test_groups_that_are_allowed():
    with users.serve({"allow_groups": "4711 4712"}) as feedd:
        assert attach_as(feedd, NOBODY) == REFUSED
        assert attach_as(feedd, NOBODY, gids=[1, 2, 4712]) == "attached"
        assert attach_as(feedd, NOBODY, gids=range(5000, 5300)) == REFUSED
        assert attach_as(feedd, NOBODY, gids=[*range(5000, 5300), 4711]) == "attached"
        assert attach_as(feedd, NOBODY, gid=4711) == "attached", "the primary group counts"
        assert attach_as(feedd, 4711) == "attached"  # whose primary group has that number, too


def test_either_list_lets_in():
    with users.serve({"allow_users": NOBODY, "allow_groups": "4711"}) as feedd:
        assert attach_as(feedd, NOBODY) == "attached"
        assert attach_as(feedd, DAEMON, gids=[4711]) == "attached"
        assert attach_as(feedd, DAEMON) == REFUSED


def test_names_are_looked_up():
    with users.serve({"allow_users": "nobody", "allow_groups": "daemon"}) as feedd:
        assert attach_as(feedd, NOBODY) == "attached"
        assert attach_as(feedd, DAEMON) == "attached"
        assert attach_as(feedd, 4711) == REFUSED


def test_root_and_the_daemons_user_always_may():
    users.need_root()
    with harness.Instance(socket_mode="0666") as feedd:
        data.add_records(feedd, allow_users="4711")
        feedd.directory.chmod(0o711)
        for path in feedd.directory, *feedd.directory.iterdir():
            os.chown(path, NOBODY, NOBODY)
        feedd.start(wrap=("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"))
        for uid in 0, NOBODY, 4711:
            assert attach_as(feedd, uid) == "attached"
        assert attach_as(feedd, DAEMON) == REFUSED


def test_a_dataset_that_one_may_not_use_is_not_there():
    """It is in no list, nothing suggests it, and its files are not named; no option is looked at before."""
    with users.serve({"allow_users": "root"}) as feedd:
        data.add_records(feedd, "others", samples=100)
        reload(feedd)
        assert names(feedd) == ["numbers", "others"] and names(feedd, **AS_NOBODY) == ["others"]
        assert (feedd.status()["datasets"], listed(feedd, "status", **AS_NOBODY)["datasets"]) == (2, 1)
        said = attach_as(feedd, NOBODY, dataset="number")
        assert said.startswith(f"{errno.ENOENT} ") and "perhaps" not in said, said
        assert 'perhaps you mean "numbers"' in attach_as(feedd, 0, dataset="number")

        def ask():
            with wire.Client(feedd.socket) as client:
                client.hello()
                for kind in ("FILES", "INDICES", "SHARES", "INDEX", "SOURCES", "GROUPS"):
                    client.send("query", kind=wire.ENUMS["Query"][kind], name="numbers")
                    error = client.expect("error")
                    assert error["code"] == errno.EACCES and "numbers.bin" not in str(error), error
                assert client.query("FILES", "others")["files"][0]["path"].endswith("others.bin")
                client.send("attach", dataset="numbers", batch_size=0, rank=7, device="HOST-7", resume="x")
                return f"{error['code']} {error['text']}\n{client.expect('error')['text']}"

        assert users.run_as(NOBODY, [], ask) == f"{REFUSED}\n{REFUSED.partition(' ')[2]}"


def test_a_dataset_that_one_may_not_use_is_shown_with_show_others():
    with users.serve({"allow_users": "root"}, show_others="yes") as feedd:
        assert names(feedd, **AS_NOBODY) == ["numbers"]
        assert listed(feedd, "status", **AS_NOBODY)["datasets"] == 1
        assert attach_as(feedd, NOBODY) == REFUSED
        done = feedd.ctl("read", "numbers", "--verify", check=False, **AS_NOBODY)
        assert done.returncode == 1 and "allow_users" in done.stderr, done


def test_reload_changes_who_may():
    """Whoever is attached stays, to the end of the run."""
    with users.serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1, user=NOBODY) as reader:
            reader.attached()
            reader.take(5)
            done = reload(feedd, allow_users="root")
            assert "dataset numbers: changed (allow_users); consumers that are attached stay" in done.stdout, done
            reader.take(95)
            reader.next_ends()
        assert attach_as(feedd, NOBODY) == REFUSED  # also to the feed that is still warm
        reload(feedd, allow_users=f"root {NOBODY}")
        assert attach_as(feedd, NOBODY) == "attached"
        reload(feedd, allow_users=None)
        assert attach_as(feedd, DAEMON) == "attached"


@harness.quick_attach
def test_a_restart_is_an_attach():
    """The new daemon decides afresh: a user who is no longer allowed does not come back."""
    with users.serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, user=NOBODY, reconnect_timeout=20_000) as reader:
            reader.attached()
            reader.take(5)
            feedd.datasets["numbers"]["allow_users"] = "root"
            feedd.write_config()
            feedd.process.kill()
            feedd.process.wait()
            feedd.start()
            for _ in range(200):  # it may have some left
                reader.command("next", 20_000)
                event = reader.event()
                if event["event"] == "error":
                    break
                reader.release(event)
            assert event["event"] == "error" and event["code"] == "EACCES" and "allow_users" in event["text"], event


def test_names_that_nobody_has():
    with users.serve({"allow_groups": "daemon"}) as feedd:
        feedd.datasets["numbers"]["allow_users"] = "root, nobody-by-this-name"
        feedd.write_config()
        line = 1 + next(at for at, text in enumerate(feedd.config.read_text().splitlines()) if "allow_users" in text)
        said = f'{feedd.config}:{line}: [dataset numbers] allow_users: found "nobody-by-this-name", wanted the name'
        done = feedd.check()
        assert done.returncode == 78 and said in done.stderr, done
        done = feedd.ctl("reload", check=False)
        assert done.returncode == 1 and said in done.stderr, done
        assert attach_as(feedd, NOBODY, gids=[DAEMON]) == "attached" and attach_as(feedd, NOBODY) == REFUSED


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
