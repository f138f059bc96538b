"""What a service manager does and gets: an activated socket, readiness, reloading, stopping, the watchdog."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import consumer
import data
import expected
import harness

# Becomes feedd with a listening socket at descriptor 3, as the service manager passes it; LISTEN_PID is its own pid.
ACTIVATE = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(64)
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


def require_systemd():
    maps = os.popen(f"ldd {harness.BUILD / 'feedd'}").read()
    if "libsystemd" not in maps:
        harness.skip("feedd was built without libsystemd")


class Manager:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, directory):
        self.path = str(directory / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)
        self.messages = []

    def fill(self):
        """Sends itself messages until there is no room for another; a manager that does not read looks like that."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, contextlib.suppress(BlockingIOError):
            sender.setblocking(False)
            while True:
                sender.sendto(b"X=filler", self.path)

    def collect(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                self.messages.append(self.socket.recv(4096).decode())
        return self.messages

    def await_message(self, wanted, seconds=5):
        harness.eventually(
            lambda: any(wanted in message.splitlines() for message in self.collect()), seconds, f"{wanted} in {self.messages}"
        )


@contextlib.contextmanager
def notified(environment=None, **settings):
    require_systemd()
    with harness.Instance(**settings) as feedd:
        data.add_records(feedd, samples=500, size=16)
        manager = Manager(feedd.directory)
        feedd.start(environment={"NOTIFY_SOCKET": manager.path, **(environment or {})})
        yield feedd, manager


# ---- The unit ----------------------------------------------------------------------------------------------


def test_unit_is_hardened():
    """And neither an end by the memory killer ends the service, nor does a setting hide peers or GPUs."""
    text = (harness.ROOT / "systemd/feedd.service.in").read_text(encoding="ascii")
    for name, value in {"CONFIG": "feedd.conf", "OF_INSTANCE": "", "UNIT": "feedd", "FOLDER": "feedd"}.items():
        text = text.replace(f"@{name}@", value)
    text = re.sub("@[A-Z]+DIR@", "/usr/bin", text)
    settings = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    assert settings["OOMPolicy"] == "continue" and int(settings["OOMScoreAdjust"]) < 0, settings
    unwanted = {"PrivateUsers", "PrivateDevices", "DeviceAllow", "DevicePolicy", "ProtectClock", "ProcSubset", "OOMScore"}
    assert not unwanted & set(settings), settings
    if not shutil.which("systemd-analyze"):
        harness.skip("there is no systemd-analyze")
    with tempfile.TemporaryDirectory() as folder:
        unit = pathlib.Path(folder) / "feedd.service"
        unit.write_text(text, encoding="ascii")
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if "unrecognized option" in done.stderr or "Overall exposure" not in done.stdout:
        harness.skip("systemd-analyze cannot look at a file")
    assert done.returncode == 0, done.stdout


# ---- Messages ----------------------------------------------------------------------------------------------


def test_ready_when_it_is():
    with notified() as (feedd, manager):
        manager.await_message("READY=1")
        assert any("1 dataset on" in message for message in manager.messages), manager.messages
        consumer.read(feedd, "numbers", 10)


def test_manager_that_does_not_read():
    """The daemon neither waits for it nor forgets what it had to say."""
    require_systemd()
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=500, size=16)
        manager = Manager(feedd.directory)
        manager.fill()
        feedd.start(environment={"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "100000"})
        assert len(consumer.read(feedd, "numbers", 10)) == 50
        feedd.ctl("reload")
        time.sleep(0.5)  # the watchdog is due
        feedd.ctl("reload")
        assert len(consumer.read(feedd, "numbers", 10)) == 50
        assert not manager.messages
        manager.await_message("READY=1")
        harness.eventually(lambda: len([text for text in manager.collect() if "READY=1" in text]) == 3, 5, "all of it")
        told = [text.split("=")[0] for text in manager.messages if not text.startswith(("X=", "WATCHDOG"))]
        assert told == ["READY", "RELOADING", "READY", "RELOADING", "READY"], told
        manager.fill()  # stop() looks whether feedd ends in time


def test_not_ready_when_it_cannot_be():
    require_systemd()
    with harness.Instance() as feedd:
        feedd.add_dataset("numbers", format="records", path="nowhere", record_bytes=1, field_x="u8 @ 0")
        feedd.write_config()
        manager = Manager(feedd.directory)
        done = feedd.program(
            harness.BUILD / "feedd", "--config", feedd.config, check=False, environment={"NOTIFY_SOCKET": manager.path}
        )
        assert done.returncode == 1
        assert "READY=1" not in "\n".join(manager.collect()), manager.messages


def test_reloading_and_ready_again():
    with notified() as (feedd, manager):
        manager.await_message("READY=1")
        del manager.messages[:]
        feedd.process.send_signal(signal.SIGHUP)
        manager.await_message("RELOADING=1")
        manager.await_message("READY=1")
        text = "\n".join(manager.messages)
        assert text.index("RELOADING=1") < text.index("READY=1")
        stamp = int(re.search(r"MONOTONIC_USEC=(\d+)", text).group(1))
        assert abs(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6 - stamp) < 10e6


def test_ready_again_after_a_reload_that_failed():
    """Otherwise the service manager waits indefinitely."""
    with notified() as (feedd, manager):
        manager.await_message("READY=1")
        del manager.messages[:]
        feedd.config.unlink()
        feedd.process.send_signal(signal.SIGHUP)
        manager.await_message("RELOADING=1")
        manager.await_message("READY=1")


def test_stopping():
    with notified() as (feedd, manager):
        feedd.stop()
        manager.await_message("STOPPING=1")


def test_watchdog_is_fed():
    with notified({"WATCHDOG_USEC": "1000000"}) as (_, manager):
        begun = time.monotonic()

        def beats():
            return sum("WATCHDOG=1" in message for message in manager.collect())

        harness.eventually(lambda: beats() >= 4, 2.5, lambda: f"twice a second, but {beats()} in all")
        lasted = time.monotonic() - begun
        assert beats() <= 8 * lasted + 1, f"{beats()} in {lasted:.1f} s, twice a second is wanted"


def test_watchdog_is_not_fed_when_nobody_asks():
    with notified() as (_, manager):
        time.sleep(1)
        assert "WATCHDOG=1" not in "\n".join(manager.collect())


def test_loaders_do_not_talk_to_the_service_manager():
    """NOTIFY_SOCKET and LISTEN_* are for the daemon alone."""
    with notified(loaders=1) as (feedd, manager):
        with consumer.Consumer(feedd, "numbers", 10, step=True) as reader:
            reader.attached()
            reader.take(1)
            for pid in feedd.children():
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                assert b"LISTEN_FDS" not in environment
        assert sum("READY=1" in message for message in manager.collect()) == 1


# ---- Activation --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def activated(path=None, **settings):
    require_systemd()
    with harness.Instance(**settings) as feedd:
        data.add_records(feedd, samples=500, size=16)
        if path:
            feedd.socket = feedd.directory / path
            feedd.stats = feedd.directory / f"{path}.stats"
        feedd.start(wrap=[sys.executable, "-c", ACTIVATE, feedd.socket])
        yield feedd


def end(instance):
    """Stops it; the socket is the service manager's and stays."""
    instance.process.send_signal(signal.SIGTERM)
    assert instance.wait() == 0
    assert instance.socket.exists(), "it removed a socket that is not its own"
    instance.socket.unlink()
    instance.check_nothing_left()
    instance.process = None


def test_activated_socket_is_used():
    with activated() as feedd:
        assert expected.check_exactly_once(500, consumer.read(feedd, "numbers", 10)) == 1
        assert "stale" not in feedd.read_log()
        end(feedd)


def test_activated_socket_tells_the_path():
    """What the configuration says about it does not count: clients know this one."""
    with activated("other.sock") as feedd:
        consumer.read(feedd, "numbers", 10)
        assert feedd.status()["socket_path"].endswith("other.sock")
        assert feedd.statistics()["state"] == "alive"
        end(feedd)


def test_clients_that_came_before_it_are_served():
    """They connect while nobody accepts yet, as with a daemon that the service manager starts for them."""
    require_systemd()
    with harness.Instance() as feedd:
        data.add_records(feedd, samples=500, size=16)
        with consumer.Consumer(feedd, "numbers", 10, epochs=1, connect_timeout=20000) as reader:
            reader.expect_error("ECONNREFUSED")
        feedd.start(wrap=["sh", "-c", 'exec "$@"', "sh", sys.executable, "-c", ACTIVATE, feedd.socket])
        readers = [consumer.Consumer(feedd, "numbers", 10, epochs=1) for _ in range(5)]
        for reader in readers:
            assert expected.check_exactly_once(500, reader.finish()) == 1
        end(feedd)


def test_socket_that_is_none():
    """Something else at descriptor 3: refused in words."""
    require_systemd()
    with harness.Instance() as feedd:
        data.add_records(feedd)
        feedd.write_config()
        script = ACTIVATE.replace("AF_UNIX)", "AF_INET)").replace("listener.bind(sys.argv[1])", "")
        done = feedd.program(sys.executable, "-c", script, "x", harness.BUILD / "feedd", "--config", feedd.config, check=False)
        assert done.returncode == 1 and "service manager" in done.stderr, done
        assert not feedd.stats.exists()
