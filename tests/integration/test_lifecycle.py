"""Starting, stopping, draining: cleanly, in time, with a message to every client, and with nothing left."""

import errno
import fcntl
import os
import signal
import subprocess
import threading
import time

import consumer
import data
import expected
import harness
import wire


def serve(**settings):
    instance = harness.Instance(**settings)
    data.add_records(instance, samples=1000, size=64)
    return instance.start()


def end_of(reader):
    """The error after what it still has in hand."""
    while True:
        reader.command("next", 5000)
        if (event := reader.event())["event"] != "batch":
            return event
        reader.release(event)


# ---- Stopping ----------------------------------------------------------------------------------------------


def test_consumers_are_told_that_it_stops():
    for number in (signal.SIGTERM, signal.SIGINT):
        with serve(loaders=3) as feedd:
            with consumer.Consumer(feedd, "numbers", 10, step=True) as reader:
                reader.attached()
                held = reader.next()
                begun = time.monotonic()
                feedd.process.send_signal(number)
                assert feedd.wait() == 0
                assert time.monotonic() - begun < 2 * harness.SLOWNESS, "it took its time"
                feedd.check_nothing_left()
                error = end_of(reader)
                assert error["code"] == "ESHUTDOWN" and "stopping" in error["text"], error
                assert reader.hashes(held) == held["crc"], "a batch in hand is gone"
                feedd.process = None


def test_stopping_while_consumers_attach():
    """Whatever state they are in, they get an answer or the end of the connection, and nothing is left."""
    for pause in (0.0, 0.002, 0.005, 0.01, 0.02):
        with serve(ring_memory="2G") as feedd:
            readers = [
                consumer.Consumer(feedd, "numbers", 500, ring_bytes=size << 20, shuffle=True, seed=seed, step=True)
                for seed, size in enumerate((1, 60, 120))
            ]  # fmt: skip
            time.sleep(pause)
            feedd.process.send_signal(signal.SIGTERM)
            assert feedd.wait(5) == 0
            feedd.check_nothing_left()
            feedd.process = None
            for reader in readers:
                event = reader.event()
                if event["event"] == "attached":
                    event = end_of(reader)
                assert event["code"] in ("ESHUTDOWN", "ECONNRESET", "ECONNREFUSED"), event
                reader.kill()


@harness.quick_attach
def test_stopping_twice_is_stopping():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True) as reader:
            reader.attached()
            while feedd.process.poll() is None:  # to its last moment
                feedd.process.send_signal(signal.SIGTERM)
            assert feedd.wait() == 0
            feedd.check_nothing_left()
            feedd.process = None


def test_loader_that_hangs_does_not_hold_the_stop_up():
    with serve(stop_timeout=1, loaders=2) as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True) as reader:
            reader.attached()
            reader.next()
            for pid in feedd.children():
                os.kill(pid, signal.SIGSTOP)
            begun = time.monotonic()
            feedd.process.send_signal(signal.SIGTERM)
            assert feedd.wait(5) == 0
            assert 0.8 < time.monotonic() - begun < 3 * harness.SLOWNESS
            feedd.check_nothing_left()
            assert "does not end; killing it" in feedd.read_log()
            feedd.process = None


def test_reads_under_way_do_not_hold_the_stop_up():
    """Each takes 3 s."""
    with harness.Instance(stop_timeout=1, loaders=2) as feedd:
        data.add_records(feedd, io_delay_us=3_000_000)
        feedd.start()
        with consumer.Consumer(feedd, "numbers", 10, step=True) as reader:
            reader.attached()
            time.sleep(0.3)
            begun = time.monotonic()
            feedd.process.send_signal(signal.SIGTERM)
            assert feedd.wait(6) == 0
            assert time.monotonic() - begun < 2.5 * harness.SLOWNESS
            feedd.check_nothing_left()
            feedd.process = None


def test_client_that_does_not_read_does_not_hold_the_stop_up():
    with serve() as feedd:
        with feedd.client() as session:
            session.hello()
            query = wire.frame(wire.client_message("query", kind=0))
            session.socket.setblocking(False)
            try:
                while True:
                    session.socket.send(query * 100)
            except (BlockingIOError, BrokenPipeError, ConnectionResetError):
                pass
            begun = time.monotonic()
            feedd.stop(5)
            assert time.monotonic() - begun < 4 * harness.SLOWNESS


def test_stop_during_a_reload():
    for _ in range(5):
        with serve() as feedd:
            feedd.process.send_signal(signal.SIGHUP)
            feedd.process.send_signal(signal.SIGTERM)
            assert feedd.wait(5) == 0
            feedd.check_nothing_left()
            feedd.process = None


# ---- Draining ----------------------------------------------------------------------------------------------


def test_draining_lets_consumers_finish():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=2) as reader:
            reader.attached()
            batches = reader.take(10)
            assert "stops when the last one has left" in feedd.ctl("drain").stdout
            assert feedd.status()["draining"]
            consumer.refused(feedd, "ESHUTDOWN", "no new consumers")
            feedd.ctl("drain")  # again: nothing changes
            batches += reader.take(190)
            reader.next_ends()
            assert expected.check_exactly_once(1000, batches) == 2
            assert feedd.process.poll() is None
            reader.close()
        assert feedd.wait(3) == 0
        feedd.check_nothing_left()
        feedd.process = None


def test_draining_without_consumers_stops_at_once():
    with serve() as feedd:
        consumer.read(feedd, "numbers", 10)  # leaves a warm feed behind
        feedd.ctl("drain")
        assert feedd.wait(3) == 0
        feedd.check_nothing_left()
        feedd.process = None


def test_draining_ends_with_a_consumer_that_is_killed():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True) as reader:
            reader.attached()
            feedd.ctl("drain")
            reader.kill()
        assert feedd.wait(3) == 0
        feedd.process = None


def test_draining_ends_with_a_consumer_that_waits_for_others():
    with serve() as feedd:
        with feedd.client() as client:
            client.attach("numbers", 10, share="job", wait_for=2)
            feedd.ctl("drain")
            error = client.expect_closed(5 * harness.SLOWNESS)
            assert error["code"] == errno.ESHUTDOWN and "waits for others" in error["text"]
        assert feedd.wait(5) == 0
        feedd.check_nothing_left()
        feedd.process = None


def test_stopping_while_draining():
    with serve() as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True) as reader:
            reader.attached()
            feedd.ctl("drain")
            feedd.stop()
            assert end_of(reader)["code"] == "ESHUTDOWN"


# ---- Starting and exit codes -------------------------------------------------------------------------------


def run(instance, *arguments, **options):
    return instance.program(harness.BUILD / "feedd", *arguments, check=False, **options)


def test_exit_codes_and_help():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.write_config()
        assert feedd.check().returncode == 0
        done = run(feedd, "--help")
        assert done.returncode == 0 and "--config" in done.stdout and not done.stderr, done
        done = run(feedd, "--version")
        assert done.returncode == 0 and done.stdout.startswith("feedd "), done
        done = run(feedd, "--colour")
        assert done.returncode not in (0, 1) and "--colour" in done.stderr, done
        done = run(feedd, "--config", feedd.directory / "none")
        assert done.returncode == 78 and "none" in done.stderr, done  # EX_CONFIG: systemd does not try again
        done = run(feedd, "--config", feedd.directory / "none", "--check")
        assert done.returncode == 78 and "none" in done.stderr, done
        done = run(feedd, "--config", feedd.config, "extra")
        assert done.returncode not in (0, 1) and "extra" in done.stderr, done
        done = feedd.ctl(check=False)
        assert done.returncode == 2 and done.stderr.startswith("feedctl: no command given\n"), done


def test_feedctl_read_says_one_of_one():
    """And no rate of a run that is too short for one."""
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=1)
        feedd.start()
        said = feedd.ctl("read", "numbers", "--verify").stdout
        words = ("epoch 0: 1 sample in 1 batch\n", "verified 1 sample of 1 whole epoch:", "\n1 batch, 1 sample, 0.000 GB in ")
        assert all(word in said for word in words), said
        assert said.splitlines()[-1].startswith("resume token: feedd1."), said
        assert "samples/s" in feedd.ctl("read", "numbers", "--work", 20).stdout
        short = [said for said in (feedd.ctl("read", "numbers").stdout for _ in range(20)) if " in 0.00" in said]
        assert short and not any("samples/s" in said for said in short), short
        assert feedd.ctl("reload").stdout == "serving 1 dataset\n"


def test_configuration_by_a_relative_path():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.write_config()
        for path in ("feedd.conf", f"../{feedd.directory.name}/feedd.conf"):
            feedd.start(arguments=["--config", path])
            assert feedd.status()["config_path"] == str(feedd.config)
            feedd.stop()


def test_feedctl_exit_codes():
    with serve() as feedd:
        for arguments, code in (
            (["status"], 0), (["datasets"], 0), (["feeds"], 0), (["clients"], 0), (["stats", "--once"], 0), (["--help"], 0),
            (["read", "numbers", "--batch-size", "10", "--batches", "3"], 0), (["read", "none"], 1),
            (["stats", "--once", "none"], 1), (["nonsense"], 2), ([], 2), (["status", "--nonsense"], 2),
            (["read"], 2), (["read", "numbers", "--batch-size", "x"], 2), (["stats", "0"], 2),
        ):  # fmt: skip
            done = feedd.ctl(*arguments, check=False)
            assert done.returncode == code, f"{arguments}: {done}"
            assert code == 0 or done.stderr.startswith("feedctl"), done
    done = subprocess.run(
        [harness.BUILD / "feedctl", "--socket", "/nonexistent/feedd.sock", "status"], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "/nonexistent/feedd.sock" in done.stderr, done


def test_standard_descriptors_may_be_closed():
    """A daemon started without any must not take one of its files for standard error."""
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.start(wrap=["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"])
        batches = consumer.read(feedd, "numbers", 10)
        assert expected.check_exactly_once(1000, batches) == 1


def test_inherited_descriptors_do_not_reach_loaders():
    """Loaders have what they are given by number, and nothing else of the daemon's: no sockets, no other rings."""
    with serve(loaders=1) as feedd:
        with consumer.Consumer(feedd, "numbers", 10, step=True, share="one") as first:
            first.attached()
            with consumer.Consumer(feedd, "numbers", 10, step=True, share="two") as second:
                second.attached()
                second.take(1), first.take(1)
                for pid in feedd.children_called("loader"):
                    targets = [target for _, target, _ in harness.open_files(pid)]
                    assert not [target for target in targets if target.startswith("socket:")], targets
                    assert not [target for target in targets if "/dev/shm/" in target], targets  # mapped and closed
                    assert not [target for target in targets if target.endswith(".stats")], targets
                    assert len(targets) <= 12, targets


def test_attach_when_it_has_just_stopped():
    with serve() as feedd:
        feedd.stop()
        consumer.refused(feedd, "ECONNREFUSED", str(feedd.socket), "no such socket")
        with wire.socket.socket(wire.socket.AF_UNIX) as dead:
            dead.bind(str(feedd.socket))
        consumer.refused(feedd, "ECONNREFUSED", str(feedd.socket), "nothing accepts connections")
        feedd.start()
        consumer.read(feedd, "numbers", 10)


@harness.quick_attach
def test_daemon_that_does_not_answer():
    """A time limit for attaching holds also when the daemon hangs."""
    with serve() as feedd:
        os.kill(feedd.process.pid, signal.SIGSTOP)
        begun = time.monotonic()
        consumer.refused(feedd, "ETIMEDOUT", str(feedd.socket), connect_timeout=500)
        assert 0.4 < time.monotonic() - begun < 2 * harness.SLOWNESS
        os.kill(feedd.process.pid, signal.SIGCONT)
        consumer.read(feedd, "numbers", 10)


# ---- Warm feeds --------------------------------------------------------------------------------------------


@harness.quick_attach
def test_feed_lingers_and_goes():
    with serve(linger=1) as feedd:
        before = feedd.descriptors()
        with consumer.Consumer(feedd, "numbers", 10, step=True, epochs=1) as reader:
            reader.attached()
            reader.take(100)
            reader.next_ends()
            begun = time.monotonic()
        harness.eventually(lambda: not feedd.statistics()["feeds"], 3, "the feed is closed")
        assert time.monotonic() - begun > 0.9, "it has not lingered"
        feedd.check_descriptors(before)
        harness.eventually(lambda: not feedd.children(), 5, lambda: f"its loaders are gone, but {feedd.children()}")
        harness.eventually(lambda: feedd.statistics()["ring_bytes"] == 0, 2, "no ring memory in use")


def test_hello_of_a_daemon_of_another_version():
    with serve() as feedd, feedd.client() as session:
        session.send("hello", version=99)
        error = session.expect_closed()
        assert error["code"] == errno.EPROTO and "99" in error["text"], error


def test_a_link_in_place_of_the_lock_file_is_not_followed():
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.write_config()
        target = feedd.directory / "target"
        lock = feedd.directory / "feedd.sock.lock"
        lock.symlink_to(target)
        failed = feedd.program(harness.PROGRAMS / "feedd", "--config", feedd.config, check=False)
        assert failed.returncode and f"cannot open the lock file {lock}" in failed.stderr, failed
        assert not target.exists()
        lock.unlink()


def test_a_lock_that_is_held_for_a_moment():
    """As by a process that the last daemon was starting when it was killed."""
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=10, size=8)
        with open(f"{feedd.socket}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            release = threading.Timer(0.4, lambda: fcntl.flock(lock, fcntl.LOCK_UN))
            release.start()
            feedd.start()
            release.join()
        assert len(consumer.read(feedd, "numbers", 10)) == 1
