"""A consumer of another user whose daemon is restarted, while the socket belongs to root: a service manager makes it so, and
then gives it to its group."""

import contextlib
import socket
import time

import consumer
import expected
import harness
import users

SAMPLES = 1000
SHAPE = {"epochs": 3, "shuffle": True, "seed": 17, "reconnect_timeout": 15000, "sleep_us": 3000, "user": users.NOBODY}


@contextlib.contextmanager
def decoy(path):
    """A socket in the daemon's place that only root may connect to."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
        yield
        path.unlink()


@contextlib.contextmanager
def killed_under_a_consumer():
    with users.serve(ring="64K") as feedd, consumer.Consumer(feedd, "numbers", 10, **SHAPE) as reader:
        reader.attached()
        feedd.process.kill()
        feedd.process.wait()
        yield feedd, reader
        if feedd.process.poll() is not None:
            feedd.start()


def test_a_moment_without_permission_is_waited_out():
    with killed_under_a_consumer() as (feedd, reader):
        with decoy(feedd.socket):
            time.sleep(0.4)
        feedd.start()
        assert expected.check_exactly_once(SAMPLES, reader.finish()) == 3


def test_no_permission_at_all_is_an_error():
    with killed_under_a_consumer() as (feedd, reader), decoy(feedd.socket):
        began = time.monotonic()
        while (event := reader.event())["event"] == "batch":
            pass
        assert event["event"] == "error" and event["code"] == "EACCES" and "you may not connect" in event["text"], event
        assert 0.5 < time.monotonic() - began < 6 * harness.SLOWNESS
